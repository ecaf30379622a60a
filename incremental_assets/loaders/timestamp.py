"""Loading what changed since a timestamp."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal, Unpack

from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.watermark import Nulls, as_text
from incremental_assets.loaders.base import IncrementalLoader
from incremental_assets.loaders.options import ColumnNames, LoaderOptions, moment_of, source_of
from incremental_assets.loaders.target import Target, on
from incremental_assets.sources.source import Source


class TimestampBasedLoader(IncrementalLoader):
    """Loads the rows whose timestamp is above the watermark of the last load."""

    def target(
        self,
        source_path: str | Path | Source,
        target_path: str | Path,
        watermark_path: str | Path,
        timestamp_column: str,
        table_name: str,
        *,
        primary_key: ColumnNames | None = None,
        lookback: timedelta = timedelta(0),
        nulls: Nulls = "raise",
        max_clock_skew: timedelta = timedelta(minutes=5),
        future: Literal["quarantine", "include"] = "quarantine",
        max_records: int | None = None,
        start_from: datetime | date | None = None,
        deleted_column: str = "",
        **options: Unpack[LoaderOptions],
    ) -> Target:
        """Append what is new, or with a `primary_key` merge the latest row of each key.

        The source is Delta, Parquet, JSON lines or CSV with a header, a file or a folder. Its
        timestamp column is a timestamp, a date or ISO 8601 text, UTC unless an offset is given.
        `lookback` reads again what lies so far below the watermark, for rows that become visible
        late. `nulls` and `future` decide what happens to rows without a timestamp, and to those
        more than `max_clock_skew` ahead of the clock. `max_records` takes the lowest first.
        `start_from` is the watermark of a target that was filled by other means; the load begins
        above it. `deleted_column` marks rows as deleted (`deleted_at`, `is_deleted`): null, false,
        no, off, 0 and "" mean that a row is live, any other value deletes its key. The `options` of
        every loader are those of `LoaderOptions`.
        Raises an IncrementalAssetsError; the watermark is then where it was.
        """
        return self._target(
            table_name,
            source_of("source_path", source_path, options),
            target_path,
            watermark_path,
            Timestamp(
                timestamp_column,
                lookback,
                nulls,
                max_clock_skew,
                future,
                self._watermark(options),
                deleted_column,
            ),
            primary_key,
            options,
            max_records=max_records,
            start=as_text(moment_of("start_from", start_from)),
        )

    load_incremental = on(target, Target.load)
