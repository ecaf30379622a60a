"""Loading a snapshot by what differs from the snapshot before it."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TypedDict, Unpack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.snapshot_changes import CHANGE, changes_of
from incremental_assets.loaders.base import IncrementalLoader
from incremental_assets.loaders.options import (
    ColumnNames,
    LoaderOptions,
    moment_of,
    names_of,
    source_of,
    table_path_of,
)
from incremental_assets.loaders.result import LoadResult
from incremental_assets.loaders.target import Target, on
from incremental_assets.sources.source import Source


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
        snapshot_at: datetime | date | None = None,
        scope: ColumnNames = (),
        **options: Unpack[LoaderOptions],
    ) -> Target:
        """Compare the source with the snapshot, and bring the target and the snapshot up to it.

        Columns to `ignore` make no change. A snapshot that would delete a larger share of the rows
        than `max_deleted_share` is a SnapshotError. `snapshot_at` is the moment that it stands for,
        the load's by default (a
        date is its midnight in UTC); with `write=SCD2()` one that comes late is put in its place,
        without frames of its changes. Without
        a `watermark_path` the ledger lies in the snapshot's folder. The frames read what the load
        wrote (`<snapshot_path>/_changes`), so they stay right when the source is gone.
        `scope` are columns that name the part of the table that a snapshot is, such as a region:
        rows of other values are not deleted. The `options` of every loader are those of
        `LoaderOptions`.
        """
        key = names_of("primary_key", primary_key)
        snapshot = table_path_of("snapshot_path", snapshot_path)
        return self._target(
            table_name,
            source_of("source_path", source_path, options),
            target_path,
            watermark_path or f"{snapshot}/_ledger",
            SnapshotDiff(
                key,
                names_of("ignore", ignore),
                max_deleted_share,
                self._watermark(options),
                names_of("scope", scope),
            ),
            key,
            options,
            snapshot=snapshot,
            at=moment_of("snapshot_at", snapshot_at),
        )

    detect_changes = on(target, _detected)
