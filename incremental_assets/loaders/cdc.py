"""Loading a change log: inserts, updates and deletes, flat or in Debezium's envelopes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.operations import Operation
from incremental_assets.changes.watermark import Advance
from incremental_assets.choices import require_choice
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


class CDCLoader(IncrementalLoader):
    """Applies the events of a change log that have not been read yet."""

    def target(
        self,
        cdc_source_path: str | Path | Source,
        target_path: str | Path,
        watermark_path: str | Path,
        primary_key: ColumnNames,
        table_name: str,
        *,
        cdc_format: Literal["flat", "debezium"] = "flat",
        operation_column: str = "operation",
        sequence_column: str = "sequence_num",
        operations: Mapping[str, Operation] | None = None,
        source_format: Format | None = None,
        partition_by: ColumnNames = (),
        rules: RuleOrRules = (),
        max_records: int | None = None,
        history: bool = False,
        ignore_changes_in: ColumnNames = (),
        write: WriteStrategy | None = None,
        watermark: Advance | None = None,
    ) -> Target:
        """Bring the target to what the log says; its rows are the live ones.

        What is new are the log's files, or the commits of a Delta log, that were not read yet; an
        event with a lower number that comes later is put in its place. Operations are named as
        most systems name them (INSERT, U, update_postimage, …); `operations` adds words of one's
        own. The target holds the source's own columns without those of the log, and what begins
        with `_`; tombstones are kept in a side table, so that nothing older brings a row back. With
        `history` it holds every version. `max_records` takes whole files, at least one.
        """
        key = names_of(primary_key)
        require_choice("cdc_format", cdc_format, ("flat", "debezium"))
        debezium = cdc_format == "debezium"
        changes = (
            ChangeLog.debezium(watermark=self._advance(watermark))
            if debezium
            else ChangeLog(
                operation_column,
                sequence_column,
                operations or {},
                watermark=self._advance(watermark),
            )
        )
        return self._target(
            TargetTable(
                table_name,
                source_of("cdc_source_path", cdc_source_path, source_format),
                table_path_of("target_path", target_path),
                table_path_of("watermark_path", watermark_path),
                changes,
                write_of(write, key, names_of(ignore_changes_in), history=history),
                key,
                names_of(partition_by),
                rules_of(rules),
                max_records,
            )
        )

    process_cdc = on(target, Target.load)
