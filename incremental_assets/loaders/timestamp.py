"""Loading what changed since a timestamp."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from incremental_assets.changes.by_timestamp import Timestamp
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
        source_format: Format | None = None,
        lookback: timedelta = timedelta(0),
        nulls: Nulls = "raise",
        max_clock_skew: timedelta = timedelta(minutes=5),
        future: Literal["quarantine", "include"] = "quarantine",
        partition_by: ColumnNames = (),
        rules: RuleOrRules = (),
        max_records: int | None = None,
        history: bool = False,
        ignore_changes_in: ColumnNames = (),
        write: WriteStrategy | None = None,
        watermark: Advance | None = None,
        start_from: datetime | None = None,
    ) -> Target:
        """Append what is new, or with a `primary_key` merge the latest row of each key.

        The source is Delta, Parquet, JSON lines or CSV with a header, a file or a folder. Its
        timestamp column is a timestamp, a date or ISO 8601 text, UTC unless an offset is given.
        `lookback` reads again what lies so far below the watermark, for rows that become visible
        late. `nulls` and `future` say what becomes of rows without a timestamp and of those more
        than `max_clock_skew` ahead of the clock. `history` keeps every version with `valid_from`,
        `valid_to` and `is_current`. `start_from` is the watermark of a target that was filled by
        other means; the load begins above it. `watermark` is a function like `next_watermark`.
        Raises an IncrementalAssetsError; the watermark is then where it was.
        """
        key = names_of(primary_key)
        changes = Timestamp(
            timestamp_column, lookback, nulls, max_clock_skew, future, self._advance(watermark)
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
