"""What differs between two snapshots, and the snapshots that a table of changes stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.position import parsed, state_of
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.read import DataFile, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.snapshot_base import (
    base_before,
    comparison_of,
    is_due,
    loaded_days,
    write_base,
)
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, with_is_among
from incremental_assets.ledger.entry import Entry
from incremental_assets.row_hash import HASH_VERSION, payload_hash

OPERATION, KEY, HASH = "_operation", "_key", "_hash"
COVERED, UNITS = "_covered", "units"
STATE = (KEY, HASH, "payload", "_file")
MOST_UNITS = 10_000
_ALL_TEXTS = r'^\[(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[,\]])++$'
"""A stored key whose parts are texts. It gives back no character: a long key is no long search."""
CARRIED_FORWARD = "carried"
"""The operation of a row that a damaged snapshot lacks, carried forward from the one before."""


def identified(rows: DataFrame, batch: Batch) -> DataFrame:
    """Rows with `payload`, `_raw` and `_file`, and what identifies them: `_key` and `_hash`."""
    comparison = comparison_of(batch)
    line = F.concat(F.lit("line:"), F.substring(F.sha2(F.col("_raw"), 256), 1, 32))
    whole = payload_hash("payload", comparison.ignore)
    return rows.select(
        "payload",
        "_raw",
        "_file",
        _identity(comparison.key).alias(KEY),
        F.when(F.col("_raw").isNotNull(), line).otherwise(whole).alias(HASH),
    )


def _identity(key: Sequence[str]) -> Column:
    """The key of a payload, as a JSON array; null where a part of it is missing.

    A number or boolean counts as its text, which `9` and `"9"` have in a typed table, too.
    """
    fields = F.col("payload").try_cast("map<string,variant>")
    parts = [F.try_element_at(fields, F.lit(name)) for name in key]
    there = [part.isNotNull() & ~F.is_variant_null(part) for part in parts]
    complete = there[0]
    for each in there[1:]:
        complete &= each
    texts = F.concat_ws(",", *map(_part, parts))
    return F.when(complete, F.concat(F.lit("["), texts, F.lit("]")))


def _part(value: Column) -> Column:
    json = F.to_json(value)
    as_it_is = F.left(json, F.lit(1)).isin('"', "{", "[")
    text = F.concat(F.lit('"'), value.try_cast("string"), F.lit('"'))
    return F.when(as_it_is, json).otherwise(text)


def as_identified_now(key: Sequence[str]) -> Column:
    """A stored key as `identified` has it: before, numbers and booleans were stored as such."""
    return F.when(F.col(KEY).rlike(_ALL_TEXTS), F.col(KEY)).otherwise(_identity(key))


@dataclass(frozen=True)
class Units:
    """The units that a snapshot covers: values of the columns `scope`, as JSON; all without any."""

    scope: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def marked(self, rows: DataFrame) -> DataFrame:
        """The rows with `_covered`: whether their unit is one of these."""
        if not self.scope:
            return rows.withColumn(COVERED, F.lit(True))
        return with_is_among(rows, COVERED, unit_of(self.scope), self.texts)

    def uncovered(self, rows: DataFrame) -> DataFrame:
        """The rows of other units."""
        return self.marked(rows).where(~F.col(COVERED)).drop(COVERED)

    def covered(self, rows: DataFrame) -> DataFrame:
        """The rows of these units."""
        return self.marked(rows).where(COVERED).drop(COVERED) if self.scope else rows


ALL_UNITS = Units()


def unit_of(scope: Sequence[str]) -> Column:
    """The unit of a payload's row, as JSON; a column that is missing counts as null."""
    fields = F.col("payload").try_cast("map<string,variant>")
    return F.to_json(F.array(*(F.try_element_at(fields, F.lit(name)) for name in scope)))


def units_in(snapshot: DataFrame, batch: Batch) -> Units:
    """The units that a snapshot covers: those of its readable rows.

    Raises SourceError where no row has a column of the scope, or the rows have too many units.
    """
    scope = comparison_of(batch).scope
    if not scope:
        return ALL_UNITS
    fields = F.col("payload").try_cast("map<string,variant>")
    has = [F.max(F.try_element_at(fields, F.lit(name)).isNotNull()) for name in scope]
    rows = snapshot.where(f"{KEY} IS NOT NULL").groupBy(unit_of(scope)).agg(*has)
    found = rows.limit(MOST_UNITS + 1).collect()
    missing = [name for n, name in enumerate(scope, 1) if not any(row[n] for row in found)]
    if found and missing:
        raise SourceError(
            f"{batch.table.name}: no row of the snapshot has {', '.join(map(repr, missing))}, so "
            "which part of the table it is is unknown. Nothing was loaded; name columns in scope "
            "that it has, or repair it."
        )
    if len(found) > MOST_UNITS:
        raise SourceError(
            f"{batch.table.name}: the snapshot has rows of more than {MOST_UNITS:,} units "
            f"({', '.join(scope)}). Nothing was loaded; name columns in scope that name the part "
            "of the table a snapshot is, such as a region."
        )
    return Units(scope, tuple(sorted(row[0] for row in found)))


def units_of_day(batch: Batch, day: date) -> Units:
    """The units that the snapshot of a day covers, as the ledger has them."""
    scope = comparison_of(batch).scope
    if not scope:
        return ALL_UNITS
    state = parsed(batch.view.table(batch.table.name).position(day))
    # Before there was a scope, a snapshot covered all.
    return Units(scope, tuple(state[UNITS])) if UNITS in state else ALL_UNITS


def state_before(session: SparkSession, batch: Batch, day: date) -> DataFrame:
    """What the table knows just before a day: the last change of each key."""
    return _last(
        session, batch, f"_landing_day < '{day}' AND {OPERATION} != '{CARRIED_FORWARD}'", day
    )


def state_at(session: SparkSession, batch: Batch, day: date) -> DataFrame:
    """What the table knows on a day, with what the day's snapshot only carried forward."""
    return _last(
        session, batch, f"_landing_day <= '{day}' AND {OPERATION} != '{CARRIED_FORWARD}'", day
    )


def snapshot_rows(session: SparkSession, batch: Batch, day: date) -> DataFrame:
    """The readable rows that the snapshot of a day held itself."""
    held = f"{OPERATION} != '{CARRIED_FORWARD}' OR _landing_day = '{day}'"
    rows = _last(session, batch, f"_landing_day <= '{day}' AND ({held})", day)
    return units_of_day(batch, day).covered(rows)


def with_rest_of_day(
    frames: Frames, batch: Batch, day: date, snapshot: DataFrame, units: Units
) -> tuple[DataFrame, Units]:
    """A snapshot with the other units that came on its day, from a source that forgets them.

    Where they came with unreadable lines, these are kept as well: they may be of those units.
    """
    if not units.scope or day not in loaded_days(batch):
        return snapshot, units
    earlier = units_of_day(batch, day)
    if earlier.scope and not {*earlier.texts} - {*units.texts}:
        return snapshot, units
    session, none = frames.session, F.lit(None).cast("string")
    rows = units.uncovered(snapshot_rows(session, batch, day)).withColumn("_raw", none)
    lines = unread_lines(_lines_of(session, batch, day), day)
    uncovered = [
        each.join(snapshot.select(by), by, "left_anti").select(*snapshot.columns)
        for each, by in ((rows, KEY), (lines, HASH))
    ]
    every = frames.cache(reduce(DataFrame.unionByName, uncovered, snapshot))
    both = Units(units.scope, tuple(sorted({*earlier.texts, *units.texts})))
    return every, both if earlier.scope else ALL_UNITS


def keep_base(session: SparkSession, batch: Batch, day: date) -> None:
    """Write the base again where a load of this day would have to read much of what came since."""
    until = is_due(batch, day)
    if until is not None:
        version = version_of(batch.path)
        write_base(batch, state_at(session, batch, until), until, version)


def _last(session: SparkSession, batch: Batch, where: str, until: date) -> DataFrame:
    base = base_before(batch, until)

    def keep(file: DataFile) -> bool:
        day = file.partition["_landing_day"]
        return bool(day <= until and (base is None or day > base.until))

    rows = read_version(session, batch.path, version_of(batch.path), keep)
    rows = rows.select(OPERATION, "_landing_day", *STATE)
    if base is not None:
        rows = rows.where(f"_landing_day > '{base.until}'").unionByName(base.rows(session))
    rows = rows.where(f"{KEY} IS NOT NULL AND {where}")
    rows = rows.withColumn(KEY, as_identified_now(comparison_of(batch).key))
    # Of one key, an older version may have found a delete of `9` and an insert of `"9"` on one day.
    # Of these the row counts, as in a table over it, where a row beats a delete at one position.
    is_row = ~F.col(OPERATION).isin("delete", CARRIED_FORWARD)
    order = F.struct("_landing_day", is_row)
    last = F.max_by(F.struct(OPERATION, HASH, "payload", "_file"), order)
    state = rows.groupBy(KEY).agg(last.alias("last")).select(KEY, "last.*")
    state = state.where(f"{OPERATION} NOT IN ('delete', '{CARRIED_FORWARD}')")
    if not _as_before(batch):
        state = state.withColumn(HASH, payload_hash("payload", comparison_of(batch).ignore))
    return state.select(*STATE)


def differing(
    before: DataFrame, now: DataFrame, day: date, *, damaged: bool, units: Units = ALL_UNITS
) -> DataFrame:
    """The changes from one snapshot to another, on a day.

    What a damaged snapshot lacks is not deleted but carried forward. A row of a unit that the
    snapshot does not cover stays without a change.
    """
    old = units.marked(before).select(
        F.col(KEY).alias("_old_key"),
        F.col(HASH).alias("_old_hash"),
        F.col("payload").alias("_old_payload"),
        COVERED,
    )
    joined = now.where(f"{KEY} IS NOT NULL").join(old, F.col(KEY) == F.col("_old_key"), "full")
    lacking = F.when(F.col(COVERED), F.lit(CARRIED_FORWARD if damaged else "delete"))
    kind = (
        F.when(F.col("_old_key").isNull(), F.lit("insert"))
        .when(F.col(KEY).isNull(), lacking)
        .when(F.col(HASH) != F.col("_old_hash"), F.lit("update"))
    )
    return joined.select(
        kind.alias(OPERATION),
        F.lit(day).alias("_landing_day"),
        F.coalesce(KEY, "_old_key").alias(KEY),
        F.coalesce(HASH, "_old_hash").alias(HASH),
        F.when(F.col(KEY).isNull(), F.col("_old_payload"))
        .otherwise(F.col("payload"))
        .alias("payload"),
        "_file",
        F.lit(None).cast("string").alias("_raw"),
    ).where(f"{OPERATION} IS NOT NULL")


def unread_lines(rows: DataFrame, day: date) -> DataFrame:
    """The rows of a day's snapshot that have no readable key, as changes."""
    there = rows.where(f"{KEY} IS NULL")
    return there.select(
        F.lit("insert").alias(OPERATION), F.lit(day).alias("_landing_day"), *STATE, "_raw"
    )


def changes_after(
    frames: Frames,
    batch: Batch,
    before: DataFrame,
    held: DataFrame,
    day: date,
    *,
    damaged: bool,
    units: Units = ALL_UNITS,
) -> Mapping[date, DataFrame]:
    """The changes of the snapshots after this one, each against the one before it, by day.

    The next one is derived again; where that is damaged, what it carries forward may be other rows
    now, and so on up to one that is whole, or whose rows are what they were.
    """
    last, session = batch.view.table(batch.table.name).last_committed, frames.session
    found: dict[date, DataFrame] = {}
    state = _known_after(before, held, units, damaged=damaged)
    for later in sorted(d for d in loaded_days(batch) if d > day):
        rows, is_damaged_too = snapshot_rows(session, batch, later), is_damaged(last[later])
        its = units_of_day(batch, later)
        changed = differing(state, rows, later, damaged=is_damaged_too, units=its)
        found[later] = changed.unionByName(unread_lines(_lines_of(session, batch, later), later))
        if not is_damaged_too and not its.scope:
            break
        state = frames.cache(_known_after(state, rows, its, damaged=is_damaged_too))
        was = state_at(session, batch, later)
        if differing(was, state, later, damaged=False).isEmpty():
            break
    return found


def _known_after(before: DataFrame, held: DataFrame, units: Units, *, damaged: bool) -> DataFrame:
    """What is known after a snapshot: its rows, and those of before that it does not cover.

    A damaged one does not cover the rows that it lacks, and none covers other units.
    """
    if not damaged and not units.scope:
        return held
    silent = before if damaged else units.uncovered(before)
    return held.unionByName(silent.join(held.select(KEY), KEY, "left_anti").select(*STATE))


def _lines_of(session: SparkSession, batch: Batch, day: date) -> DataFrame:
    def keep(file: DataFile) -> bool:
        return bool(file.partition["_landing_day"] == day)

    rows = read_version(session, batch.path, version_of(batch.path), keep)
    return rows.where(f"_landing_day = '{day}'")


def hashing(batch: Batch) -> dict[str, Any]:
    """How rows are hashed now, for the ledger."""
    return {"hash_version": HASH_VERSION, "ignore": sorted(comparison_of(batch).ignore)}


def _as_before(batch: Batch) -> bool:
    """Whether the last snapshot of every day was hashed as this one is."""
    history = batch.view.table(batch.table.name)
    wanted = hashing(batch)
    return all(
        {name: state.get(name) for name in wanted} == wanted
        for state in map(parsed, {history.position(day) for day in history.last_committed})
    )


def is_damaged(entry: Entry) -> bool:
    """Whether the snapshot that a batch loaded held rows without a readable key."""
    return bool(state_of(entry).get("keyless"))
