"""Loading a snapshot by what differs from the snapshot before it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.snapshot_changes import CHANGE, changes_of
from incremental_assets.changes.watermark import Advance
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
from incremental_assets.loaders.result import LoadResult
from incremental_assets.loaders.target import Target, on
from incremental_assets.sources.source import Source
from incremental_assets.sources.stored_files import Format
from incremental_assets.writes import WriteStrategy


class DetectedChanges(TypedDict):
    """The changes between two snapshots: frames of the source's own columns, and the result.

    Deleted rows are as they were in the snapshot before, updated ones as they are now.
    """

    inserts: DataFrame
    updates: DataFrame
    deletes: DataFrame
    result: LoadResult


def _detected(target: Target) -> DetectedChanges:
    """Load a target, and read back what the load wrote down of its changes."""
    loaded, table = target.loaded(), target.table
    batch = loaded.entry.batch if loaded.entry else 0
    found = changes_of(target.spark, table.snapshot, table.key, batch)

    def of(kind: str) -> DataFrame:
        return found.where(F.col(CHANGE) == kind).drop(CHANGE)

    return {
        "inserts": of("insert"),
        "updates": of("update"),
        "deletes": of("delete"),
        "result": LoadResult.of(table.name, loaded),
    }


class DeltaDiffLoader(IncrementalLoader):
    """Finds inserts, updates and deletes between snapshots by a hash of each row."""

    def target(
        self,
        source_path: str | Path | Source,
        target_path: str | Path,
        snapshot_path: str | Path,
        primary_key: ColumnNames,
        table_name: str,
        watermark_path: str | Path | None = None,
        *,
        ignore: ColumnNames = (),
        max_deleted_share: float = 0.2,
        snapshot_at: datetime | None = None,
        source_format: Format | None = None,
        partition_by: ColumnNames = (),
        rules: RuleOrRules = (),
        history: bool = False,
        ignore_changes_in: ColumnNames = (),
        write: WriteStrategy | None = None,
        watermark: Advance | None = None,
    ) -> Target:
        """Compare the source with the snapshot, and bring the target and the snapshot up to it.

        Columns to `ignore` make no change. A snapshot that would delete a larger share of the rows
        than `max_deleted_share` is a SnapshotError. `snapshot_at` is the moment that it stands for,
        the load's by default; with `history` one that comes late is put in its place. Without a
        `watermark_path` the ledger lies in the snapshot's folder. The frames read what the load
        wrote (`<snapshot_path>/_changes`), so they stay right when the source is gone.
        """
        key = names_of(primary_key)
        if snapshot_at is not None and snapshot_at.tzinfo is None:
            snapshot_at = snapshot_at.replace(tzinfo=UTC)
        snapshot = table_path_of("snapshot_path", snapshot_path)
        ledger = table_path_of("watermark_path", watermark_path) if watermark_path else ""
        target = table_path_of("target_path", target_path)
        changes = SnapshotDiff(key, names_of(ignore), max_deleted_share, self._advance(watermark))
        return self._target(
            TargetTable(
                table_name,
                source_of("source_path", source_path, source_format),
                target,
                ledger or f"{snapshot}/_ledger",
                changes,
                write_of(write, key, names_of(ignore_changes_in), history=history),
                key,
                names_of(partition_by),
                rules_of(rules),
                snapshot=snapshot,
                at=snapshot_at,
            )
        )

    detect_changes = on(target, _detected)
