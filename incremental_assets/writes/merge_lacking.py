"""Merging changes that lack the columns which did not change.

A column of the row of a key is that of the last change which has it, so the row may change by a
change that is older than it: one that comes late, with the column, or as a delete. So all that is
known of the keys is put together: the changes, the rows of the table and the last deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.columns import BATCH, DELETED, HASH, PARTIAL
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.earlier_values import lacked_columns, with_earlier_values
from incremental_assets.delta.lookup import few_keys
from incremental_assets.delta.merge import CONFLICT, TO_DELETE, join_by_key
from incremental_assets.delta.read import plain_files, read_files
from incremental_assets.frames import Frames, quoted
from incremental_assets.writes.destination import ChangeSet, Destination, struct_of
from incremental_assets.writes.latest import latest_changes

_IS_THERE, _WAS = "_is_there", "_was_partial"


@dataclass(frozen=True)
class Decided:
    """What becomes of the keys some of whose changes lack columns, whatever the table has.

    `rows` are written, or with a true `_to_delete` deleted; those with a true `_conflict` lost by
    their hash alone. `deletes` are new tombstones.
    """

    rows: DataFrame
    deletes: DataFrame


def decided(
    frames: Frames, to: Destination, changes: ChangeSet
) -> tuple[ChangeSet | None, Decided]:
    """The changes of keys that lack nothing, as they are (None: there are none), and the others."""
    rows = frames.cut(changes.changes)
    keys = rows.selectExpr(*map(quoted, to.key)).distinct()
    others = None
    if not frames.is_small:
        keys = frames.cut(_lacking_keys(frames, to, rows))
        apart = join_by_key(rows, keys, to.key, "left_anti", nulls=True)
        others = replace(changes, rows=apart)
        rows = join_by_key(rows, keys, to.key, "left_semi", nulls=True)
    every = rows.withColumn(_IS_THERE, F.lit(False))
    every = every.withColumn(_WAS, F.lit(None).cast(rows.schema[PARTIAL].dataType))
    there = _rows_there(frames, to, keys)
    if there is not None:
        every = every.unionByName(there, allowMissingColumns=True)
    deletes = to.last_deletes(frames, keys)
    if deletes is not None:
        deletes = deletes.join(keys, list(to.key), "left_semi")
        every = every.unionByName(_as_changes(deletes, to), allowMissingColumns=True)
    latest = latest_changes(whole_rows(frames, every, to), to, _IS_THERE)
    changed = latest.where(f"{CONFLICT} OR NOT {_IS_THERE} OR NOT ({PARTIAL} <=> {_WAS})")
    former = [quoted(name) for name in to.columns if name in latest.columns]
    written = changed.select(
        to.number,
        *dict.fromkeys((*to.written(changes.own), *former)),
        DELETED,
        CONFLICT,
        F.expr(f"{DELETED} OR {CONFLICT}").alias(TO_DELETE),
    )
    return others, Decided(written, _new_deletes(rows, deletes, to))


def _lacking_keys(frames: Frames, to: Destination, rows: DataFrame) -> DataFrame:
    """The keys of which a change of the batch, or the row of the table, lacks columns."""
    key = [quoted(name) for name in to.key]
    keys = rows.where(f"{PARTIAL} IS NOT NULL").select(*key)
    table = plain_files(to.path, version_of(to.path))
    files = [file for file in table.files if to.keep(file)]
    if files:
        there = read_files(frames.session, table, files).where(f"{PARTIAL} IS NOT NULL")
        came = rows.select(*key).distinct()
        keys = keys.unionByName(there.select(*key).join(came, list(to.key), "left_semi"))
    return keys.distinct()


def _new_deletes(rows: DataFrame, known: DataFrame | None, to: Destination) -> DataFrame:
    """The last delete of each key in the batch, where it is later than those that are known."""
    came = latest_changes(rows.where(DELETED), to).drop(CONFLICT)
    if known is None:
        return came
    later = f"_marker IS NULL OR {struct_of(to.position)} > _marker"
    return came.join(known, list(to.key), "left").where(later).drop("_marker")


def whole_rows(frames: Frames, rows: DataFrame, to: Destination) -> DataFrame:
    """The rows with the columns that they lack, as far as earlier ones have them."""
    rows = frames.cut(rows)
    lacked = lacked_columns(rows, to.key, to.order)
    if not lacked:
        return rows
    return with_earlier_values(rows, to.key, to.order, lacked)


def _rows_there(frames: Frames, to: Destination, keys: DataFrame) -> DataFrame | None:
    """The rows that the table has of the keys, as changes."""
    table = plain_files(to.path, version_of(to.path))
    files = [file for file in table.files if to.keep(file)]
    if not files:
        return None
    few = few_keys(frames, keys, files)
    present = read_files(frames.session, table, files)
    present = join_by_key(present, keys if few is None else few, to.key, "left_semi", nulls=False)
    given = {DELETED: F.lit(False), _IS_THERE: F.lit(True), _WAS: F.col(PARTIAL)}
    return present.withColumns(given).drop(BATCH)


def _as_changes(deletes: DataFrame, to: Destination) -> DataFrame:
    """The last delete of each key, as a change."""
    marker = (F.col("_marker").getField(name).alias(name) for name in to.position)
    return deletes.select(
        *map(quoted, to.key),
        *marker,
        F.lit("").alias(HASH),
        F.lit(True).alias(DELETED),
        F.lit(False).alias(_IS_THERE),
    )
