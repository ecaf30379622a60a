"""Merging rows into a table by key: the files that hold a row that changes are rewritten.

Copy on write, as Delta's MERGE does it: the keys of the table are looked up once, and only the
files with a row that loses are read whole. The files are staged and published like any others, so
a merge has the same fence and the same single commit as every other write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from incremental_assets.delta.columns import BATCH
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.lookup import few_keys, sent_if_few
from incremental_assets.delta.read import (
    DataFile,
    TableFiles,
    every_file,
    no_rows,
    plain_files,
    read_files,
)
from incremental_assets.delta.stage import Staged, stage
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import LakeError
from incremental_assets.frames import Frames, quoted, with_is_among
from incremental_assets.locations import local_path

TO_DELETE = "_to_delete"
OLD = "_old"
CONFLICT = "_conflict"
FILE = "_old_file"
_WINS = "_wins"
_IN_CONFLICT = "_in_conflict"
_KEY_HASH = "_key_hash"
# Hashes, of eight bytes, of so many keys are sent to each task rather than whole rows shuffled.
MOST_REPEATED = 1_000_000
_OF_OTHERS = "_of_others"
_DECIDING = (FILE, TO_DELETE, OLD, _WINS, _IN_CONFLICT)


def merge(
    frames: Frames,
    incoming: DataFrame,
    path: str,
    folder: str,
    key: Sequence[str],
    wins: Column,
    compared: Sequence[str] = (),
    keep: Callable[[DataFile], bool] = every_file,
    day: str | None = "dt",
    conflict: Column | None = None,
    helpers: Sequence[str] = (),
    *,
    nulls: bool = False,
) -> tuple[StagedWrite, DataFrame | None]:
    """Stage what the table's changed files hold once `incoming` (one row per key) is merged.

    `incoming` is read twice where the table is large: once for its keys alone.
    `wins` decides, for a key that the table has, whether the incoming row replaces the table's; in
    it `_old` is a struct of the `compared` columns of the table's row; no others are read to find
    out. A row with a true `_to_delete` deletes its key. `keep` is the pruning predicate: the files
    that may hold the keys; `day` the column that the changes are counted by. `conflict` selects
    incoming rows between which and the table's only the hash decided; these are given as well, with
    `_old`, None where there are none. `helpers` are columns that decide and are not kept; `folder`
    is where it is staged (`folder_of`). With `nulls` a null in a key is found as well: no row with
    one is let in, but an earlier version did. Raises LakeError for a table whose files cannot
    simply be rewritten.
    """
    version = version_of(path)
    table = plain_files(path, version)
    searched = [file for file in table.files if keep(file)]
    if TO_DELETE not in incoming.columns:
        incoming = incoming.withColumn(TO_DELETE, F.lit(False))
    known = F.coalesce(wins, F.lit(False))
    in_conflict = F.lit(False) if conflict is None else F.coalesce(conflict, F.lit(False))
    there = F.expr(f"{OLD} IS NOT NULL")
    compared, of_others = _with_others(table, searched, compared or key)
    if searched:
        lookup = ", ".join(_columns(compared))
        present = read_files(frames.session, table, searched, file_column=FILE)
        old = present.selectExpr(*_columns(key), f"struct({lookup}) AS {OLD}", FILE)
        few = few_keys(frames, incoming.selectExpr(*_columns(key)), searched)
        if few is not None:
            old = F.broadcast(join_by_key(old, few, key, "left_semi", nulls=nulls))
        looked_up = join_by_key(incoming, old, key, "left", nulls=nulls)
    else:  # there is nothing to look them up in, so a first load need not plan it
        looked_up = incoming.withColumns(_nothing(table, compared))
    wins_or_not = F.when(there, known).otherwise(F.expr(f"NOT {TO_DELETE}"))
    decided = looked_up.withColumns({_WINS: wins_or_not, _IN_CONFLICT: in_conflict}).where(
        f"{_WINS} OR {_IN_CONFLICT}"
    )
    decided = frames.cache(decided)
    by = F.col(day) if day else F.lit(None).cast("date")
    grouped = decided.groupBy(
        by.alias("day"), FILE, TO_DELETE, _WINS, _IN_CONFLICT, of_others.alias(_OF_OTHERS)
    )
    counts = grouped.count().collect()
    conflicts = None
    if any(row[_IN_CONFLICT] for row in counts):
        conflicts = decided.where(_IN_CONFLICT).drop(_WINS, _IN_CONFLICT, FILE)
    counts = [row for row in counts if row[_WINS]]
    touched = files_named(path, searched, {row[FILE] for row in counts if row[FILE]})
    new = decided.where(f"{_WINS} AND NOT {TO_DELETE}").drop(*helpers, *_DECIDING)
    if any(row[_OF_OTHERS] for row in counts):
        # Another program may have written a key twice, and an incoming row has met each of them.
        new = new.dropDuplicates([*key])
    rest = None
    if touched:
        replaced = decided.where(f"{_WINS} AND {FILE} IS NOT NULL").selectExpr(*_columns(key))
        rest = read_files(frames.session, table, touched)
        rest = join_by_key(rest, replaced, key, "left_anti", nulls=nulls)
    staged = stage_with(new, rest, table, folder)
    write = StagedWrite(
        staged,
        tuple(file.path for file in touched),
        _by_day(row for row in counts if not row[TO_DELETE] and row[FILE] is None),
        _by_day(row for row in counts if not row[TO_DELETE] and row[FILE] is not None),
        sum(row["count"] for row in counts if row[TO_DELETE]),
        tuple(file.path for file in searched),
        version,
    )
    return write, conflicts


def join_by_key(
    left: DataFrame, right: DataFrame, key: Sequence[str], how: str, *, nulls: bool
) -> DataFrame:
    """Join by the columns of a key; with `nulls`, one that is null equals another that is."""
    if not nulls:
        return left.join(right, list(key), how)
    names = {name: f"_key_{at}" for at, name in enumerate(key)}
    same = " AND ".join(f"{quoted(name)} <=> {other}" for name, other in names.items())
    return left.join(right.withColumnsRenamed(names), F.expr(same), how).drop(*names.values())


def rows_of_repeated_keys(
    frames: Frames, rows: DataFrame, key: Sequence[str]
) -> tuple[DataFrame, DataFrame] | None:
    """The rows whose key occurs once, and the other rows; None where many keys repeat.

    None, too, where texts that differ may be equal, by a collation.

    Finding the latest version of a key shuffles and sorts whole rows, and few rows need it. Finding
    these rows shuffles eight bytes a row, a hash of the key; so a few rows whose key occurs once
    may be among the others by chance.
    """
    kinds = (rows.schema[name].dataType for name in key)
    if any(isinstance(kind, StringType) and kind != StringType() for kind in kinds):
        return None
    same = F.xxhash64(*map(quoted, key))
    hashes = rows.select(same.alias(_KEY_HASH)).groupBy(_KEY_HASH).count().where("count > 1")
    repeated = sent_if_few(frames, hashes.select(_KEY_HASH), MOST_REPEATED)
    if repeated is None:
        return None
    marked = rows.join(repeated, same == F.col(_KEY_HASH), "left")
    alone = marked.where(f"{_KEY_HASH} IS NULL").drop(_KEY_HASH)
    return alone, marked.where(f"{_KEY_HASH} IS NOT NULL").drop(_KEY_HASH)


def latest_per_key(
    rows: DataFrame, key: Sequence[str], order: str, position: str, may_lose: str = "true"
) -> DataFrame:
    """The latest row of each key, and conflicts: rows that lost by their `_hash` alone.

    Conflicts have a true `_conflict`. `order` is the SQL that sorts the rows of a key, the latest
    one first; rows at the same `position` (SQL) as the latest differ from it by their hash alone.
    `may_lose` selects the rows that can be conflicts.
    """
    window = f"OVER (PARTITION BY {', '.join(_columns(key))} ORDER BY {order})"
    tied = f"_first <=> {position} AND _first_hash != _hash"
    return (
        rows.selectExpr(
            "*",
            f"row_number() {window} AS _rank",
            f"first({position}) {window} AS _first",
            f"first(_hash) {window} AS _first_hash",
        )
        .withColumn(CONFLICT, F.expr(f"_rank > 1 AND {tied} AND {may_lose}"))
        .where(f"_rank = 1 OR {CONFLICT}")
        .drop("_rank", "_first", "_first_hash")
    )


def delete_insert(
    frames: Frames, incoming: DataFrame, path: str, folder: str, key: Sequence[str]
) -> StagedWrite:
    """Stage `incoming`, any number of rows per key, in place of the rows of its keys."""
    table = plain_files(path, version_of(path))
    keys = incoming.selectExpr(*_columns(key)).distinct()
    present = read_files(frames.session, table, table.files, file_column=FILE)
    few = few_keys(frames, keys, table.files)
    wanted = keys if few is None else few
    old = present.selectExpr(*_columns(key), FILE).join(wanted, list(key), "left_semi")
    counts = old.groupBy(FILE).count().collect()
    touched = files_named(path, table.files, {row[FILE] for row in counts})
    rest = read_files(frames.session, table, touched).join(keys, list(key), "left_anti")
    staged = stage_with(incoming, rest, table, folder)
    return StagedWrite(
        staged,
        tuple(file.path for file in touched),
        deleted=sum(row["count"] for row in counts),
        searched_files=tuple(file.path for file in table.files),
    )


def _with_others(
    table: TableFiles, searched: Sequence[DataFile], compared: Sequence[str]
) -> tuple[Sequence[str], Column]:
    """The columns of the lookup, and which of its rows may be of another program.

    `_batch` is read only where the log does not show that each row of the files has one.
    """
    if not any(file.may_be_of_others for file in searched):
        return compared, F.lit(False)
    if BATCH not in table.schema.names:
        return compared, F.expr(f"{FILE} IS NOT NULL")
    named = compared if BATCH in compared else (*compared, BATCH)
    return named, F.expr(f"{FILE} IS NOT NULL AND {OLD}.{BATCH} IS NULL")


def _nothing(table: TableFiles, compared: Sequence[str]) -> dict[str, Column]:
    """The columns of the lookup, for a table without a row of the keys."""
    old = StructType([table.schema[name] for name in compared])
    return {OLD: F.lit(None).cast(old), FILE: F.lit(None).cast("string")}


def stage_with(new: DataFrame, rest: DataFrame | None, table: TableFiles, folder: str) -> Staged:
    """Stage new rows together with what is left of the files that are rewritten, if any are."""
    own = {field.name: field.dataType for field in new.schema.fields}
    if rest is None and any(own.get(f.name) != f.dataType for f in table.schema.fields):
        rest = no_rows(new.sparkSession, table.schema)  # gives its columns and their types
    rows = new if rest is None else new.unionByName(rest, allowMissingColumns=True)
    first = [field.name for field in table.schema.fields if field.name in rows.columns]
    names = [*first, *(name for name in rows.columns if name not in first)]
    return stage(rows.selectExpr(*_columns(names)), table.path, folder, table.partition_by)


def replace_rows(
    frames: Frames,
    incoming: DataFrame,
    path: str,
    folder: str,
    column: str,
    values: Collection[str],
    keep: Callable[[DataFile], bool],
) -> tuple[StagedWrite, Mapping[tuple[date | None, ...], int]]:
    """Stage `incoming` in place of the rows with one of the `values` in `column`.

    `keep` is the pruning predicate: the files that may hold such rows. There may be any number of
    values. Gives also the rows per partition that were carried forward from rewritten files.
    """
    table = plain_files(path, version_of(path))
    searched = [file for file in table.files if keep(file)]
    present = read_files(frames.session, table, searched, file_column=FILE)
    present = with_is_among(present, TO_DELETE, F.col(quoted(column)), values)
    partition_columns = [F.col(name) for name in table.partition_by]
    found = (
        present.groupBy(FILE, *partition_columns)
        .agg(F.count_if(TO_DELETE).alias("deleted"), F.count_if(~F.col(TO_DELETE)).alias("rest"))
        .where("deleted > 0")
        .collect()
    )
    touched = files_named(path, searched, {row[FILE] for row in found})
    carried_forward: dict[tuple[date | None, ...], int] = {}
    for row in found:
        partition = tuple(row[name] for name in table.partition_by)
        carried_forward[partition] = carried_forward.get(partition, 0) + row["rest"]
    rest = read_files(frames.session, table, touched)
    rest = with_is_among(rest, TO_DELETE, F.col(quoted(column)), values).where(f"NOT {TO_DELETE}")
    rows = incoming.unionByName(rest.drop(TO_DELETE))
    staged = stage(rows, path, folder, table.partition_by)
    deleted = sum(row["deleted"] for row in found)
    return StagedWrite(staged, tuple(f.path for f in touched), deleted=deleted), carried_forward


def _columns(names: Iterable[str]) -> list[str]:
    return [quoted(name) for name in names]


def files_named(path: str, files: Sequence[DataFile], uris: Collection[str]) -> list[DataFile]:
    """The files of a table that Spark calls by these URIs."""
    root = str(local_path(path) or path.partition("://")[2])
    relative = {unquote(uri).partition(f"{root}/")[2] for uri in uris}
    found = [file for file in files if file.path in relative]
    if relative - {file.path for file in found}:
        raise LakeError(
            f"{path}: Spark names its files differently, such as {min(uris)}, so they cannot be "
            "replaced. Nothing was published. Write the path of the lake (INCREMENTAL_ASSETS_LAKE) "
            "as Spark does, and run again."
        )
    return found


def _by_day(rows: Iterable[Row]) -> Mapping[date | None, int]:
    found: dict[date | None, int] = {}
    for row in rows:
        found[row["day"]] = found.get(row["day"], 0) + row["count"]
    return found
