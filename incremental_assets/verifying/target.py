"""A loader's target, loaded again from its source.

What the source still has decides what can be compared. A change log has its past, and the whole
target is compared; one that lacks a file that was read is refused. A snapshot has the last state
alone: of a history, the versions that are valid now are compared. A table that is read by a
timestamp or a sequence may have updated or deleted rows since: rows of the target that it does not
have are counted and not judged, and so are keys that have a later row there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from incremental_assets.changes.as_read import AsRead
from incremental_assets.changes.position import state_of
from incremental_assets.changes.request import REWOUND_FROM
from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.columns import BATCH, ORDER
from incremental_assets.delta.delta_table import ensure_table, field_of, open_table
from incremental_assets.delta.merge import join_by_key
from incremental_assets.delta.read import read_version
from incremental_assets.engine.settling import TargetSettling
from incremental_assets.engine.target import TargetTable, request_of
from incremental_assets.engine.target_load import load_target
from incremental_assets.errors import ConflictError, DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.ledger.consistency import require_consistent
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.plurals import counted
from incremental_assets.quality.rule import RowRule
from incremental_assets.verifying.compare import Matching, compare
from incremental_assets.verifying.rebuild import Rebuild
from incremental_assets.verifying.verified import Verified

_NO_DAY = "_v_no_day"
_SHOWN_AS_NO_DAY = "no day: "


class TargetRebuild(Rebuild):
    """The rebuild of a target, by the rules of today and in one load.

    Raises DefinitionError where there is nothing that could be compared, and SourceError where the
    source has lost what that needs.
    """

    def __init__(self, target: TargetTable, spark: SparkSession, now: datetime) -> None:
        _refuse(target)
        self._target, self._spark, self.path, self.now = target, spark, target.path, now
        self._state, self.history = _state(target)
        request = request_of(target, self._state, now)
        self._start, self._of = request.start, target.changes.as_read(request)
        version = self._state.version or 0
        rebuilt = {target.name: 1}
        self.found = Verified(target.name, version, self.history.high, rebuilt=rebuilt)

    def build(self, folder: str) -> tuple[str, Callable[[SparkSession], Verified]]:
        of, again = self._of, replace(_again(self._target, self._of, folder), start=self._start)
        _make(again, self._state)
        loaded = load_target(again, self._spark, self.now)
        if of.one_moment and loaded.entry and loaded.entry.rows_quarantined:
            of = replace(of, forgets=True)  # what is known of bad rows stays
        return again.path, partial(self._compared, again, of)

    def _compared(self, again: TargetTable, of: AsRead, session: SparkSession) -> Verified:
        target, write, state = self._target, self._target.write, self._state
        real, rebuilt, notes = _sides(session, target, state, again, of)
        ignored = {name.lower() for name in (*of.ignored, *write.ignored)}
        own = [name for name in state.known_types() if name.lower() not in ignored]
        key = target.key if write.by_key else ()
        intervals: tuple[str, ...] = ()
        if write.keeps_versions and not of.one_moment:
            key, intervals = (*key, write.validity[0]), write.validity[1:]

        def by(*columns: str) -> Matching:
            return Matching(_NO_DAY, key, columns, target.key or of.shown, forgets=of.forgets)

        rows = compare(real, rebuilt, by(*own, *intervals))
        if rows.not_judged and intervals:  # one of those may have ended an interval
            rows = compare(real, rebuilt, by(*own))
            notes.append("where versions end is not compared: the source lacks some of them")
        if of.up_to is not None and any(day.missing for day in rows.days):
            notes.append(
                "rows that are missing came below the watermark after it had passed: rewind the "
                "target, or load with a lookback"
            )
        examples = tuple(text.removeprefix(_SHOWN_AS_NO_DAY) for text in rows.examples)
        return replace(self.found, rows=replace(rows, examples=examples), notes=tuple(notes))


def _refuse(target: TargetTable) -> None:
    if target.write.replaces_by_batch:
        raise DefinitionError(
            f"{target.name}: what {target.write} leaves depends on which rows came in one load, "
            "and the source no longer shows that: it cannot be rebuilt."
        )


def _state(target: TargetTable) -> tuple[TargetState, TableHistory]:
    """The target as the ledger knows it. Raises where they disagree, or it was never loaded."""
    ledger = Ledger(target.ledger)
    tail = ledger.tail(target.name)
    if tail.unsettled:
        raise ConflictError(
            f"{target.name}: batch {tail.unsettled[0].batch} has no outcome yet: its load is "
            "in progress, or died. Load, which settles it, then verify."
        )
    settling = TargetSettling.of(target, lambda _: None)
    require_consistent(ledger, tail, settling.log_state, settling.remedy)
    state = target.state.with_table()
    if tail.last is None or state.version is None:
        raise DefinitionError(f"{target.name} was never loaded, so there is nothing to verify.")
    if tail.last.kind == "rewind" or REWOUND_FROM in state_of(tail.last):
        by = f" by batch {tail.last.batch}" if tail.last.kind == "rewind" else ""
        raise DefinitionError(
            f"{target.name} was rewound{by}, and not all of it was loaded since. Load, then verify."
        )
    state.require_key()
    history = ledger.view().table(target.name)
    state = state.with_ledger(tail.last, history)
    state.require_same_write()
    state.require_same_deleted_column(target.changes.order, target.changes.positioned_by)
    return state, history


def _again(target: TargetTable, of: AsRead, folder: str) -> TargetTable:
    """The target that is built in the scratch folder: its rules are those that quarantine rows."""
    rules = (r for r in target.rules if isinstance(r, RowRule) and r.severity == "quarantine")
    return replace(
        target,
        path=f"{folder}/target",
        ledger=f"{folder}/ledger",
        snapshot=f"{folder}/snapshot" if target.snapshot else "",
        changes=of.changes,
        fixed=of.source,
        at=of.at,
        max_records=None,
        rules=tuple(rules),
    )


def _make(again: TargetTable, state: TargetState) -> None:
    """Make it with the columns of the target, whose types define how the source is read."""
    fields = [field_of(StructField(name, kind)) for name, kind in state.known_types().items()]
    named = [(str(each["name"]), each["type"]) for each in fields]
    ensure_table(again.path, again.name, named, again.partition_by)


def _sides(
    session: SparkSession, target: TargetTable, state: TargetState, again: TargetTable, of: AsRead
) -> tuple[DataFrame, DataFrame, list[str]]:
    """The target and its rebuild, as far as they can be compared, and notes on the rest."""
    real = read_version(session, target.path, state.version or 0)
    made = open_table(again.path)
    rebuilt = read_version(session, again.path, made.version() if made else 0)
    notes = []
    others = real.where(F.col(BATCH).isNull()).count()
    if others:
        real = real.where(F.col(BATCH).isNotNull())
        notes.append(f"not compared: {counted(others, 'row')} not written by this load")
    if ORDER not in rebuilt.columns:  # nothing was loaded
        rebuilt = real.where("false")
    if of.up_to is not None:
        later = rebuilt.where(F.col(ORDER) > F.lit(of.up_to))
        rebuilt = rebuilt.where(F.col(ORDER).isNull() | (F.col(ORDER) <= F.lit(of.up_to)))
        if target.write.by_key:
            keys = later.select(*map(quoted, target.key)).distinct()
            real, rebuilt = (s.join(keys, list(target.key), "left_anti") for s in (real, rebuilt))
        waiting = later.count()
        if waiting:
            notes.append(f"not compared: {counted(waiting, 'row')} of the source not loaded yet")
    if target.write.keeps_versions and of.one_moment:
        real, rebuilt = (side.where("is_current") for side in (real, rebuilt))
        notes.append("versions that are no longer valid are not compared: a snapshot has none")
    if of.scope:
        every, units = real.count(), rebuilt.select(*map(quoted, of.scope)).distinct()
        real = join_by_key(real, units, of.scope, "left_semi", nulls=True)
        if others := every - real.count():
            notes.append(
                f"not compared: {counted(others, 'row')} of parts of the table that the last "
                "snapshot does not have"
            )
    none = F.lit(None).cast("date")
    return real.withColumn(_NO_DAY, none), rebuilt.withColumn(_NO_DAY, none), notes
