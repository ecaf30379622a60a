"""A batch from a stored source into a bronze table: the rows of its days that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.batches_read_again import WITHOUT_CURSOR, without_cursor_since
from incremental_assets.changes.day_reading import LOAD_DAY, is_null, is_unreadable
from incremental_assets.changes.position import state_of
from incremental_assets.changes.progress import SequenceStep, state_of_progress
from incremental_assets.changes.watermark import as_text, instant_at
from incremental_assets.delta.columns import HASH, ORDER
from incremental_assets.delta.delta_log import Commit, partition_day
from incremental_assets.delta.stage import stage
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.engine.batch import Batch, BatchKind, Outcome, from_commit, verdict
from incremental_assets.engine.bronze import COLUMNS, PARTITIONS
from incremental_assets.engine.put_in_quarantine import put_in_quarantine
from incremental_assets.engine.stored_new_rows import (
    GOOD,
    QUARANTINED,
    last_inspections,
    new_rows,
    sequence_step,
)
from incremental_assets.engine.volume import RowsBefore, added_up, judges_volume
from incremental_assets.errors import IncrementalAssetsError, SourceError, WatermarkError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import WITHOUT_DAYS, Entry
from incremental_assets.plurals import counted
from incremental_assets.quality.judge import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.sources.row_fingerprints import rows_in
from incremental_assets.sources.source import FixedSource
from incremental_assets.table import Table


@dataclass(frozen=True)
class _New:
    """The rows that may be new, and how far a sequence may be read."""

    rows: DataFrame
    step: SequenceStep | None


class StoredBatch(BatchKind[_New]):
    """Appends what the source has for the days and the table has not, identified by a row's hash.

    A day's watermark bounds what is read again; within that, only a row that equals one of the
    table is known. Rows without a day of their own, and those of a day to come, are today's.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return (*COLUMNS, (HASH, "string"), *table.source_columns)

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def read(self, batch: Batch, frames: Frames) -> _New:
        _refuse_other_detector(batch)
        fixed = _fixed(batch)
        step = sequence_step(frames, batch, fixed)
        return _New(new_rows(frames, batch, fixed, step), step)

    def gate(self, batch: Batch, frames: Frames, read: _New) -> Outcome:
        days, fixed = _by_day(read.rows, batch), _fixed(batch)
        fixed.require_read({d: days.get(d, _StoredDay()).rows for d in batch.work.days})
        entries, results = _judge(batch, fixed, days, read.step)
        return Outcome(entries, results, _notes(batch, days, read.step))

    def quarantine(self, batch: Batch, frames: Frames, read: _New, outcome: Outcome) -> None:
        if any(entry.rows_quarantined for entry in outcome.entries):
            rows = read.rows.where(~F.col(QUARANTINED))
            put_in_quarantine(frames.session, batch, rows, outcome.entries)

    def stage(
        self, batch: Batch, frames: Frames, read: _New, outcome: Outcome
    ) -> StagedWrite | None:
        published = [entry for entry in outcome.entries if entry.state == "committed"]
        if not sum(entry.rows_inserted for entry in published):
            return None
        days = [entry.day for entry in published]
        good = read.rows.where(F.expr(GOOD) & F.col(LOAD_DAY).isin(days))
        names = [name for name, _ in self.columns(batch.table)]
        return StagedWrite(stage(good.selectExpr(*names), batch.path, batch.folder, PARTITIONS))

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, lambda partition: partition_day(partition[1]))

    def explained(self, batch: Batch, error: Exception) -> IncrementalAssetsError | None:
        fixed = _fixed(batch)
        known = fixed.explained(error)
        if known is not None:
            return known
        missing = fixed.missing_or_changed()
        if not missing:
            return None
        names = ", ".join(file.path for file in missing[:5])
        return SourceError(
            f"{batch.table.name}: {counted(len(missing), 'file')} of {fixed.path} vanished or "
            f"changed during the load: {names}. Nothing was loaded; run again."
        )


def _fixed(batch: Batch) -> FixedSource:
    fixed = batch.work.source
    assert fixed is not None
    return fixed


@dataclass(frozen=True, slots=True)
class _StoredDay:
    """What was found for one day: rows, those quarantined, the ends of the cursor, odd ones.

    `without` are good rows without a cursor, which are read again by each load.
    `first_ahead` is the lowest cursor of the rows in quarantine whose time is still to come, in
    microseconds since 1970, of this batch and of those before it.
    """

    rows: int = 0
    quarantined: int = 0
    without: int = 0
    lowest: Any = None
    highest: Any = None
    nulls: int = 0
    unreadable: int = 0
    ahead: int = 0
    first_ahead: int | None = None

    @property
    def good(self) -> int:
        return self.rows - self.quarantined


def _by_day(rows: DataFrame, batch: Batch) -> Mapping[date, _StoredDay]:
    changes = batch.table.changes
    ahead, new = changes.is_ahead(F.col(ORDER), batch.now), ~F.col(QUARANTINED)
    at = changes.as_number(F.col(ORDER))
    # A row of a day to come is found when that day is loaded, and moves no watermark before.
    own = F.col("_landing_day") == F.col(LOAD_DAY)
    waits = ahead & ~F.expr(GOOD) & own
    ends = new & ~ahead & (own if changes.watermark_by_day else F.lit(True))
    found = rows.groupBy(LOAD_DAY).agg(
        F.count_if(new).alias("rows"),
        F.count_if(new & ~F.expr(GOOD)).alias("quarantined"),
        F.count_if(F.expr(GOOD) & F.col(ORDER).isNull()).alias("without"),
        F.min(F.when(ends, at)).alias("lowest"),
        F.max(F.when(ends, at)).alias("highest"),
        F.count_if(new & is_null()).alias("nulls"),
        F.count_if(new & is_unreadable()).alias("unreadable"),
        F.count_if(new & ahead).alias("ahead"),
        F.min(F.when(waits, at)).alias("first_ahead"),
    )
    days = {row[LOAD_DAY]: _StoredDay(*row[1:]) for row in found.collect()}
    nulls, read = (sum(getattr(each, n) for each in days.values()) for n in ("nulls", "rows"))
    changes.refuse_nulls(batch.table.name, nulls, read, _fixed(batch).path)
    return days


def _judge(
    batch: Batch, fixed: FixedSource, days: Mapping[date, _StoredDay], step: SequenceStep | None
) -> tuple[list[Entry], dict[date, list[RuleResult]]]:
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    inspected = last_inspections(batch)
    history = batch.view.table(batch.table.name)
    asked = judges_volume(batch.table.rules)
    volume = added_up(history, lambda entry: entry.rows_inserted) if asked else {}
    for claim in batch.claims:
        found = days.get(claim.day, _StoredDay())
        counts = DayCounts(
            found.rows,
            found.quarantined,
            found.rows + volume.get(claim.day, 0),
            found.quarantined,
            trailing=RowsBefore(volume, claim.day),
            day=claim.day,
            now=batch.now,
        )
        results[claim.day] = batch.accepting(judge_day(batch.table.rules, counts), claim.day)
        last = inspected[claim.day]
        low = last.high if last is not None else ""
        entries.append(
            replace(
                claim,
                **verdict(results[claim.day]),
                rows_read=found.rows,
                rows_inserted=found.good,
                rows_quarantined=found.quarantined,
                bytes=sum(file.size for file in claim.files),
                low=low,
                high=batch.table.changes.high_after(
                    low, found.lowest, found.highest, found.good, batch.now
                ),
                position=_position(batch, fixed, claim.day, found, step),
            )
        )
    return _with_state_of_source(entries, fixed), results


def _with_state_of_source(entries: list[Entry], fixed: FixedSource) -> list[Entry]:
    """The entries, of which the last one published keeps what is known of the source's days."""
    published = [entry.day for entry in entries if entry.state == "committed"]
    state = fixed.state_after(published) if published else {}
    if not state:
        return entries
    return [
        replace(e, position=json.dumps({**state_of(e), **state})) if e.day == published[-1] else e
        for e in entries
    ]


def _position(
    batch: Batch, fixed: FixedSource, day: date, found: _StoredDay, step: SequenceStep | None
) -> str:
    work = batch.work.days[day]
    state: dict[str, Any] = {
        "detector": batch.claims[0].detector,
        "column": batch.table.changes.positioned_by,
        "source": fixed.fingerprint,
        **({WITHOUT_DAYS: True} if batch.table.reads_whole_source else {}),
    }
    if work.seen:
        state["seen"] = work.seen
    if work.listed:
        state["listed"] = work.listed
    if found.first_ahead is not None:
        state["ahead"] = as_text(instant_at(found.first_ahead))
    if batch.table.changes.reads_once and fixed.version is not None:
        state["version"] = fixed.version
    if step is not None:
        state |= {"top": step.after.high, **state_of_progress(step.after, step.after.high)}
        state[WITHOUT_CURSOR] = without_cursor_since(
            batch.view.table(batch.table.name), batch.number, found.without
        )
    return json.dumps(state)


def _refuse_other_detector(batch: Batch) -> None:
    """Raise WatermarkError where another detector or column left the position."""
    state = state_of(batch.view.table(batch.table.name).last)
    # The position in a log without a column of its own was called "" once.
    before = state.get("detector"), state.get("column") or "log position"
    now = batch.claims[0].detector, batch.table.changes.positioned_by or "log position"
    if state and before != now:
        raise WatermarkError(
            f"{batch.table.name} was loaded by {before[0]} of {before[1]!r} so far, and is now to "
            f"be loaded by {now[0]} of {now[1]!r}: their watermarks have nothing in common. "
            "Continue as before, or give the source a table of another name."
        )


def _passed_over(batch: Batch, days: Mapping[date, _StoredDay]) -> Mapping[date, int]:
    """How many rows more the source has of a day than before, beyond those that were new.

    0 for a day with as many rows as before of which some are others, and none was new.
    """
    if not batch.table.changes.may_pass_over:
        return {}
    more: dict[date, int] = {}
    for day, last in last_inspections(batch).items():
        before, now = state_of(last).get("seen", ""), batch.work.days[day].seen
        if before and now:
            new = days[day].rows if day in days else 0
            rows = rows_in(now) - rows_in(before) - new
            others = before != now and before.count(":") == now.count(":")
            if rows > 0 or (rows == new == 0 and others):
                more[day] = rows
    return more


def _notes(
    batch: Batch, days: Mapping[date, _StoredDay], step: SequenceStep | None
) -> tuple[str, ...]:
    notes = list(step.notes) if step is not None else []
    changes = batch.table.changes
    ahead = sum(found.ahead for found in days.values())
    if ahead:
        notes.append(changes.ahead_note(ahead, batch.now))
    notes += changes.passed_over_notes(_passed_over(batch, days))
    odd = sum(found.unreadable for found in days.values())
    if odd:
        notes.append(f"{counted(odd, 'row')} quarantined: no readable {changes.positioned_by}")
    return tuple(notes)
