"""SCD2: merging changes into the versions of each key, each with the interval of its validity.

The intervals of the touched keys are derived again from all known changes: the versions of the
table, the superseded ones in its side table, which no row shows, and the new ones. So late and
out-of-order changes, repeats and deletes give the same versions in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, PARTIAL, WHY
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.earlier_values import (
    forgotten,
    lacked_columns,
    with_earlier_values,
)
from incremental_assets.delta.lookup import few_keys
from incremental_assets.delta.merge import FILE, files_named, join_by_key, stage_with
from incremental_assets.delta.read import plain_files, read_files
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames, quoted

VALIDITY = ("valid_from", "valid_to", "is_current")
_FLAGS = ("_in_table", "_in_side", "_counts", "_old_from", "_old_to", "_old_first", FILE)
_OLD_PARTIAL = "_old_partial"


@dataclass(frozen=True, slots=True)
class Versions:
    """What makes a change a version: its key, its position in the order, and what it shows.

    `order` are columns that decide between changes of a key, the last of which is the row hash.
    Intervals are measured in the first of them or, where one is named, by the column `clock`,
    which never goes back. `shown` is a hash of the columns whose change makes a new version. Of
    repeats of one change, that with the lowest value in `first_by` stays, if such a column is
    named.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    shown: Column
    first_by: str = ""
    clock: str = ""

    @property
    def position(self) -> tuple[str, ...]:
        """What decides between changes at the same moment, but for the row hash."""
        return self.order[:-1] if self.clock else self.order[1:-1]

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that identify a change."""
        return (*self.key, *self.order)


def merge_scd2(
    frames: Frames,
    incoming: DataFrame,
    superseded: DataFrame | None,
    path: str,
    batch: int,
    folder: str,
    versions: Versions,
    *,
    rebuilt: DataFrame | None = None,
    carried_forward: str = "",
) -> tuple[StagedWrite, DataFrame | None]:
    """Stage the versions of the keys that `incoming` touches; rows are counted at no day.

    `incoming` holds changes: the table's own columns, those of the order and `_deleted`.
    Intervals are half-open, [valid_from, valid_to), without an end for the current version; a
    delete ends one. Of changes at the same position in the order the last one shows. Changes that
    show no version are given as well (with `_deleted` and `_why`; None where all do), to be added
    to `superseded`, the rows of the side table. Of the keys in `rebuilt`, the table's versions that
    are in neither of the two are deleted, unless they meet the condition `carried_forward`; there
    null is a key as well. Inserted are new versions, updated those whose interval or values
    changed, deleted the deletes that ended a version.
    """
    table = plain_files(path, version_of(path))
    session = frames.session
    present = read_files(session, table, table.files, file_column=FILE) if table.files else None
    keys = (
        rebuilt if rebuilt is not None else incoming.selectExpr(*_columns(versions.key)).distinct()
    )
    few = few_keys(frames, keys, table.files)
    keys = keys if few is None else few
    counts_if = "true" if rebuilt is None else f"coalesce({carried_forward or 'false'}, false)"
    events = _events(
        incoming, present, superseded, keys, versions, counts_if, nulls=rebuilt is not None
    )
    if PARTIAL in events.columns:
        events = _with_earlier_values(frames, events, versions)
    derived = frames.cache(_derived(events, versions))
    hidden = F.expr("NOT _visible AND NOT _in_side AND NOT _void")
    no_key = F.expr(" OR ".join(f"{name} IS NULL" for name in _columns(versions.key)))
    counts = (
        derived.groupBy(FILE, "_visible", "_in_table", "_same")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(hidden).alias("hidden"),
            F.count_if(hidden & F.col("_ends")).alias("ends"),
            F.count_if(no_key & F.col("_in_table")).alias("no_key"),
        )
        .collect()
    )
    shows_none = None
    if any(row["hidden"] for row in counts):
        shows_none = derived.where(hidden).drop(*VALIDITY, *_FLAGS, *_DERIVED)
    changed = {r[FILE] for r in counts if r["_in_table"] and not r["_same"]}
    if present is not None and any(row["no_key"] for row in counts):
        # An earlier release let nulls in, again with each delivery: equal rows in many files.
        changed |= {r[FILE] for r in present.where(no_key).select(FILE).distinct().collect()}
    touched = files_named(path, table.files, changed)
    own = [name for name in derived.columns if name not in (*_FLAGS, *_DERIVED, DELETED, WHY)]
    new = derived.where("_visible AND NOT _same").selectExpr(*_columns(own))
    new = new.withColumn("_batch", F.lit(batch).cast("long"))
    rest = None
    if touched:
        replaced = derived.where("_in_table AND NOT _same").selectExpr(
            *(f"{quoted(n)} AS {quoted(f'_replaced_{n}')}" for n in versions.identity)
        )
        rest = read_files(session, table, touched).join(
            replaced, _is_replaced(versions), "left_anti"
        )
    new_versions = [r for r in counts if r["_visible"] and not r["_same"]]
    write = StagedWrite(
        stage_with(new, rest, table, folder),
        tuple(file.path for file in touched),
        {None: sum(r["rows"] for r in new_versions if not r["_in_table"])},
        {None: sum(r["rows"] for r in new_versions if r["_in_table"])},
        sum(r["ends"] for r in counts),
        tuple(file.path for file in table.files),
    )
    return write, shows_none


_AT = "_at"
_DERIVED = (_AT, "_visible", "_same", "_ends", "_shown", "_void", _OLD_PARTIAL)


def _events(
    incoming: DataFrame,
    present: DataFrame | None,
    superseded: DataFrame | None,
    keys: DataFrame,
    versions: Versions,
    counts_if: str,
    *,
    nulls: bool,
) -> DataFrame:
    """Every known change of the keys, once, with where it is known from.

    `counts_if` selects the table's own versions that count.
    """
    key = list(versions.key)
    first = quoted(versions.first_by) if versions.first_by else "CAST(NULL AS date)"
    clock = f"{versions.clock}, " if versions.clock else ""
    events = incoming.selectExpr("*", "false AS _in_table", "false AS _in_side", "true AS _counts")
    if present is not None:
        known = (
            join_by_key(present, keys, key, "left_semi", nulls=nulls)
            .selectExpr(
                "*",
                "true AS _in_table",
                "false AS _in_side",
                f"{counts_if} AS _counts",
                f"{first} AS _old_first",
                f"false AS {DELETED}",
                "valid_from AS _old_from",
                "valid_to AS _old_to",
            )
            .drop(*VALIDITY, "_batch")
        )
        events = events.unionByName(known, allowMissingColumns=True)
    else:  # there is nothing to look them up in, so a first load need not plan it
        unknown = (FILE, "_old_first", "_old_from", "_old_to")
        events = events.selectExpr("*", *(f"NULL AS {name}" for name in unknown))
    if superseded is not None:
        in_side = join_by_key(superseded, keys, key, "left_semi", nulls=nulls)
        in_side = in_side.selectExpr(
            "*", "false AS _in_table", "true AS _in_side", "true AS _counts"
        )
        in_side = in_side.drop("_batch", WHY)
        events = events.unionByName(in_side, allowMissingColumns=True)
    same = ", ".join((*_columns(versions.identity), DELETED))
    known_first = f"{first} NULLS LAST, {clock}_in_table DESC, _in_side DESC"
    repeats = f"OVER (PARTITION BY {same} ORDER BY {known_first})"
    flags = (f"max({name}) OVER (PARTITION BY {same}) AS {name}" for name in _FLAGS)
    others = [quoted(name) for name in events.columns if name not in _FLAGS]
    events = (
        events.selectExpr(*others, *flags, f"row_number() {repeats} AS _repeat")
        .where("_repeat = 1")
        .withColumn("_void", F.expr("NOT _counts"))
        .drop("_repeat")
    )
    if not versions.clock:
        return events.withColumn(_AT, F.col(quoted(versions.order[0])))
    # Changes at one position of the order are peers in the frame, and so at one moment.
    per_key = ", ".join((*_columns(versions.key), "_void"))
    so_far = f"PARTITION BY {per_key} ORDER BY {', '.join(_columns(versions.position))}"
    return events.withColumn(_AT, F.expr(f"max({versions.clock}) OVER ({so_far})"))


def _with_earlier_values(frames: Frames, events: DataFrame, versions: Versions) -> DataFrame:
    """The events with the values of columns that did not change; of the table's, what these were.

    They are looked up again for each: an event that comes late may be between two others.
    """
    events = frames.cut(events)
    lacked = lacked_columns(events, versions.key, versions.order)
    events = forgotten(events.withColumn(_OLD_PARTIAL, F.col(PARTIAL)), versions.order)
    if not lacked:
        return events
    return with_earlier_values(events, versions.key, versions.order, lacked, apart=("_void",))


def _derived(events: DataFrame, versions: Versions) -> DataFrame:
    """Each change with its interval if it shows a version, and with the reason if not."""
    key, at = ", ".join(map(quoted, versions.key)), _AT
    between, by_hash = _columns(versions.position), quoted(versions.order[-1])
    # At one position of the order a row beats a delete, so that a pair of both is an update.
    later = ", ".join((*(f"{n} DESC NULLS LAST" for n in between), DELETED))
    position = f"OVER (PARTITION BY {key}, _void, {at} ORDER BY {later}, {by_hash} DESC NULLS LAST)"
    same = " AND ".join(f"first({n}) {position} <=> {n}" for n in (*between, DELETED))
    first = f"_old_first <=> {quoted(versions.first_by)}" if versions.first_by else "true"
    if PARTIAL in events.columns:
        first = f"{first} AND {PARTIAL} <=> {_OLD_PARTIAL}"
    in_order = f"PARTITION BY {key}, _void, _last ORDER BY {at} NULLS FIRST"
    run = f"OVER ({in_order})"
    since = f"OVER ({in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return (
        events.withColumn("_shown", versions.shown)
        .selectExpr(
            "*",
            f"row_number() {position} = 1 AS _last",
            f"row_number() {position} > 1 AND {same} AS _in_conflict",
            f"if({DELETED}, 'deleted', _shown) AS _state",
        )
        .selectExpr(
            "*",
            f"NOT (lag(_state) {run} <=> _state) AS _starts",
            f"coalesce(NOT lag({DELETED}) {run}, false) AS _after_row",
            f"NOT (lead(_state) {run} <=> _state) AS _ended",
            f"lead(_state) {run} IS NULL AS is_current",
            f"lead({at}) {run} AS valid_to",
        )
        .selectExpr(
            "*",
            f"_last AND _ended AND NOT {DELETED} AND NOT _void AS _visible",
            f"(last(CASE WHEN _starts THEN struct({at} AS at) END, true) {since}).at AS valid_from",
            f"{DELETED} AND _last AND _starts AND _after_row AND NOT _void AS _ends",
        )
        .selectExpr(
            "*",
            "_visible AND _in_table AND _old_from <=> valid_from AND _old_to <=> valid_to "
            f"AND {first} AS _same",
            f"CASE WHEN {DELETED} THEN 'deleted' WHEN _in_conflict THEN 'lost by its hash alone' "
            "WHEN NOT _last THEN 'replaced at the same moment' ELSE 'no visible change' END "
            f"AS {WHY}",
        )
        .drop("_last", "_in_conflict", "_state", "_starts", "_after_row", "_ended")
    )


def _is_replaced(versions: Versions) -> Column:
    pairs = ((quoted(n), quoted(f"_replaced_{n}")) for n in versions.identity)
    return F.expr(" AND ".join(f"{now} <=> {replaced}" for now, replaced in pairs))


def _columns(names: Sequence[str]) -> list[str]:
    return [quoted(name) for name in names]
