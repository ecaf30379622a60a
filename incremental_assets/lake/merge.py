"""Merging rows into a table by key: the files that hold a row that changes are written anew.

Copy on write, as Delta's MERGE does it: the keys of the table are looked up once, and only the
files with a row that loses are read whole. The files are staged and published like any others, so
a merge has the same fence and the same single commit as every other write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import unquote

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.read import DataFile, every_file, plain_files, read_files
from incremental_assets.lake.stage import Staged, stage
from incremental_assets.settings import local_path

GONE = "_gone"
OLD = "_old"
_FILE = "_old_file"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge staged, which files it replaces, and rows changed per day of the new rows."""

    staged: Staged
    replaced: tuple[str, ...]
    inserted: Mapping[date, int] = field(default_factory=dict)
    updated: Mapping[date, int] = field(default_factory=dict)
    deleted: int = 0


def merge(
    session: SparkSession,
    incoming: DataFrame,
    path: str,
    batch: int,
    key: Sequence[str],
    wins: Column,
    compared: Sequence[str] = (),
    keep: Callable[[DataFile], bool] = every_file,
) -> Merged:
    """Stage what the table's changed files hold once `incoming` (one row per key) is merged.

    `wins` decides, for a key that the table has, whether the incoming row takes its place; in it
    `_old` is a struct of the `compared` columns of the table's row; no others are read to find
    out. A row with a true `_gone` deletes its key. `keep` names the files in which the keys may
    lie. Raises LakeError for a table whose files cannot simply be written anew.
    """
    table = plain_files(path, version_of(path))
    scope = [file for file in table.files if keep(file)]
    present = read_files(session, table, scope, file_column=_FILE)
    old = present.select(*key, F.struct(*(compared or key)).alias(OLD), _FILE)
    gone = F.col(GONE) if GONE in incoming.columns else F.lit(False)
    decided = (
        incoming.join(old, list(key), "left")
        .withColumn(GONE, gone)
        .where((F.col(OLD).isNull() & ~F.col(GONE)) | (F.col(OLD).isNotNull() & wins))
        .drop(OLD)
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        counts = decided.groupBy("dt", _FILE, GONE).count().collect()
        touched = _named(path, scope, {row[_FILE] for row in counts if row[_FILE]})
        new = decided.where(~F.col(GONE)).drop(_FILE, GONE)
        doomed = decided.where(F.col(_FILE).isNotNull()).select(*key)
        rest = read_files(session, table, touched).join(doomed, list(key), "left_anti")
        names = [n for n in rest.columns if n in new.columns]
        names += [n for n in new.columns if n not in names]
        names += [n for n in rest.columns if n not in names]
        rows = new.unionByName(rest, allowMissingColumns=True).select(*names)
        staged = stage(rows, path, batch, table.partition_by)
    finally:
        decided.unpersist()
    return Merged(
        staged,
        tuple(file.path for file in touched),
        _by_day(row for row in counts if not row[GONE] and row[_FILE] is None),
        _by_day(row for row in counts if not row[GONE] and row[_FILE] is not None),
        sum(row["count"] for row in counts if row[GONE]),
    )


def replace_files_rows(
    session: SparkSession,
    incoming: DataFrame,
    path: str,
    batch: int,
    doomed: Column,
    keep: Callable[[DataFile], bool],
) -> tuple[Merged, Mapping[tuple[date | None, ...], int]]:
    """Stage `incoming` in the place of the rows that meet `doomed` in the files that `keep` keeps.

    Gives also the rows per partition that were only carried over from a file written anew.
    """
    table = plain_files(path, version_of(path))
    scope = [file for file in table.files if keep(file)]
    present = read_files(session, table, scope, file_column=_FILE)
    partition = [F.col(name) for name in table.partition_by]
    found = (
        present.groupBy(_FILE, *partition)
        .agg(F.count_if(doomed).alias("doomed"), F.count_if(~doomed).alias("rest"))
        .where("doomed > 0")
        .collect()
    )
    touched = _named(path, scope, {row[_FILE] for row in found})
    carried: dict[tuple[date | None, ...], int] = {}
    for row in found:
        place = tuple(row[name] for name in table.partition_by)
        carried[place] = carried.get(place, 0) + row["rest"]
    rest = read_files(session, table, touched).where(~doomed)
    rows = incoming.unionByName(rest)
    staged = stage(rows, path, batch, table.partition_by)
    gone = sum(row["doomed"] for row in found)
    return Merged(staged, tuple(f.path for f in touched), deleted=gone), carried


def _named(path: str, files: Sequence[DataFile], uris: Collection[str]) -> list[DataFile]:
    """The files of a table that Spark calls by these URIs."""
    root = str(local_path(path) or path.partition("://")[2])
    relative = {unquote(uri).partition(f"{root}/")[2] for uri in uris}
    return [file for file in files if file.path in relative]


def _by_day(rows: Iterable[Row]) -> Mapping[date, int]:
    found: dict[date, int] = {}
    for row in rows:
        found[row["dt"]] = found.get(row["dt"], 0) + row["count"]
    return found
