"""Merging changes into a history: the versions of each key, with the interval of their validity.

The intervals of the touched keys are derived anew from all that is known of them: the versions of
the table, the changes that are kept beside it because they show no version of their own, and the
new ones. So late and out-of-order changes, repeats and deletes end in the same history in whatever
order they come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from incremental_assets.frames import quoted
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.merge import FILE, Merged, files_named, stage_with
from incremental_assets.lake.read import plain_files, read_files

VALIDITY = ("valid_from", "valid_to", "is_current")
DELETED = "_deleted"
WHY = "_why"
_FLAGS = ("_there", "_kept", "_old_from", "_old_to", FILE)


@dataclass(frozen=True, slots=True)
class Versions:
    """What makes a change a version: its key, its place in the order, and what it shows.

    `order` are columns that decide between changes of a key, the first of which gives the units
    of the intervals and the last of which is the row hash. `shown` is a hash of the columns whose
    change makes a new version.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    shown: Column

    @property
    def at(self) -> str:
        """The column that the intervals are measured in."""
        return self.order[0]

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells one change from every other."""
        return (*self.key, *self.order)


def merge_history(
    session: SparkSession,
    incoming: DataFrame,
    beside: DataFrame | None,
    path: str,
    batch: int,
    versions: Versions,
    keep_beside: Callable[[DataFrame], None],
) -> Merged:
    """Stage the versions of the keys that `incoming` touches; counts stand at no day.

    `incoming` holds changes: the table's own columns, those of the order and `_deleted`.
    Intervals are half-open, [valid_from, valid_to), without an end for the current version; a
    delete ends one. Of changes at the same place in the order the last one shows. What shows no
    version goes to `keep_beside` (with `_deleted` and `_why`), and `beside` is all that went there
    before. Inserted are new versions, updated those whose interval or values changed, deleted the
    deletes that ended a version.
    """
    table = plain_files(path, version_of(path))
    present = read_files(session, table, table.files, file_column=FILE)
    keys = incoming.select(*_columns(versions.key)).distinct()
    events = _events(incoming, present, beside, keys, versions)
    derived = _derived(events, versions).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        doomed = F.col("_there") & ~F.col("_same")
        hidden = ~F.col("_visible") & ~F.col("_kept")
        counts = (
            derived.groupBy(FILE, "_visible", "_there", "_same")
            .agg(
                F.count(F.lit(1)).alias("rows"),
                F.count_if(hidden).alias("hidden"),
                F.count_if(hidden & F.col("_ends")).alias("ends"),
            )
            .collect()
        )
        if any(row["hidden"] for row in counts):
            keep_beside(derived.where(hidden).drop(*VALIDITY, *_FLAGS, *_DERIVED))
        changed = {r[FILE] for r in counts if r["_there"] and not r["_same"]}
        touched = files_named(path, table.files, changed)
        own = [name for name in derived.columns if name not in (*_FLAGS, *_DERIVED, DELETED, WHY)]
        new = derived.where("_visible AND NOT _same").select(*_columns(own))
        new = new.withColumn("_batch", F.lit(batch).cast("long"))
        gone = derived.where(doomed).select(
            *(F.col(quoted(n)).alias(f"_gone_{n}") for n in versions.identity)
        )
        rest = read_files(session, table, touched).join(gone, _is_gone(versions), "left_anti")
        staged = stage_with(new, rest, table, batch)
    finally:
        derived.unpersist()
    return Merged(
        staged,
        tuple(file.path for file in touched),
        {None: sum(r["rows"] for r in counts if r["_visible"] and not r["_there"])},
        {None: sum(r["rows"] for r in counts if r["_visible"] and r["_there"] and not r["_same"])},
        sum(r["ends"] for r in counts),
        tuple(file.path for file in table.files),
    )


_DERIVED = ("_visible", "_same", "_ends", "_shown")


def _events(
    incoming: DataFrame,
    present: DataFrame,
    beside: DataFrame | None,
    keys: DataFrame,
    versions: Versions,
) -> DataFrame:
    """Every change that is known of the keys, once, with where it is known from."""
    yes, no = F.lit(True), F.lit(False)
    new = incoming.withColumns({"_there": no, "_kept": no})
    key = list(versions.key)
    known = (
        present.join(keys, key, "left_semi")
        .withColumns(
            {
                "_there": yes,
                "_kept": no,
                DELETED: no,
                "_old_from": F.col("valid_from"),
                "_old_to": F.col("valid_to"),
            }
        )
        .drop(*VALIDITY, "_batch")
    )
    events = new.unionByName(known, allowMissingColumns=True)
    if beside is not None:
        kept = beside.join(keys, key, "left_semi").withColumns({"_there": no, "_kept": yes})
        events = events.unionByName(kept.drop("_batch", WHY), allowMissingColumns=True)
    same = Window.partitionBy(*_columns(versions.identity), DELETED)
    events = events.withColumn(
        "_copy", F.row_number().over(same.orderBy(F.col("_there").desc(), F.col("_kept").desc()))
    )
    flags = {name: F.max(name).over(same) for name in _FLAGS}
    return events.withColumns(flags).where("_copy = 1").drop("_copy")


def _derived(events: DataFrame, versions: Versions) -> DataFrame:
    """Each change with the interval that it shows, if it shows one, and why if it does not."""
    key, at = _columns(versions.key), F.col(versions.at)
    rest = versions.order[1:]
    # At one place of the order a row beats a delete, so that a pair of both is an update.
    later = [F.col(n).desc_nulls_last() for n in rest[:-1]]
    later += [F.col(DELETED).asc(), F.col(rest[-1]).desc_nulls_last()]
    place = Window.partitionBy(*key, at).orderBy(*later)
    ranked = events.withColumns(
        {
            "_shown": versions.shown,
            "_last": F.row_number().over(place) == 1,
            "_tie": _same_as_winner(rest[:-1], place),
        }
    )
    run = Window.partitionBy(*key, "_last").orderBy(at.asc_nulls_first())
    state = F.when(F.col(DELETED), F.lit("deleted")).otherwise(F.col("_shown"))
    runs = ranked.withColumn("_state", state).withColumns(
        {
            "_starts": ~F.lag("_state").over(run).eqNullSafe(F.col("_state")),
            "_after_row": F.coalesce(~F.lag(DELETED).over(run), F.lit(False)),
            "_ended": ~F.lead("_state").over(run).eqNullSafe(F.col("_state")),
            "_is_last": F.lead("_state").over(run).isNull(),
            "valid_to": F.lead(versions.at).over(run),
        }
    )
    began = F.last(F.when(F.col("_starts"), F.struct(at)), ignorenulls=True)
    since = began.over(run.rowsBetween(Window.unboundedPreceding, 0))
    visible = F.col("_last") & F.col("_ended") & ~F.col(DELETED)
    shown = runs.withColumns(
        {
            "_visible": visible,
            "valid_from": since.getField(versions.at),
            "is_current": F.col("_is_last"),
            "_ends": F.col(DELETED) & F.col("_last") & F.col("_starts") & F.col("_after_row"),
        }
    )
    unmoved = F.col("_old_from").eqNullSafe(F.col("valid_from"))
    unended = F.col("_old_to").eqNullSafe(F.col("valid_to"))
    why = (
        F.when(F.col(DELETED), F.lit("deleted"))
        .when(F.col("_tie"), F.lit("lost by its hash alone"))
        .when(~F.col("_last"), F.lit("replaced at the same moment"))
        .otherwise(F.lit("no visible change"))
    )
    return shown.withColumns(
        {"_same": F.col("_visible") & F.col("_there") & unmoved & unended, WHY: why}
    ).drop("_last", "_tie", "_state", "_starts", "_after_row", "_ended", "_is_last")


def _same_as_winner(decided_by: Sequence[str], place: WindowSpec) -> Column:
    """Whether only the hash decided against a change."""
    same = [F.first(n).over(place).eqNullSafe(F.col(n)) for n in (*decided_by, DELETED)]
    return (F.row_number().over(place) > 1) & reduce(Column.__and__, same)


def _is_gone(versions: Versions) -> Column:
    return reduce(
        Column.__and__,
        (F.col(quoted(n)).eqNullSafe(F.col(quoted(f"_gone_{n}"))) for n in versions.identity),
    )


def _columns(names: Sequence[str]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]
