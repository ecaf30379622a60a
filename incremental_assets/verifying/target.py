"""Verifying a loader's target: building it again from its source, and comparing row by row.

What the source still has decides what can be compared. A change log has its past, and the whole
target is compared; one that lacks a file that was read is refused. A snapshot has the last state
alone: of a history, the versions that are valid now are compared. A table that is read by a
timestamp or a sequence may have updated or deleted rows since: rows of the target that it does not
have are counted and not judged, and so are keys that have a later row there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from incremental_assets.changes.as_read import AsRead
from incremental_assets.changes.position import state_of
from incremental_assets.changes.request import REWOUND_FROM
from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.columns import BATCH, ORDER
from incremental_assets.delta.delta_table import bytes_of, ensure_table, field_of, open_table
from incremental_assets.delta.read import read_version
from incremental_assets.engine.settling import TargetSettling
from incremental_assets.engine.target import TargetTable, request_of
from incremental_assets.engine.target_load import load_target
from incremental_assets.errors import ConflictError, DefinitionError, LakeError
from incremental_assets.frames import quoted
from incremental_assets.ledger.consistency import require_consistent
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.plurals import counted
from incremental_assets.quality.rule import RowRule
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session, size_of
from incremental_assets.verifying.compare import Matching, compare
from incremental_assets.verifying.scratch import FOLDER, scratch_lake, size_text
from incremental_assets.verifying.verified import Compared, Verified

_NO_DAY = "_v_no_day"
_SHOWN_AS_NO_DAY = "no day: "


@dataclass(frozen=True)
class _Sides:
    """The target and its rebuild, as far as they can be compared, and notes on the rest."""

    real: DataFrame
    rebuilt: DataFrame
    notes: tuple[str, ...] = ()


def verify_target(
    target: TargetTable,
    spark: SparkSession,
    now: datetime,
    log: Callable[[str], None],
    scratch: str = "",
) -> Verified:
    """Build a target again from its source, below `scratch`, and compare the two.

    Nothing of the target is changed. It is built by the rules of today, and in one load. Raises
    DefinitionError where there is nothing that could be compared, SourceError where the source has
    lost what that needs, and LakeError if it could not be done.
    """
    started = time.monotonic()
    _refuse(target)
    state, last = _state(target)
    request = request_of(target, state, now)
    of = target.changes.as_read(request)
    size = bytes_of(target.path)
    below = scratch or f"{target.path}/{FOLDER}"
    log(f"{target.name}: the rebuild takes about {size_text(size)} below {below}")
    with scratch_lake(below, now, size, log) as folder:
        again = replace(_again(target, of, folder), start=request.start)
        _make(again, state)
        loaded = load_target(again, spark, now)
        try:
            with own_session(spark, size_of(0, [size, bytes_of(again.path)])) as session:
                if of.one_moment and loaded.entry and loaded.entry.rows_quarantined:
                    of = replace(of, forgets=True)  # what is known of bad rows stays
                rows, notes = _compared(session, target, state, again, of)
        except SPARK_ERRORS as error:
            raise LakeError(
                f"{target.name} could not be compared: Spark failed: {what_failed(error)}. Nothing "
                "was changed; investigate this error, and verify again."
            ) from error
    assert state.version is not None
    seconds = round(time.monotonic() - started, 3)
    return Verified(target.name, state.version, last.batch, rows, notes=notes, seconds=seconds)


def _refuse(target: TargetTable) -> None:
    if target.write.replaces_by_batch:
        raise DefinitionError(
            f"{target.name}: what {target.write} leaves depends on which rows came in one load, "
            "and the source no longer shows that: it cannot be rebuilt."
        )


def _state(target: TargetTable) -> tuple[TargetState, Entry]:
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
    state.require_same_write()
    return state.with_ledger(tail.last, ledger.view().table(target.name)), tail.last


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


def _compared(
    session: SparkSession, target: TargetTable, state: TargetState, again: TargetTable, of: AsRead
) -> tuple[Compared, tuple[str, ...]]:
    sides = _sides(session, target, state, again, of)
    write = target.write
    ignored = {name.lower() for name in (*of.ignored, *write.ignored)}
    own = [name for name in state.known_types() if name.lower() not in ignored]
    key = target.key if write.by_key else ()
    intervals: tuple[str, ...] = ()
    if write.keeps_versions and not of.one_moment:
        key, intervals = (*key, write.validity[0]), write.validity[1:]

    def by(*columns: str) -> Matching:
        return Matching(_NO_DAY, key, columns, target.key or of.shown, forgets=of.forgets)

    rows, notes = compare(sides.real, sides.rebuilt, by(*own, *intervals)), list(sides.notes)
    if rows.not_judged and intervals:  # one of those may have ended an interval
        rows = compare(sides.real, sides.rebuilt, by(*own))
        notes.append("where versions end is not compared: the source lacks some of them")
    if rows.not_judged:
        notes.append(f"not judged: {counted(rows.not_judged, 'row')} no longer at the source")
    if of.up_to is not None and any(day.missing for day in rows.days):
        notes.append(
            "rows that are missing came below the watermark after it had passed: rewind the "
            "target, or load with a lookback"
        )
    examples = tuple(text.removeprefix(_SHOWN_AS_NO_DAY) for text in rows.examples)
    return replace(rows, examples=examples), tuple(notes)


def _sides(
    session: SparkSession, target: TargetTable, state: TargetState, again: TargetTable, of: AsRead
) -> _Sides:
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
    none = F.lit(None).cast("date")
    return _Sides(real.withColumn(_NO_DAY, none), rebuilt.withColumn(_NO_DAY, none), tuple(notes))
