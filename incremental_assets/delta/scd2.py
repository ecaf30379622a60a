"""Merging changes into a history: the versions of each key, with the interval of their validity.

The intervals of the touched keys are derived again from all that is known of them: the versions of
the table, the superseded ones that are kept in a side table because they show nothing, and the new
ones. So late and out-of-order changes, repeats and deletes end in the same history in whatever
order they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, WHY
from incremental_assets.delta.delta_log import version_of
from incremental_assets.delta.lookup import few_keys
from incremental_assets.delta.merge import FILE, files_named, join_by_key, stage_with
from incremental_assets.delta.read import plain_files, read_files
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.frames import Frames, quoted

VALIDITY = ("valid_from", "valid_to", "is_current")
_FLAGS = ("_there", "_kept", "_said", "_old_from", "_old_to", "_old_first", FILE)


@dataclass(frozen=True, slots=True)
class Versions:
    """What makes a change a version: its key, its place in the order, and what it shows.

    `order` are columns that decide between changes of a key, the last of which is the row hash.
    Intervals are measured in the first of them or, where one is named, by the column `clock`,
    which is taken not to go back. `shown` is a hash of the columns whose change makes a new
    version. Of copies of one change, that with the lowest value in `first_by` stays, if such a
    column is named.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    shown: Column
    first_by: str = ""
    clock: str = ""

    @property
    def place(self) -> tuple[str, ...]:
        """What decides between changes at the same moment, but for the row hash."""
        return self.order[:-1] if self.clock else self.order[1:-1]

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells one change from every other."""
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
    carried: str = "",
) -> tuple[StagedWrite, DataFrame | None]:
    """Stage the versions of the keys that `incoming` touches; counts stand at no day.

    `incoming` holds changes: the table's own columns, those of the order and `_deleted`.
    Intervals are half-open, [valid_from, valid_to), without an end for the current version; a
    delete ends one. Of changes at the same place in the order the last one shows. What shows no
    version is given as well (with `_deleted` and `_why`; None where everything does), to be kept
    with `superseded`, which is all that was kept so before. Of the keys in `rebuilt`, what the
    table holds and neither of the two says is gone, unless it meets the condition `carried`; there
    null is a key as well. Inserted are new versions, updated those whose interval or values
    changed, deleted the deletes that ended a version.
    """
    table = plain_files(path, version_of(path))
    session = frames.session
    present = read_files(session, table, table.files, file_column=FILE) if table.files else None
    keys = rebuilt if rebuilt is not None else incoming.select(*_columns(versions.key)).distinct()
    few = few_keys(frames, keys, table.files)
    keys = keys if few is None else few
    counts_still = "true" if rebuilt is None else f"coalesce({carried or 'false'}, false)"
    events = _events(
        incoming, present, superseded, keys, versions, counts_still, nulls=rebuilt is not None
    )
    derived = frames.cache(_derived(events, versions))
    hidden = F.expr("NOT _visible AND NOT _kept AND NOT _void")
    nobody = F.expr(" OR ".join(f"{name} IS NULL" for name in _columns(versions.key)))
    counts = (
        derived.groupBy(FILE, "_visible", "_there", "_same")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(hidden).alias("hidden"),
            F.count_if(hidden & F.col("_ends")).alias("ends"),
            F.count_if(nobody & F.col("_there")).alias("nobody"),
        )
        .collect()
    )
    shows_none = None
    if any(row["hidden"] for row in counts):
        shows_none = derived.where(hidden).drop(*VALIDITY, *_FLAGS, *_DERIVED)
    changed = {r[FILE] for r in counts if r["_there"] and not r["_same"]}
    if present is not None and any(row["nobody"] for row in counts):
        # An earlier version let nulls in, again with each delivery: equal rows in many files.
        changed |= {r[FILE] for r in present.where(nobody).select(FILE).distinct().collect()}
    touched = files_named(path, table.files, changed)
    own = [name for name in derived.columns if name not in (*_FLAGS, *_DERIVED, DELETED, WHY)]
    new = derived.where("_visible AND NOT _same").select(*_columns(own))
    new = new.withColumn("_batch", F.lit(batch).cast("long"))
    rest = None
    if touched:
        gone = derived.where("_there AND NOT _same").selectExpr(
            *(f"{quoted(n)} AS {quoted(f'_gone_{n}')}" for n in versions.identity)
        )
        rest = read_files(session, table, touched).join(gone, _is_gone(versions), "left_anti")
    write = StagedWrite(
        stage_with(new, rest, table, folder),
        tuple(file.path for file in touched),
        {None: sum(r["rows"] for r in counts if r["_visible"] and not r["_there"])},
        {None: sum(r["rows"] for r in counts if r["_visible"] and r["_there"] and not r["_same"])},
        sum(r["ends"] for r in counts),
        tuple(file.path for file in table.files),
    )
    return write, shows_none


_AT = "_at"
_DERIVED = (_AT, "_visible", "_same", "_ends", "_shown", "_void")


def _events(
    incoming: DataFrame,
    present: DataFrame | None,
    superseded: DataFrame | None,
    keys: DataFrame,
    versions: Versions,
    counts_still: str,
    *,
    nulls: bool,
) -> DataFrame:
    """Every change that is known of the keys, once, with where it is known from.

    `counts_still` is the condition of what counts of the table's own versions.
    """
    key = list(versions.key)
    first = quoted(versions.first_by) if versions.first_by else "CAST(NULL AS date)"
    clock = f"{versions.clock}, " if versions.clock else ""
    events = incoming.selectExpr("*", "false AS _there", "false AS _kept", "true AS _said")
    if present is not None:
        known = (
            join_by_key(present, keys, key, "left_semi", nulls=nulls)
            .selectExpr(
                "*",
                "true AS _there",
                "false AS _kept",
                f"{counts_still} AS _said",
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
        kept = join_by_key(superseded, keys, key, "left_semi", nulls=nulls)
        kept = kept.selectExpr("*", "false AS _there", "true AS _kept", "true AS _said")
        kept = kept.drop("_batch", WHY)
        events = events.unionByName(kept, allowMissingColumns=True)
    same = ", ".join((*_columns(versions.identity), DELETED))
    copy = f"OVER (PARTITION BY {same} ORDER BY {first} NULLS LAST, {clock}_there DESC, _kept DESC)"
    flags = (f"max({name}) OVER (PARTITION BY {same}) AS {name}" for name in _FLAGS)
    others = [quoted(name) for name in events.columns if name not in _FLAGS]
    events = (
        events.selectExpr(*others, *flags, f"row_number() {copy} AS _copy")
        .where("_copy = 1")
        .withColumn("_void", F.expr("NOT _said"))
        .drop("_copy")
    )
    if not versions.clock:
        return events.withColumn(_AT, F.col(quoted(versions.order[0])))
    # Those at one place of the order are peers in the frame, and so at one moment.
    per_key = ", ".join((*_columns(versions.key), "_void"))
    so_far = f"PARTITION BY {per_key} ORDER BY {', '.join(_columns(versions.place))}"
    return events.withColumn(_AT, F.expr(f"max({versions.clock}) OVER ({so_far})"))


def _derived(events: DataFrame, versions: Versions) -> DataFrame:
    """Each change with the interval that it shows, if it shows one, and why if it does not."""
    key, at = ", ".join(map(quoted, versions.key)), _AT
    between, by_hash = _columns(versions.place), quoted(versions.order[-1])
    # At one place of the order a row beats a delete, so that a pair of both is an update.
    later = ", ".join((*(f"{n} DESC NULLS LAST" for n in between), DELETED))
    place = f"OVER (PARTITION BY {key}, _void, {at} ORDER BY {later}, {by_hash} DESC NULLS LAST)"
    same = " AND ".join(f"first({n}) {place} <=> {n}" for n in (*between, DELETED))
    first = f"_old_first <=> {quoted(versions.first_by)}" if versions.first_by else "true"
    in_order = f"PARTITION BY {key}, _void, _last ORDER BY {at} NULLS FIRST"
    run = f"OVER ({in_order})"
    since = f"OVER ({in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    return (
        events.withColumn("_shown", versions.shown)
        .selectExpr(
            "*",
            f"row_number() {place} = 1 AS _last",
            f"row_number() {place} > 1 AND {same} AS _tie",
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
            "_visible AND _there AND _old_from <=> valid_from AND _old_to <=> valid_to "
            f"AND {first} AS _same",
            f"CASE WHEN {DELETED} THEN 'deleted' WHEN _tie THEN 'lost by its hash alone' "
            "WHEN NOT _last THEN 'replaced at the same moment' ELSE 'no visible change' END "
            f"AS {WHY}",
        )
        .drop("_last", "_tie", "_state", "_starts", "_after_row", "_ended")
    )


def _is_gone(versions: Versions) -> Column:
    pairs = ((quoted(n), quoted(f"_gone_{n}")) for n in versions.identity)
    return F.expr(" AND ".join(f"{now} <=> {gone}" for now, gone in pairs))


def _columns(names: Sequence[str]) -> list[str]:
    return [quoted(name) for name in names]
