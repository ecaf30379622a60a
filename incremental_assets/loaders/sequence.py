"""Loading what has a higher number than the last load has seen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from incremental_assets.changes.by_sequence import Sequence
from incremental_assets.changes.watermark import Advance, Nulls, as_text
from incremental_assets.engine.target import TargetTable
from incremental_assets.loaders.base import (
    ColumnNames,
    IncrementalLoader,
    RuleOrRules,
    names_of,
    rules_of,
    source_of,
    table_path_of,
    write_of,
)
from incremental_assets.loaders.target import Target, on
from incremental_assets.sources.source import Source
from incremental_assets.sources.stored_files import Format
from incremental_assets.writes import WriteStrategy


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
        source_format: Format | None = None,
        on_gap: Literal["report", "wait", "fail"] = "report",
        gap_deadline: timedelta = timedelta(hours=1),
        most_gaps: int = 1000,
        lookback: int = 0,
        nulls: Nulls = "raise",
        partition_by: ColumnNames = (),
        rules: RuleOrRules = (),
        max_records: int | None = None,
        history: bool = False,
        ignore_changes_in: ColumnNames = (),
        write: WriteStrategy | None = None,
        watermark: Advance | None = None,
        start_from: int | None = None,
    ) -> Target:
        """Append what is new, or with a `primary_key` merge the row with the highest number.

        The sequence column holds whole numbers, also as text. Gaps are named in the log and in
        the result's notes; `on_gap` says what becomes of the rows after one, and `gap_deadline`
        how long `wait` waits. `lookback` reads again so many numbers below the watermark. The
        rest is as for `TimestampBasedLoader`.
        """
        key = names_of(primary_key)
        changes = Sequence(
            sequence_column,
            on_gap,
            nulls,
            gap_deadline,
            most_gaps,
            lookback,
            self._advance(watermark),
        )
        return self._target(
            TargetTable(
                table_name,
                source_of("source_path", source_path, source_format),
                table_path_of("target_path", target_path),
                table_path_of("watermark_path", watermark_path),
                changes,
                write_of(write, key, names_of(ignore_changes_in), history=history),
                key,
                names_of(partition_by),
                rules_of(rules),
                max_records,
                start=as_text(start_from),
            )
        )

    load_incremental = on(target, Target.load)
