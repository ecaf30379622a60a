"""A batch from a stored source into a bronze table: the rows of its days that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.batches.batch import Batch, Outcome, from_commit
from incremental_assets.batches.bronze import COLUMNS, PARTITIONS, judging_day
from incremental_assets.batches.stored_rows import (
    AT,
    HASH,
    LANDED,
    WRITTEN,
    reach_of,
    reach_of_numbers,
    stored_rows,
)
from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_sequence import Progress, Step
from incremental_assets.changes.by_sequence import Sequence as SequenceChanges
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.watermark import Seen, as_text, instant, instant_at, number
from incremental_assets.days import utc_today
from incremental_assets.errors import SourceError, WatermarkError
from incremental_assets.frames import persisted
from incremental_assets.intake.progress import next_step, progress_from, state_of_progress
from incremental_assets.intake.rows import unseen
from incremental_assets.lake import quarantine
from incremental_assets.lake.delta_log import Commit, open_table, partition_day, version_of
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import DataFile, read_version
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import stage
from incremental_assets.ledger.entry import Entry
from incremental_assets.plan.stored import last_look, state_of
from incremental_assets.quality.gate import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.sources.stored import FixedSource
from incremental_assets.spark.failure import SPARK_ERRORS
from incremental_assets.table import Table

_LOAD_DAY = "_load_day"
_GOOD = "size(_reasons) = 0"


class StoredBatch:
    """Appends what the source has for the days and the table has not, told apart by a row's hash.

    A day's watermark bounds what is read again; within that, only a row that equals one of the
    table is known. Rows without a day of their own, and those of a day to come, are today's.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return (*COLUMNS, (HASH, "string"))

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def execute(self, batch: Batch) -> Outcome:
        fixed = batch.work.source
        assert fixed is not None
        _refuse_other_detector(batch)
        with own_session(batch.spark(), small=batch.work.small) as session:
            try:
                return self._load(session, batch, fixed)
            except SPARK_ERRORS as error:
                missing = fixed.gone()
                if missing:
                    names = ", ".join(file.path for file in missing[:5])
                    raise SourceError(
                        f"{batch.table.name}: {len(missing)} files of {fixed.path} vanished or "
                        f"changed while they were read: {names}. Nothing was loaded; run again."
                    ) from error
                raise

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, lambda partition: partition_day(partition[1]))

    def _load(self, session: SparkSession, batch: Batch, fixed: FixedSource) -> Outcome:
        step = _sequence_step(session, batch, fixed)
        with _new_rows(session, batch, fixed, step) as rows:
            days = _by_day(rows, batch)
            entries, results = _judge(batch, fixed, days, step)
            if any(found.aside for found in days.values()):
                quarantine.put(rows, batch.quarantine_path, batch.table.name, batch.number)
            published = [e.day for e in entries if e.state == "committed"]
            good = rows.where(F.expr(_GOOD) & F.col(_LOAD_DAY).isin(published))
            notes = _notes(batch, days, step)
            if not sum(days[day].good for day in published if day in days):
                return Outcome(entries, results, notes)
            names = [name for name, _ in self.columns(batch.table)]
            staged = stage(good.select(*names), batch.path, batch.number, PARTITIONS)
        publish(staged, batch.transaction(entries))
        return Outcome(self.settled(batch.table, entries, batch.commit()), results, notes)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for one day: rows, those set aside, the ends of the cursor, odd ones."""

    rows: int = 0
    aside: int = 0
    lowest: Any = None
    highest: Any = None
    nulls: int = 0
    unreadable: int = 0
    ahead: int = 0

    @property
    def good(self) -> int:
        return self.rows - self.aside


@contextmanager
def _new_rows(
    session: SparkSession, batch: Batch, fixed: FixedSource, step: Step | None
) -> Iterator[DataFrame]:
    """The rows of the days that the table does not have, as it keeps them, with `_reasons`."""
    table, today = batch.table, utc_today(batch.now)
    with stored_rows(session, batch, fixed, lambda own: _reach(batch, own)) as source:
        landed, day = F.col(LANDED), F.lit(today)
        if table.landing_column is not None:
            day = F.when(landed.isNull() | (landed > F.lit(today)), F.lit(today)).otherwise(landed)
            rows = source.withColumn("_landing_day", landed)
        else:
            rows = source.withColumn("_landing_day", F.lit(today))
        rows = rows.withColumn(_LOAD_DAY, day).where(_window(batch, step))
        rows = unseen(rows, _known(session, batch, fixed))
        rows = rows.withColumns(
            {
                "_batch": F.lit(batch.number).cast("long"),
                "_day": judging_day(batch, F.col(_LOAD_DAY)),
                "_reasons": _reasons(batch),
                "_line": F.coalesce(F.col("_raw"), F.to_json("payload")),
            }
        )
        if open_table(batch.quarantine_path) is not None:
            aside = read_version(session, batch.quarantine_path, version_of(batch.quarantine_path))
            lines = aside.selectExpr("row AS _line").distinct()
            rows = rows.where(_GOOD).unionByName(
                rows.where(f"NOT {_GOOD}").join(lines, "_line", "left_anti")
            )
        with persisted(rows) as kept:
            yield kept


def _window(batch: Batch, step: Step | None) -> Column:
    """Which rows may be new: those of the batch's days, by what each of them was read up to."""
    changes, at = batch.table.changes, F.col(AT)
    by_low: dict[datetime | None, list[date]] = {}
    for day, last in _last_looks(batch).items():
        low = None
        if isinstance(changes, Timestamp) and last is not None:
            low = changes.read_from(instant(last.high))
        by_low.setdefault(low, []).append(day)
    parts = []
    for low, days in by_low.items():
        here = F.col(_LOAD_DAY).isin(days)
        parts.append(here if low is None else here & (at.isNull() | (at >= F.lit(low))))
    found = reduce(Column.__or__, parts)
    if isinstance(changes, SequenceChanges):
        if batch.table.landing_column is None:
            before = _progress(batch)
            if before.high is not None:
                gaps = [at.between(low, high) for low, high in before.gaps]
                above = at > F.lit(before.high - changes.lag)
                found &= at.isNull() | reduce(Column.__or__, gaps, above)
        if step is not None and step.stop is not None:
            found &= at.isNull() | (at <= F.lit(step.stop))
    if isinstance(changes, Timestamp | SequenceChanges) and changes.nulls == "raise":
        found |= _is_null()
    return found


def _reach(batch: Batch, own: Mapping[str, DataType]) -> Column | None:
    """The same as far as it can be said of the columns in the files, so that most are skipped."""
    column, changes = batch.table.landing_column, batch.table.changes
    if column is None and isinstance(changes, SequenceChanges) and changes.column in own:
        return reach_of_numbers(changes.column, own[changes.column], _lowest_number(batch))
    if column is None or column not in own:
        return None
    days = sorted(batch.work.days)
    first = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC)
    last = datetime(days[-1].year, days[-1].month, days[-1].day, tzinfo=UTC)
    if isinstance(changes, Timestamp) and changes.column == column:
        looks = _last_looks(batch)
        lows = [changes.read_from(instant(e.high)) if e else None for e in looks.values()]
        if all(low is not None for low in lows):
            first = max(first, min(low for low in lows if low is not None))
    # Rows without a day are today's, and where they are an error, everybody's.
    rest = utc_today(batch.now) in batch.work.days
    nulls = rest or getattr(changes, "nulls", "") == "raise"
    return reach_of(column, own[column], first, last + timedelta(days=1), rest=rest, nulls=nulls)


def _known(session: SparkSession, batch: Batch, fixed: FixedSource) -> list[DataFrame]:
    """Hashes of the rows that the table holds, where one of the new ones may be among them."""
    table, today = batch.table, utc_today(batch.now)
    if not batch.view.table(table.name).committed:
        return []

    def keep(file: DataFile) -> bool:
        landed = file.partition["_landing_day"]
        if table.landing_column is None or landed in batch.work.days:
            return True
        return today in batch.work.days and (landed is None or landed > today)

    if table.landing_column is None and isinstance(table.changes, ChangeLog):
        known = {f.path for e in batch.view.table(table.name).committed for f in e.files}
        again = any(file.path in known for work in batch.work.days.values() for file in work.files)
        if not again and fixed.version is None:
            return []
    return [read_version(session, batch.path, version_of(batch.path), keep).select(HASH)]


def _reasons(batch: Batch) -> Column:
    """What sets a row aside: a cursor that says nothing. Bronze judges nothing else."""
    changes = batch.table.changes
    found: list[Column] = []
    if isinstance(changes, Timestamp | SequenceChanges):
        found.append(F.when(_is_unreadable(), F.lit(f"{changes.column}_unreadable")))
        if changes.nulls == "quarantine":
            found.append(F.when(_is_null(), F.lit(f"{changes.column}_null")))
    if isinstance(changes, Timestamp) and changes.future == "quarantine":
        found.append(F.when(_is_ahead(batch), F.lit(f"{changes.column}_in_future")))
    nothing = F.array(F.lit(None).cast("string"))
    return F.array_except(F.array(*found), nothing) if found else F.array().cast("array<string>")


def _is_null() -> Column:
    return F.col(AT).isNull() & ~F.col(WRITTEN) & F.col("_raw").isNull()


def _is_unreadable() -> Column:
    return F.col(AT).isNull() & F.col(WRITTEN)


def _is_ahead(batch: Batch) -> Column:
    changes = batch.table.changes
    if not isinstance(changes, Timestamp):
        return F.lit(False)
    return F.coalesce(F.col(AT) > F.lit(batch.now + changes.tolerance), F.lit(False))


def _by_day(rows: DataFrame, batch: Batch) -> Mapping[date, _Found]:
    ahead = _is_ahead(batch)
    timed = isinstance(batch.table.changes, Timestamp)
    at = F.when(~ahead, F.unix_micros(AT) if timed else F.col(AT))
    found = rows.groupBy(_LOAD_DAY).agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(~F.expr(_GOOD)).alias("aside"),
        F.min(at).alias("lowest"),
        F.max(at).alias("highest"),
        F.count_if(_is_null()).alias("nulls"),
        F.count_if(_is_unreadable()).alias("unreadable"),
        F.count_if(ahead).alias("ahead"),
    )
    days = {row[_LOAD_DAY]: _Found(*row[1:]) for row in found.collect()}
    changes = batch.table.changes
    nulls = sum(each.nulls for each in days.values())
    if nulls and isinstance(changes, Timestamp | SequenceChanges) and changes.nulls == "raise":
        raise SourceError(
            f"{batch.table.name}: {nulls} rows have no {changes.column}, so nobody can say whether "
            "they are new. Nothing was loaded and no watermark moved; repair them at the source, "
            "or say nulls='quarantine' to set them aside or nulls='include' to load each of them "
            "once."
        )
    return days


def _judge(
    batch: Batch, fixed: FixedSource, days: Mapping[date, _Found], step: Step | None
) -> tuple[list[Entry], dict[date, list[RuleResult]]]:
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    looks = _last_looks(batch)
    for claim in batch.claims:
        found = days.get(claim.day, _Found())
        counts = DayCounts(found.rows, found.aside, found.rows, found.aside)
        results[claim.day] = judge_day(batch.table.rules, counts)
        failed = [r for r in results[claim.day] if r.severity == "fail" and not r.passed]
        last = looks[claim.day]
        low = last.high if last is not None else ""
        entries.append(
            replace(
                claim,
                state="held" if failed else "committed",
                held_by="; ".join(f"{r.rule}: {r.found}" for r in failed),
                rows_read=found.rows,
                rows_inserted=found.good,
                rows_quarantined=found.aside,
                bytes=sum(file.size for file in claim.files),
                low=low,
                high=_watermark(batch, low, found),
                position=_position(batch, fixed, claim.day, step),
            )
        )
    return entries, results


def _watermark(batch: Batch, before: str, found: _Found) -> str:
    changes = batch.table.changes
    low, high = found.lowest, found.highest
    if isinstance(changes, Timestamp):
        first, last = (None if end is None else instant_at(int(end)) for end in (low, high))
        seen = Seen(first, last, found.good, batch.now)
        return as_text(changes.advanced(instant(before), seen))
    if isinstance(changes, SequenceChanges):
        lowest, highest = (None if end is None else int(end) for end in (low, high))
        seen = Seen(lowest, highest, found.good, batch.now)
        return as_text(changes.advanced(number(before), seen))
    return before


def _position(batch: Batch, fixed: FixedSource, day: date, step: Step | None) -> str:
    work = batch.work.days[day]
    state: dict[str, Any] = {"detector": batch.claims[0].detector, "column": _column(batch.table)}
    state["source"] = fixed.mark
    if work.seen:
        state["seen"] = work.seen
    if isinstance(batch.table.changes, ChangeLog) and fixed.version is not None:
        state["version"] = fixed.version
    if step is not None:
        state |= {"top": step.after.high, **state_of_progress(step.after, step.after.high)}
    return json.dumps(state)


def _sequence_step(session: SparkSession, batch: Batch, fixed: FixedSource) -> Step | None:
    """How far a sequence may be read.

    Gaps are of the source, whatever days are loaded, so its numbers are read for all of them: one
    column, above what is known to be without a gap.
    """
    changes = batch.table.changes
    if not isinstance(changes, SequenceChanges):
        return None
    before, low = _progress(batch), _lowest_number(batch)

    def above(own: Mapping[str, DataType]) -> Column | None:
        return reach_of_numbers(changes.column, own.get(changes.column), low)

    with stored_rows(session, batch, fixed, above) as rows:
        numbers = rows.select(AT) if low is None else rows.select(AT).where(F.col(AT) > F.lit(low))
        return next_step(changes, before, numbers, AT, batch.now, batch.table.name)


def _lowest_number(batch: Batch) -> int | None:
    """Above this number something may be new."""
    changes, before = batch.table.changes, _progress(batch)
    if before.high is None or not isinstance(changes, SequenceChanges):
        return None
    return min(before.high - changes.lag, *(low - 1 for low, _ in before.gaps), before.high)


def _progress(batch: Batch) -> Progress:
    committed = batch.view.table(batch.table.name).committed
    return progress_from(state_of(committed[-1] if committed else None), None)


def _last_looks(batch: Batch) -> Mapping[date, Entry | None]:
    history = batch.view.table(batch.table.name)
    return {day: last_look(batch.table, history, day) for day in sorted(batch.work.days)}


def _column(table: Table) -> str:
    return str(getattr(table.changes, "column", "") or getattr(table.changes, "sequence", ""))


def _refuse_other_detector(batch: Batch) -> None:
    """Raise WatermarkError where another detector or column left the position."""
    committed = batch.view.table(batch.table.name).committed
    state = state_of(committed[-1]) if committed else {}
    before = state.get("detector"), state.get("column")
    now = batch.claims[0].detector, _column(batch.table)
    if state and before != now:
        raise WatermarkError(
            f"{batch.table.name} was loaded by {before[0]} of {before[1]!r} so far, and is now to "
            f"be loaded by {now[0]} of {now[1]!r}: their watermarks have nothing in common. Go on "
            "as before, or give the source a table of another name."
        )


def _notes(batch: Batch, days: Mapping[date, _Found], step: Step | None) -> tuple[str, ...]:
    notes = list(step.notes) if step is not None else []
    changes = batch.table.changes
    ahead = sum(found.ahead for found in days.values())
    if ahead and isinstance(changes, Timestamp):
        done = "set aside" if changes.future == "quarantine" else "loaded"
        limit = (batch.now + changes.tolerance).isoformat()
        notes.append(
            f"{ahead} rows have a {changes.column} beyond {limit}: they were {done}, and do not "
            "move the watermark"
        )
    odd = sum(found.unreadable for found in days.values())
    if odd:
        notes.append(f"{odd} rows were set aside: their {_column(batch.table)} cannot be read")
    return tuple(notes)
