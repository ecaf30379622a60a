"""Staging data files in a table's folder, where no reader sees them until they are published.

A load stages its rows before its gate judges them: what the gate holds back is not published. A
writer that outlives its run (a Connect server goes on when its client is killed) leaves
unreferenced files, and VACUUM removes them like any other.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta.delta_log import partition_day
from incremental_assets.delta.delta_table import active_paths, field_of, open_table
from incremental_assets.delta.statistics import file_statistics
from incremental_assets.errors import LakeError
from incremental_assets.locations import local_path
from incremental_assets.storage import (
    StoredFile,
    files_below,
    folders_in,
    open_file,
    remove,
    spark_folder,
)

NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Rewritten files belong to no batch: abandoning one does not remove them.
NO_BATCH = "batch-000000"
_AT_ONCE = 16
_BATCH, _PARQUET = "batch-", ".parquet"
_NANOSECONDS_A_MILLISECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file: its path relative to the table, and what Delta's log needs of it.

    `modified` is in milliseconds since 1970.
    """

    path: str
    size: int
    modified: int
    partition: Mapping[str, str | None]
    rows: int
    statistics: str


@dataclass(frozen=True, slots=True)
class Staged:
    """The files of one write, and the columns they hold (as Spark's and Delta's schema JSON)."""

    table_path: str
    files: tuple[StagedFile, ...]
    fields: tuple[Mapping[str, Any], ...]

    @property
    def rows(self) -> Mapping[tuple[date | None, ...], int]:
        """Rows per partition; the partition columns of a lake are days."""
        found: dict[tuple[date | None, ...], int] = {}
        for file in self.files:
            key = tuple(partition_day(value) for value in file.partition.values())
            found[key] = found.get(key, 0) + file.rows
        return found

    def added(self, *, data_change: bool = True) -> list[AddAction]:
        """The `add` actions of the files; without `data_change` they add no new row."""
        return [
            AddAction(f.path, f.size, dict(f.partition), f.modified, data_change, f.statistics)
            for f in self.files
        ]

    def without(self, others: Staged) -> Staged:
        """The files that are not among the others."""
        return replace(self, files=tuple(f for f in self.files if f not in others.files))

    def only(self, column: str, days: Collection[date]) -> Staged:
        """The files whose partition is one of these days."""
        wanted = {str(day) for day in days}
        return replace(self, files=tuple(f for f in self.files if f.partition[column] in wanted))


def stage(rows: DataFrame, path: str, folder: str, partition_by: Sequence[str]) -> Staged:
    """Write the rows into a folder of their own inside the table's folder. One Spark job.

    `folder` is the beginning of its name (`folder_of`, or NO_BATCH). Raises LakeError if what Spark
    wrote cannot be read back.
    """
    folder = f"{folder}-{secrets.token_hex(4)}"
    seen = Observation() if _writes_elsewhere(rows.sparkSession) else None
    counted = rows if seen is None else rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    (
        counted.write.partitionBy(*partition_by)
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .parquet(spark_folder(f"{path}/{folder}"))
    )
    local = local_path(f"{path}/{folder}")
    if local is not None and not local.is_dir():
        raise _elsewhere(path, "Spark wrote a folder there, which this process does not see")
    data = [f for f in files_below(f"{path}/{folder}", _is_leftover) if f.path.endswith(_PARQUET)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        written = tuple(pool.map(lambda file: _staged(path, folder, file), data))
    files = tuple(file for file in written if file.rows)
    here = sum(file.rows for file in files)
    # Of a plan that was found empty nothing is observed.
    if seen is not None and files and seen.get["rows"] != here:
        found = f"Spark wrote {seen.get['rows']:,} rows there, of which this process sees {here:,}"
        raise _elsewhere(path, found)
    for file in written:
        if not file.rows:  # Spark writes one, if only for its columns
            remove(f"{path}/{file.path}")
    return Staged(path, files, tuple(map(field_of, rows.schema.fields)))


def _writes_elsewhere(session: SparkSession) -> bool:
    """Whether tasks may run on other machines, which may have another disk at that path."""
    return not (session.conf.get("spark.master", "") or "").startswith("local")


def _is_leftover(name: str) -> bool:
    """What an attempt of a task left that did not count, as below `_temporary`."""
    return name.startswith(("_", ".")) and "=" not in name


def _elsewhere(path: str, found: str) -> LakeError:
    return LakeError(
        f"{path}: {found}. Nothing was published. Every machine of Spark has to see the lake at "
        "this path, as one file system: mount it there, or have the lake in an object store "
        "(INCREMENTAL_ASSETS_LAKE), and run again."
    )


def discard(staged: Staged) -> None:
    """Remove staged files that will not be published."""
    for file in staged.files:
        remove(f"{staged.table_path}/{file.path}")


def discard_batch(path: str, app_id: str, number: int) -> None:
    """Remove what an abandoned batch had staged; its fence keeps it from being published.

    A folder of which the table's log has a file stays. So do those that an older version named
    after the number alone: their load is unknown, and VACUUM removes them.
    """
    prefix = f"{folder_of(app_id, number)}-"
    folders = [folder for folder in folders_in(path) if folder.startswith(prefix)]
    table = open_table(path) if folders else None
    held = {file.partition("/")[0] for file in active_paths(table)} if table else set()
    for folder in folders:
        if folder not in held:
            remove(f"{path}/{folder}")


def is_staged(path: str) -> bool:
    """Whether a file of a table lies in the folder of a batch: no other program wrote it."""
    return path.startswith(_BATCH)


def folder_of(app_id: str, number: int) -> str:
    """The beginning of the name of the folders in which a batch stages its files.

    It has the application and number of the Delta transaction that may publish them: several loads
    of one table each number their own batches.
    """
    return f"{_BATCH}{number:06d}-{hashlib.sha256(app_id.encode()).hexdigest()[:12]}"


def _staged(path: str, folder: str, file: StoredFile) -> StagedFile:
    try:
        with open_file(f"{path}/{folder}/{file.path}") as stream:
            rows, statistics = file_statistics(pq.read_metadata(stream))
    except (OSError, pa.ArrowInvalid) as error:
        raise LakeError(
            f"{path}/{folder}/{file.path}, which was written just now, cannot be read: {error}. "
            "Nothing was published; check the disk or the store, and run again."
        ) from error
    values = (part.split("=", 1) for part in file.path.split("/")[:-1])
    partition = {n: None if v == NO_PARTITION else unquote(v) for n, v in values}
    return StagedFile(
        f"{folder}/{file.path}",
        file.size,
        file.modified // _NANOSECONDS_A_MILLISECOND,
        partition,
        rows,
        statistics,
    )
