"""A batch of one full copy into a bronze table: what differs from the copy before it.

The copy before is what the table itself says: the last change of each key until then. So copies may
come in any order. One that comes between two others is put in its place, and the changes of the
one after it are derived again, from what the table says of that one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch, Outcome, from_commit
from incremental_assets.batches.bronze import COLUMNS, PARTITIONS, landed_lines
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.row_hash import HASH_VERSION, payload_hash
from incremental_assets.changes.watermark import Seen, as_text, instant
from incremental_assets.errors import SourceError
from incremental_assets.frames import persisted
from incremental_assets.lake.delta_log import Commit, partition_day, version_of
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import DataFile, read_version
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import stage
from incremental_assets.ledger.entry import Entry
from incremental_assets.plan.stored import state_of
from incremental_assets.quality.gate import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.table import Table

OPERATION, KEY, HASH = "_operation", "_key", "_hash"
_OWN = ((HASH, "string"), (KEY, "string"), (OPERATION, "string"))
_STATE = (KEY, HASH, "payload", "_file")


class CopyBatch:
    """Compares a copy with the one before, and keeps the rows that were added, changed or gone.

    A row without a readable key is kept as it came; which row it was nobody knows, so a copy that
    holds one deletes nothing.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        """`_operation` is insert, update or delete; a deleted row has the values it had before."""
        return (*COLUMNS, *_OWN)

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def execute(self, batch: Batch) -> Outcome:
        (day,) = batch.work.days
        with (
            own_session(batch.spark(), small=batch.work.small) as session,
            _copy(session, batch) as copy,
        ):
            before = _state(session, batch, until=day, inclusive=False)
            keyless = _refuse_duplicates(batch, day, copy)
            if keyless:
                gone = before.join(copy.select(KEY), KEY, "left_anti")
                now = copy.where(f"{KEY} IS NOT NULL").select(*_STATE).unionByName(gone)
            else:
                now = copy.select(*_STATE)
            changed = _differing(before, now, day)
            unread = copy.where(f"{KEY} IS NULL").withColumns(
                {OPERATION: F.lit("insert"), "_landing_day": F.lit(day)}
            )
            names = [OPERATION, "_landing_day", *_STATE, "_raw"]
            rows = _raw(changed).select(*names).unionByName(unread.select(*names))
            following = min((d for d in _loaded(batch) if d > day), default=None)
            if following is not None:
                rows = rows.unionByName(_placed_again(session, batch, now, following))
            with persisted(rows) as found:
                return self._publish(batch, day, following, copy, before, found)

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, lambda partition: partition_day(partition[1]))

    def _publish(
        self,
        batch: Batch,
        day: date,
        following: date | None,
        copy: DataFrame,
        before: DataFrame,
        rows: DataFrame,
    ) -> Outcome:
        counted = _count(copy, before, rows, day)
        entry, results = _judge(batch, day, counted)
        notes = (
            ()
            if not counted.keyless
            else (f"{day}: {counted.keyless} rows have no readable key: nothing is deleted",)
        )
        if entry.state == "held":
            return Outcome([entry], {day: results}, notes)
        replaced = [d for d in (day, following) if d is not None and d in _loaded(batch)]
        if not counted.rows and not replaced:
            return Outcome([entry], {day: results}, notes)
        kept = rows.withColumns(
            {"_batch": F.lit(batch.number).cast("long"), "_day": F.col("_landing_day")}
        ).select(*(name for name, _ in self.columns(batch.table)))
        staged = stage(kept, batch.path, batch.number, PARTITIONS)
        publish(staged, batch.transaction([entry]), replaced_by=("_landing_day", replaced))
        return Outcome(self.settled(batch.table, [entry], batch.commit()), {day: results}, notes)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Rows of the copy, of the one before, and of what is written; changes of the day by kind."""

    copy: int
    keyless: int
    before: int
    rows: int
    inserted: int
    updated: int
    deleted: int


@contextmanager
def _copy(session: SparkSession, batch: Batch) -> Iterator[DataFrame]:
    """The copy's rows: `payload`, `_raw`, `_file`, `_key` (null if unreadable) and `_hash`."""
    fixed = batch.work.source
    if fixed is None:
        files = [file for work in batch.work.days.values() for file in work.files]
        with persisted(_identified(landed_lines(session, batch, files), batch)) as copy:
            yield copy
        return
    with fixed.objects(session) as rows, persisted(_identified(rows, batch)) as copy:
        yield copy


def _identified(rows: DataFrame, batch: Batch) -> DataFrame:
    changes = _changes(batch)
    line = F.concat(F.lit("line:"), F.substring(F.sha2(F.col("_raw"), 256), 1, 32))
    whole = payload_hash("payload", changes.ignore)
    return rows.select(
        "payload",
        "_raw",
        "_file",
        _identity(changes.key).alias(KEY),
        F.when(F.col("_raw").isNotNull(), line).otherwise(whole).alias(HASH),
    )


def _identity(key: Sequence[str]) -> Column:
    """The key of a payload as text; null where a part of it is missing."""
    fields = F.col("payload").try_cast("map<string,variant>")
    parts = [F.try_element_at(fields, F.lit(name)) for name in key]
    there = [part.isNotNull() & ~F.is_variant_null(part) for part in parts]
    complete = there[0]
    for each in there[1:]:
        complete &= each
    return F.when(complete, F.to_json(F.array(*parts)))


def _state(session: SparkSession, batch: Batch, *, until: date, inclusive: bool) -> DataFrame:
    """The copy that the table says there was until a day: the last change of each key."""

    def keep(file: DataFile) -> bool:
        landed: date = file.partition["_landing_day"]
        return landed <= until if inclusive else landed < until

    rows = read_version(session, batch.path, version_of(batch.path), keep)
    rows = rows.where(f"{KEY} IS NOT NULL AND _landing_day {'<=' if inclusive else '<'} '{until}'")
    last = F.max_by(F.struct(OPERATION, HASH, "payload", "_file"), "_landing_day")
    state = rows.groupBy(KEY).agg(last.alias("last")).select(KEY, "last.*")
    state = state.where(f"{OPERATION} != 'delete'")
    if not _as_before(batch):
        state = state.withColumn(HASH, payload_hash("payload", _changes(batch).ignore))
    return state.select(*_STATE)


def _differing(before: DataFrame, now: DataFrame, day: date) -> DataFrame:
    """The changes from one copy to another, on a day."""
    old = before.select(
        F.col(KEY).alias("_old_key"),
        F.col(HASH).alias("_old_hash"),
        F.col("payload").alias("_old_payload"),
    )
    joined = now.where(f"{KEY} IS NOT NULL").join(old, F.col(KEY) == F.col("_old_key"), "full")
    kind = (
        F.when(F.col("_old_key").isNull(), F.lit("insert"))
        .when(F.col(KEY).isNull(), F.lit("delete"))
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
    ).where(f"{OPERATION} IS NOT NULL")


def _placed_again(
    session: SparkSession, batch: Batch, now: DataFrame, following: date
) -> DataFrame:
    """The changes of the copy after this one, against this one; its lines without a key stay."""
    later = _state(session, batch, until=following, inclusive=True)
    changed = _raw(_differing(now, later, following))

    def keep(file: DataFile) -> bool:
        return bool(file.partition["_landing_day"] == following)

    there = read_version(session, batch.path, version_of(batch.path), keep)
    unread = there.where(f"{KEY} IS NULL AND _landing_day = '{following}'")
    return changed.unionByName(unread.select(*changed.columns))


def _raw(changed: DataFrame) -> DataFrame:
    return changed.withColumn("_raw", F.lit(None).cast("string"))


def _refuse_duplicates(batch: Batch, day: date, copy: DataFrame) -> int:
    """How many rows have no readable key. Raises SourceError where a key is there twice."""
    counted = copy.groupBy(KEY).count().where(f"count > 1 OR {KEY} IS NULL")
    found = counted.orderBy(F.col(KEY).asc_nulls_first()).limit(7).collect()
    twice = [row[KEY] for row in found if row[KEY] is not None]
    if twice:
        more = " and others" if len(twice) > 5 else ""
        raise SourceError(
            f"{batch.table.name}, {day}: the copy holds keys ({', '.join(_changes(batch).key)}) "
            f"more than once: {'; '.join(twice[:5])}{more}. Nobody can say which row is right, so "
            "nothing was loaded; repair the copy, or name a key that is unique."
        )
    return next((row["count"] for row in found if row[KEY] is None), 0)


def _count(copy: DataFrame, before: DataFrame, rows: DataFrame, day: date) -> _Counted:
    here = f"_landing_day = '{day}' AND {KEY} IS NOT NULL"
    kind = f"CASE WHEN {here} THEN {OPERATION} ELSE 'other' END AS kind"
    of_copy = copy.selectExpr(f"if({KEY} IS NULL, 'keyless', 'keyed') AS kind")
    grouped = of_copy.unionByName(rows.selectExpr(kind)).groupBy("kind").count().collect()
    found = {row["kind"]: row["count"] for row in grouped}
    keyless, deleted = found.get("keyless", 0), found.get("delete", 0)
    changes = [found.get(kind, 0) for kind in ("insert", "update", "delete")]
    return _Counted(
        found.get("keyed", 0) + keyless,
        keyless,
        before.count() if deleted else 0,
        sum(changes) + found.get("other", 0),
        *changes,
    )


def _judge(batch: Batch, day: date, counted: _Counted) -> tuple[Entry, list[RuleResult]]:
    (claim,) = batch.claims
    changes = _changes(batch)
    empty = sum(1 for file in claim.files if file.size == 0)
    counts = DayCounts(counted.copy, 0, counted.copy, 0, len(claim.files), empty)
    results = judge_day(batch.table.rules, counts)
    failed = [f"{r.rule}: {r.found}" for r in results if r.severity == "fail" and not r.passed]
    share = counted.deleted / counted.before if counted.before else 0.0
    if share > changes.most_deleted:
        failed.append(
            f"the copy would delete {counted.deleted} of {counted.before} rows ({share:.1%}), and "
            f"at most {changes.most_deleted:.1%} may go at once: look whether it is whole; if it "
            "is, allow the share with most_deleted"
        )
    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    committed = batch.view.table(batch.table.name).committed
    low = committed[-1].high if committed else ""
    seen = Seen(at, at, counted.copy, batch.now)
    entry = replace(
        claim,
        state="held" if failed else "committed",
        held_by="; ".join(failed),
        rows_read=counted.copy,
        rows_inserted=counted.inserted,
        rows_updated=counted.updated,
        rows_deleted=counted.deleted,
        bytes=sum(file.size for file in claim.files),
        low=low,
        high=low if failed else as_text(changes.advanced(instant(low), seen)),
        position=_position(batch),
    )
    return entry, results


def _position(batch: Batch) -> str:
    fixed = batch.work.source
    state = {
        "detector": batch.claims[0].detector,
        "column": ", ".join(_changes(batch).key),
        **_hashed(batch),
    }
    if fixed is not None:
        state["source"] = fixed.mark
    return json.dumps(state)


def _hashed(batch: Batch) -> dict[str, Any]:
    return {"hash_version": HASH_VERSION, "ignore": sorted(_changes(batch).ignore)}


def _as_before(batch: Batch) -> bool:
    """Whether every copy so far was hashed as this one is."""
    states = (state_of(entry) for entry in batch.view.table(batch.table.name).committed)
    wanted = _hashed(batch)
    return all({name: state.get(name) for name in wanted} == wanted for state in states)


def _loaded(batch: Batch) -> frozenset[date]:
    return frozenset(batch.view.table(batch.table.name).last_committed)


def _changes(batch: Batch) -> SnapshotDiff:
    assert isinstance(batch.table.changes, SnapshotDiff)
    return batch.table.changes
