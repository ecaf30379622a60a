"""A batch of one snapshot into a bronze table: what differs from the snapshot before it.

The snapshot before is derived from the table itself: the last change of each key until then, of
which `snapshot_base` keeps what is long past. So snapshots may come in any order. For one that
comes between two others, the changes of the one after it are derived again, from what the table
holds of that one.

A row without a readable key is kept as it came; which row it was nobody knows. So a snapshot with
such a row is damaged, and deletes nothing: what it lacks is carried forward.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from incremental_assets import plurals
from incremental_assets.changes.position import FINGERPRINT, parsed
from incremental_assets.delta.delta_log import Commit, partition_day
from incremental_assets.delta.read import no_rows
from incremental_assets.delta.stage import stage
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.engine.batch import (
    Batch,
    BatchKind,
    Outcome,
    from_commit,
    verdict,
    without_holding,
)
from incremental_assets.engine.bronze import COLUMNS, PARTITIONS, landed_rows
from incremental_assets.engine.snapshot_base import RETRACTED, comparison_of, loaded_days
from incremental_assets.engine.snapshot_diff import (
    ALL_UNITS,
    HASH,
    KEY,
    OPERATION,
    STATE,
    UNITS,
    Units,
    changes_after,
    differing,
    hashing,
    identified,
    keep_base,
    state_before,
    units_in,
    unread_lines,
    with_rest_of_day,
)
from incremental_assets.engine.volume import RowsBefore, judges_volume, last_ones
from incremental_assets.errors import IncrementalAssetsError, SourceError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import WITHOUT_DAYS, Entry
from incremental_assets.ledger.lazy_mapping import LazyMapping
from incremental_assets.quality.judge import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.table import Table

_OWN = ((HASH, "string"), (KEY, "string"), (OPERATION, "string"))


@dataclass(frozen=True)
class SnapshotChanges:
    """What differs from the snapshot before: the rows to write, of this one and of `later` ones.

    A snapshot that `says_nothing` has no row: nothing is written, and its day stays as it was.
    """

    rows: DataFrame
    later: Collection[date]
    counted: SnapshotCounts
    units: Units = ALL_UNITS
    says_nothing: bool = False


class SnapshotBatch(BatchKind[SnapshotChanges]):
    """Compares a snapshot with the one before, and keeps the rows that came, changed or went."""

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        """`_operation` is insert, update or delete; a deleted row has the values it had before.

        Rows that a damaged snapshot lacks are there as well, as carried forward.
        """
        return (*COLUMNS, *_OWN)

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def read(self, batch: Batch, frames: Frames) -> SnapshotChanges:
        (day,) = batch.work.days
        if _brings_nothing(batch):
            none, nothing = no_rows(frames.session, StructType([])), SnapshotCounts(*[0] * 7)
            return SnapshotChanges(none, (), nothing, says_nothing=True)
        session, snapshot = frames.session, _snapshot(frames, batch)
        keep_base(session, batch, day)
        before = state_before(session, batch, day)
        units = units_in(snapshot, batch)
        if batch.work.source is not None:
            snapshot, units = with_rest_of_day(frames, batch, day, snapshot, units)
        keyless = _refuse_duplicates(batch, day, snapshot)
        held = snapshot.where(f"{KEY} IS NOT NULL").select(*STATE)
        damaged = bool(keyless)
        rows = differing(before, held, day, damaged=damaged, units=units)
        rows = rows.unionByName(unread_lines(snapshot, day))
        later = changes_after(frames, batch, before, held, day, damaged=damaged, units=units)
        every = frames.cache(reduce(DataFrame.unionByName, later.values(), rows))
        counted = _count(snapshot, units.covered(before), every, day)
        return SnapshotChanges(
            every, tuple(later), counted, units, says_nothing=not counted.snapshot
        )

    def gate(self, batch: Batch, frames: Frames, read: SnapshotChanges) -> Outcome:
        (day,) = batch.work.days
        counted = read.counted
        entry, results = _judge(batch, day, counted, read.units)
        if read.says_nothing:
            note = f"{day}: the snapshot has no row, so it changes nothing"
            return Outcome([_as_it_was(batch, day, entry)], {day: results}, (note,))
        keyless = plurals.counted(counted.keyless, "row")
        note = f"{day}: {keyless} without a readable key: nothing is deleted"
        return Outcome([entry], {day: results}, (note,) if counted.keyless else ())

    def stage(
        self, batch: Batch, frames: Frames, read: SnapshotChanges, outcome: Outcome
    ) -> StagedWrite | None:
        (day,) = batch.work.days
        if read.says_nothing or not outcome.published:
            return None
        replaced = tuple(d for d in (day, *read.later) if d in loaded_days(batch))
        if not (read.counted.rows or replaced):
            return None
        number = F.lit(batch.number).cast("long")
        rows = read.rows.withColumns({"_batch": number, "_day": F.col("_landing_day")})
        names = (name for name, _ in self.columns(batch.table))
        staged = stage(rows.selectExpr(*names), batch.path, batch.folder, PARTITIONS)
        return StagedWrite(staged, replaced_by=("_landing_day", replaced))

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, lambda partition: partition_day(partition[1]))

    def explained(self, batch: Batch, error: Exception) -> IncrementalAssetsError | None:
        fixed = batch.work.source
        return None if fixed is None else fixed.explained(error)


@dataclass(frozen=True, slots=True)
class SnapshotCounts:
    """Rows of the snapshot, of the one before, and of what is written; its changes by kind."""

    snapshot: int
    keyless: int
    before: int
    rows: int
    inserted: int
    updated: int
    deleted: int


def _brings_nothing(batch: Batch) -> bool:
    """Whether there is no snapshot: a hold ends because what was held is gone."""
    return batch.work.source is None and not batch.work.files


def _as_it_was(batch: Batch, day: date, entry: Entry) -> Entry:
    """The outcome of a snapshot that covers nothing: its day has the one before it, or none."""
    state = json.loads(entry.position)
    if day in loaded_days(batch):
        of_source = {name: state[name] for name in (FINGERPRINT, WITHOUT_DAYS) if name in state}
        state = {**parsed(batch.view.table(batch.table.name).position(day)), **of_source}
    else:
        state[RETRACTED] = True
    return replace(entry, rows_deleted=0, high=entry.low, position=json.dumps(state))


def _snapshot(frames: Frames, batch: Batch) -> DataFrame:
    """The snapshot's rows: `payload`, `_raw`, `_file`, `_key` (null if unreadable) and `_hash`."""
    fixed = batch.work.source
    rows = landed_rows(frames, batch, batch.work.files) if fixed is None else fixed.objects(frames)
    return frames.cache(identified(rows, batch))


def _refuse_duplicates(batch: Batch, day: date, snapshot: DataFrame) -> int:
    """How many rows have no readable key. Raises SourceError where a key is there twice."""
    counted = snapshot.groupBy(KEY).count().where(f"count > 1 OR {KEY} IS NULL")
    found = counted.orderBy(F.col(KEY).asc_nulls_first()).limit(7).collect()
    twice = [row[KEY] for row in found if row[KEY] is not None]
    if twice:
        more = " and others" if len(twice) > 5 else ""
        raise SourceError(
            f"{batch.table.name}, {day}: the snapshot holds keys "
            f"({', '.join(comparison_of(batch).key)}) more than once: {'; '.join(twice[:5])}"
            f"{more}. It is unknown which row is right, so nothing was loaded; repair the "
            "snapshot, or name a key that is unique."
        )
    return next((row["count"] for row in found if row[KEY] is None), 0)


def _count(snapshot: DataFrame, before: DataFrame, rows: DataFrame, day: date) -> SnapshotCounts:
    here = f"_landing_day = '{day}' AND {KEY} IS NOT NULL"
    kind = f"CASE WHEN {here} THEN {OPERATION} ELSE 'other' END AS kind"
    of_snapshot = snapshot.selectExpr(f"if({KEY} IS NULL, 'keyless', 'keyed') AS kind")
    grouped = of_snapshot.unionByName(rows.selectExpr(kind)).groupBy("kind").count().collect()
    found = {row["kind"]: row["count"] for row in grouped}
    keyless, deleted = found.get("keyless", 0), found.get("delete", 0)
    changes = [found.get(kind, 0) for kind in ("insert", "update", "delete")]
    return SnapshotCounts(
        found.get("keyed", 0) + keyless,
        keyless,
        before.count() if deleted else 0,
        sum(changes) + found.get("other", 0),
        *changes,
    )


def _judge(
    batch: Batch, day: date, counted: SnapshotCounts, units: Units
) -> tuple[Entry, list[RuleResult]]:
    (claim,) = batch.claims
    changes = batch.table.changes
    empty = tuple(file.path for file in claim.files if file.size == 0)
    history = batch.view.table(batch.table.name)
    there = loaded_days(batch)
    rows = last_ones(history, lambda entry: entry.rows_read)
    volume = LazyMapping([before for before in rows if before in there], rows.__getitem__)
    counts = DayCounts(
        counted.snapshot,
        0,
        counted.snapshot,
        0,
        len(claim.files),
        empty,
        trailing=RowsBefore(volume, day) if judges_volume(batch.table.rules) else (),
        day=day,
        now=batch.now,
    )
    deletes = comparison_of(batch).judged(counted.snapshot, counted.before, counted.deleted)
    results = [deletes, *judge_day(batch.table.rules, counts)]
    results = batch.accepting(results, day)
    if _brings_nothing(batch):  # an empty snapshot is one, and judged
        results = without_holding(results)
    outcome = verdict(results)
    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    low = history.last.high if history.last else ""
    high = low
    if not outcome["held_by"]:
        high = changes.high_after(low, at, at, counted.snapshot, batch.now)
    entry = replace(
        claim,
        **outcome,
        rows_read=counted.snapshot,
        rows_inserted=counted.inserted,
        rows_updated=counted.updated,
        rows_deleted=counted.deleted,
        bytes=sum(file.size for file in claim.files),
        low=low,
        high=high,
        position=_position(batch, counted, units),
    )
    return entry, results


def _position(batch: Batch, counted: SnapshotCounts, units: Units) -> str:
    fixed = batch.work.source
    state = {
        "detector": batch.claims[0].detector,
        "column": batch.table.changes.positioned_by,
        **hashing(batch),
        "keyless": counted.keyless,
    }
    if fixed is not None:
        state |= {FINGERPRINT: fixed.fingerprint, WITHOUT_DAYS: True}
    if units.scope:
        state[UNITS] = units.texts
    return json.dumps(state)
