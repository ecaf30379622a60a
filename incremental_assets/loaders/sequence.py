"""Loading what has a higher number than the last load has seen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal, Unpack
from warnings import warn

from incremental_assets.changes.by_sequence import MOST_GAPS, Sequence
from incremental_assets.changes.watermark import Nulls, as_text
from incremental_assets.loaders.base import IncrementalLoader
from incremental_assets.loaders.options import ColumnNames, LoaderOptions, number_of, source_of
from incremental_assets.loaders.target import Target, on
from incremental_assets.sources.source import Source


class SequenceBasedLoader(IncrementalLoader):
    """Loads the rows whose number is above the highest of the last load, and those in its gaps."""

    def target(
        self,
        source_path: str | Path | Source,
        target_path: str | Path,
        watermark_path: str | Path,
        sequence_column: str,
        table_name: str,
        *,
        primary_key: ColumnNames | None = None,
        on_gap: Literal["report", "wait", "fail"] = "report",
        gap_deadline: timedelta = timedelta(hours=1),
        max_gaps: int = 1000,
        lookback: int = 0,
        nulls: Nulls = "raise",
        max_records: int | None = None,
        start_from: int | None = None,
        most_gaps: int | None = None,  # deprecated in 0.1
        **options: Unpack[LoaderOptions],
    ) -> Target:
        """Append what is new, or with a `primary_key` merge the row with the highest number.

        The sequence column holds whole numbers, also as text. Gaps are named in the log and in
        the result's notes; `on_gap` is what happens to the rows after one, and `gap_deadline`
        how long `wait` waits. `lookback` reads again so many numbers below the watermark. The
        rest is as for `TimestampBasedLoader`.
        """
        if most_gaps is not None:
            warn(MOST_GAPS, DeprecationWarning, stacklevel=3)  # the call of load_incremental
            max_gaps = most_gaps
        watermark = self._watermark(options)
        return self._target(
            table_name,
            source_of("source_path", source_path, options),
            target_path,
            watermark_path,
            Sequence(sequence_column, on_gap, nulls, gap_deadline, max_gaps, lookback, watermark),
            primary_key,
            options,
            max_records=max_records,
            start=as_text(number_of("start_from", start_from)),
        )

    load_incremental = on(target, Target.load)
