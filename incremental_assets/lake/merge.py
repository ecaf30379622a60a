"""Merging rows into a table by key: the files that hold a row that changes are written anew.

Copy on write, as Delta's MERGE does it: the keys of the table are looked up once, and only the
files with a row that loses are read whole. The files are staged and published like any others, so
a merge has the same fence and the same single commit as every other write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incremental_assets.frames import persisted, quoted, with_is_among
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.lookup import few_keys
from incremental_assets.lake.read import (
    DataFile,
    TableFiles,
    every_file,
    no_rows,
    plain_files,
    read_files,
)
from incremental_assets.lake.stage import Staged, stage
from incremental_assets.settings import local_path

GONE = "_gone"
OLD = "_old"
LOST = "_lost"
FILE = "_old_file"
_WINS = "_wins"
_TIE = "_tie"
_DOOMED = "_doomed"
_DECIDING = (FILE, GONE, OLD, _WINS, _TIE)


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge staged, which files it replaces, and rows changed per day of the new rows.

    Without days, all stand at None. `scope` are the files in which the keys were looked up.
    """

    staged: Staged
    replaced: tuple[str, ...]
    inserted: Mapping[date | None, int] = field(default_factory=dict)
    updated: Mapping[date | None, int] = field(default_factory=dict)
    deleted: int = 0
    scope: tuple[str, ...] = ()


def merge(
    session: SparkSession,
    incoming: DataFrame,
    path: str,
    folder: str,
    key: Sequence[str],
    wins: Column,
    compared: Sequence[str] = (),
    keep: Callable[[DataFile], bool] = every_file,
    day: str | None = "dt",
    ties: Ties | None = None,
    marks: Sequence[str] = (),
    *,
    nulls: bool = False,
) -> Merged:
    """Stage what the table's changed files hold once `incoming` (one row per key) is merged.

    `incoming` is read twice where the table is large: once for its keys alone.
    `wins` decides, for a key that the table has, whether the incoming row takes its place; in it
    `_old` is a struct of the `compared` columns of the table's row; no others are read to find
    out. A row with a true `_gone` deletes its key. `keep` names the files in which the keys may
    lie; `day` the column that the changes are counted by; `ties` what to do about rows of which
    only the hash decided; `marks` are columns that decide and are not kept; `folder` is where it is
    staged (`folder_of`). With `nulls` a null in a key is found as well: no row with one is let in,
    but an earlier version did. Raises LakeError for a table whose files cannot simply be written
    anew.
    """
    table = plain_files(path, version_of(path))
    scope = [file for file in table.files if keep(file)]
    if GONE not in incoming.columns:
        incoming = incoming.withColumn(GONE, F.lit(False))
    known = F.coalesce(wins, F.lit(False))
    tie = F.coalesce(ties.tie, F.lit(False)) if ties else F.lit(False)
    there = F.expr(f"{OLD} IS NOT NULL")
    with ExitStack() as kept:
        if scope:
            lookup = ", ".join(_columns(compared or key))
            present = read_files(session, table, scope, file_column=FILE)
            old = present.selectExpr(*_columns(key), f"struct({lookup}) AS {OLD}", FILE)
            few = kept.enter_context(few_keys(incoming.select(*_columns(key)), scope))
            if few is not None:
                old = F.broadcast(join_by_key(old, few, key, "left_semi", nulls=nulls))
            looked_up = join_by_key(incoming, old, key, "left", nulls=nulls)
        else:  # there is nothing to look them up in, so a first load need not plan it
            looked_up = incoming.withColumns(_nothing(table, compared or key))
        wins_or_not = F.when(there, known).otherwise(F.expr(f"NOT {GONE}"))
        decided = looked_up.withColumns({_WINS: wins_or_not, _TIE: tie}).where(f"{_WINS} OR {_TIE}")
        decided = kept.enter_context(persisted(decided))
        by = F.col(day) if day else F.lit(None).cast("date")
        counts = decided.groupBy(by.alias("day"), FILE, GONE, _WINS, _TIE).count().collect()
        if ties and any(row[_TIE] for row in counts):
            ties.record(decided.where(_TIE).drop(_WINS, _TIE, FILE))
        counts = [row for row in counts if row[_WINS]]
        touched = files_named(path, scope, {row[FILE] for row in counts if row[FILE]})
        new = decided.where(f"{_WINS} AND NOT {GONE}").drop(*marks, *_DECIDING)
        rest = None
        if touched:
            doomed = decided.where(f"{_WINS} AND {FILE} IS NOT NULL").select(*_columns(key))
            rest = read_files(session, table, touched)
            rest = join_by_key(rest, doomed, key, "left_anti", nulls=nulls)
        staged = stage_with(new, rest, table, folder)
    return Merged(
        staged,
        tuple(file.path for file in touched),
        _by_day(row for row in counts if not row[GONE] and row[FILE] is None),
        _by_day(row for row in counts if not row[GONE] and row[FILE] is not None),
        sum(row["count"] for row in counts if row[GONE]),
        tuple(file.path for file in scope),
    )


def join_by_key(
    left: DataFrame, right: DataFrame, key: Sequence[str], how: str, *, nulls: bool
) -> DataFrame:
    """Join by the columns of a key; with `nulls`, one that is null equals another that is."""
    if not nulls:
        return left.join(right, list(key), how)
    names = {name: f"_key_{at}" for at, name in enumerate(key)}
    same = " AND ".join(f"{quoted(name)} <=> {other}" for name, other in names.items())
    return left.join(right.withColumnsRenamed(names), F.expr(same), how).drop(*names.values())


def last_of_each(
    rows: DataFrame, key: Sequence[str], order: str, place: str, may_lose: str = "true"
) -> DataFrame:
    """The last row of each key, and those that only their `_hash` made lose, with a true `_lost`.

    `order` is the SQL that sorts the rows of a key, the last one first; rows at the same `place`
    (SQL) as the last one differ from it by their hash alone. `may_lose` says which rows can.
    """
    window = f"OVER (PARTITION BY {', '.join(_columns(key))} ORDER BY {order})"
    tied = f"_first <=> {place} AND _first_hash != _hash"
    return (
        rows.selectExpr(
            "*",
            f"row_number() {window} AS _rank",
            f"first({place}) {window} AS _first",
            f"first(_hash) {window} AS _first_hash",
        )
        .withColumn(LOST, F.expr(f"_rank > 1 AND {tied} AND {may_lose}"))
        .where(f"_rank = 1 OR {LOST}")
        .drop("_rank", "_first", "_first_hash")
    )


def delete_insert(
    session: SparkSession, incoming: DataFrame, path: str, folder: str, key: Sequence[str]
) -> Merged:
    """Stage `incoming`, any number of rows per key, in the place of the rows of its keys."""
    table = plain_files(path, version_of(path))
    keys = incoming.select(*_columns(key)).distinct()
    present = read_files(session, table, table.files, file_column=FILE)
    with few_keys(keys, table.files) as few:
        wanted = keys if few is None else few
        doomed = present.select(*_columns(key), FILE).join(wanted, list(key), "left_semi")
        counts = doomed.groupBy(FILE).count().collect()
    touched = files_named(path, table.files, {row[FILE] for row in counts})
    rest = read_files(session, table, touched).join(keys, list(key), "left_anti")
    staged = stage_with(incoming, rest, table, folder)
    return Merged(
        staged,
        tuple(file.path for file in touched),
        deleted=sum(row["count"] for row in counts),
        scope=tuple(file.path for file in table.files),
    )


@dataclass(frozen=True, slots=True)
class Ties:
    """What to do where only the hash decided between two rows of a key.

    `tie` tells such a row among the incoming ones, and may use `_old` as `wins` does; `record` is
    given these rows, with `_old`.
    """

    tie: Column
    record: Callable[[DataFrame], None]


def _nothing(table: TableFiles, compared: Sequence[str]) -> dict[str, Column]:
    """What looking keys up gives where the table has no row of them."""
    old = StructType([table.schema[name] for name in compared])
    return {OLD: F.lit(None).cast(old), FILE: F.lit(None).cast("string")}


def stage_with(new: DataFrame, rest: DataFrame | None, table: TableFiles, folder: str) -> Staged:
    """Stage new rows together with what is left of the files that are written anew, if any are."""
    own = {field.name: field.dataType for field in new.schema.fields}
    if rest is None and any(own.get(f.name) != f.dataType for f in table.schema.fields):
        rest = no_rows(new.sparkSession, table.schema)  # gives its columns and their types
    rows = new if rest is None else new.unionByName(rest, allowMissingColumns=True)
    first = [field.name for field in table.schema.fields if field.name in rows.columns]
    names = [*first, *(name for name in rows.columns if name not in first)]
    return stage(rows.select(*_columns(names)), table.path, folder, table.partition_by)


def replace_files_rows(
    session: SparkSession,
    incoming: DataFrame,
    path: str,
    folder: str,
    column: str,
    values: Collection[str],
    keep: Callable[[DataFile], bool],
) -> tuple[Merged, Mapping[tuple[date | None, ...], int]]:
    """Stage `incoming` in the place of the rows with one of the `values` in `column`.

    They are looked for in the files that `keep` keeps; there may be any number of values. Gives
    also the rows per partition that were only carried over from a file written anew.
    """
    table = plain_files(path, version_of(path))
    scope = [file for file in table.files if keep(file)]
    present = read_files(session, table, scope, file_column=FILE)
    present = with_is_among(present, _DOOMED, F.col(quoted(column)), values)
    partition = [F.col(name) for name in table.partition_by]
    found = (
        present.groupBy(FILE, *partition)
        .agg(F.count_if(_DOOMED).alias("doomed"), F.count_if(~F.col(_DOOMED)).alias("rest"))
        .where("doomed > 0")
        .collect()
    )
    touched = files_named(path, scope, {row[FILE] for row in found})
    carried: dict[tuple[date | None, ...], int] = {}
    for row in found:
        place = tuple(row[name] for name in table.partition_by)
        carried[place] = carried.get(place, 0) + row["rest"]
    rest = read_files(session, table, touched)
    rest = with_is_among(rest, _DOOMED, F.col(quoted(column)), values).where(f"NOT {_DOOMED}")
    rows = incoming.unionByName(rest.drop(_DOOMED))
    staged = stage(rows, path, folder, table.partition_by)
    gone = sum(row["doomed"] for row in found)
    return Merged(staged, tuple(f.path for f in touched), deleted=gone), carried


def _columns(names: Iterable[str]) -> list[str]:
    return [quoted(name) for name in names]


def files_named(path: str, files: Sequence[DataFile], uris: Collection[str]) -> list[DataFile]:
    """The files of a table that Spark calls by these URIs."""
    root = str(local_path(path) or path.partition("://")[2])
    relative = {unquote(uri).partition(f"{root}/")[2] for uri in uris}
    return [file for file in files if file.path in relative]


def _by_day(rows: Iterable[Row]) -> Mapping[date | None, int]:
    found: dict[date | None, int] = {}
    for row in rows:
        found[row["day"]] = found.get(row["day"], 0) + row["count"]
    return found
