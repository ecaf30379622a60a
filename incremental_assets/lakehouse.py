"""The tables of a lake, loaded for any days: each plan, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from itertools import groupby
from typing import Any, Literal

from pyspark.sql import SparkSession

from incremental_assets.days import named, utc_today
from incremental_assets.engine.batch import BatchKind, Outcome
from incremental_assets.engine.kinds import kind_of
from incremental_assets.engine.load import load
from incremental_assets.engine.replay import ReplayBatch
from incremental_assets.engine.settling import TableSettling
from incremental_assets.engine.table_load import LoadContext, TableSteps
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import settle
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import Plan, Work, plan_replay, plan_restate, plan_table
from incremental_assets.plan.batches import in_batches
from incremental_assets.plan.lost_days import without_lost_days
from incremental_assets.plan.retract import plan_retraction
from incremental_assets.plan.work import why_of_days
from incremental_assets.plurals import counted
from incremental_assets.quality.judge import RuleResult
from incremental_assets.registration import Registration
from incremental_assets.repeatedly import repeatedly
from incremental_assets.scan_progress import in_lines, showing
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_SILENT_SECONDS = 10.0  # of days with nothing to do, before a line shows how far it is
_LONG_SECONDS = 30.0  # of one batch, before each line that shows that it goes on

DayState = Literal["committed", "held", "refused", "idle"]


@dataclass(frozen=True)
class DayResult:
    """What a load did for a day; `entries` are the outcomes of its batches, oldest first.

    `reason` is why a day is held or refused, or which files an idle one waits for.
    """

    day: date
    state: DayState
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    checks: Mapping[str, RuleResult] = field(default_factory=dict)


@dataclass(frozen=True)
class TableLoadResult:
    """What a load of a table did, day by day. `seconds` is wall time."""

    table: str
    days: Mapping[date, DayResult]
    seconds: float
    target_version: int | None = None

    @property
    def failed(self) -> Mapping[date, DayResult]:
        """The days that were not published because a gate failed, here or upstream."""
        return {d: r for d, r in self.days.items() if r.state in ("held", "refused")}


class Lakehouse:
    """Loads tables of a lake, for any days, with or without Dagster.

    `spark` is called for a session only when there is something to read; `now` is read once per
    load; `log` takes one line of progress at a time. Where the settings name a catalog, a table is
    registered there after its load; the load stands, whatever becomes of that.
    """

    def __init__(
        self,
        settings: Settings,
        tables: Sequence[Table],
        spark: Callable[[], SparkSession],
        now: Callable[[], datetime],
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.tables = tuple(tables)
        self.ledger = Ledger(ledger_path(settings.lake))
        self._spark = spark
        self.now = now
        self.log = log
        self._registration = Registration(settings, spark, log)

    @property
    def spark(self) -> Callable[[], SparkSession]:
        """A function that returns the session of the loads, and starts it if there is none."""
        return self._spark

    def load(self, table: Table, days: Sequence[date], run_id: str = "") -> TableLoadResult:
        """Advance the table by what is new for these days; restate the days that were restated.

        Days whose gate fails are held and named in the result, not raised; a day that it would
        empty, because its upstream has lost the rows, is refused. Raises an IncrementalAssetsError
        if the job could not be done; nothing is then half-written.
        """

        def planned(some: Sequence[date], view: LedgerView) -> Plan:
            return without_lost_days(self.plan(table, some, view), table, view, self.settings.lake)

        return self._load(table, days, planned, run_id, "a load")

    def plan(self, table: Table, days: Sequence[date], view: LedgerView) -> Plan:
        """What a load of these days would do now, by a view of the ledger. Changes nothing."""
        now = self.now()
        plan = plan_table(table, days, view, self.settings, utc_today(now), now=now)
        return replace(plan, now=now)

    def replay(
        self, table: Table, days: Sequence[date], reason: str = "", run_id: str = ""
    ) -> TableLoadResult:
        """Send the rows that are in quarantine of these days through today's rules and code.

        With a `reason`, those that have it. Rows that pass are merged like late data and leave
        quarantine; the check `replayed` of a day counts them. Days that are held, or that the next
        run re-evaluates, are refused. Raises an IncrementalAssetsError if nothing could be done.
        """
        planned = partial(plan_replay, table)
        return self._load(table, days, planned, run_id, "a replay", ReplayBatch(reason))

    def restate(
        self, table: Table, days: Sequence[date], why: str, run_id: str = ""
    ) -> TableLoadResult:
        """Rebuild days of a silver or gold table from its upstreams, also if nothing is new.

        A rebuild reads all that the upstreams have of the day now, so a column that is declared
        later is filled from bronze. A table that recomputes keys computes the rows of every key of
        these days again, also on later days that continue them. A day whose upstream is held or
        has lost its rows, or that was never loaded, is refused. Raises DefinitionError for a bronze
        table, which keeps what landed.
        """
        planned = partial(plan_restate, table, why=why, lake=self.settings.lake)
        return self._load(table, days, planned, run_id, "a restatement")

    def retract(
        self, table: Table, days: Sequence[date], paths: Collection[str], why: str, run_id: str = ""
    ) -> TableLoadResult:
        """Remove the rows of landed files of these landing days from a bronze table.

        A file that was not loaded, or was retracted before, is left out. Raises as
        `plan_retraction` does.
        """
        planned = partial(plan_retraction, table, paths, why, self.settings)
        return self._load(table, days, planned, run_id, "a retraction")

    def in_lake(self, lake: str, now: datetime) -> Lakehouse:
        """The same tables and sources in another lake, where it is always `now`.

        Rows stay in quarantine there for ever, and no catalog gets its tables.
        """
        settings = self.settings.replace(lake=lake, quarantine_days=0, catalog="")
        return Lakehouse(settings, self.tables, self._spark, lambda: now, self.log)

    def load_as(
        self,
        table: Table,
        days: Sequence[date],
        planned: Callable[[Sequence[date], LedgerView], Plan],
        owner: str,
    ) -> TableLoadResult:
        """Load the days by a plan of the caller's own, as `load` does.

        Loads that wait for the table log the name `owner`.
        """
        return self._load(table, days, planned, "", owner)

    def settle(self, table: Table) -> LedgerView:
        """Give an unfinished batch of the table its outcome; the view after that."""
        settling = TableSettling.of(self.settings, table, kind_of(table), self.log)
        settle(self.ledger, table.name, settling, self.now(), self.log)
        view = self.ledger.view()
        settling.remove_outdated(view)
        return view

    def _load(
        self,
        table: Table,
        days: Sequence[date],
        planned: Callable[[Sequence[date], LedgerView], Plan],
        run_id: str,
        owner: str,
        kind: BatchKind[Any] | None = None,
    ) -> TableLoadResult:
        """Load what is planned for the days, some at a time, under the table's lock."""
        started = logged_at = time.monotonic()
        results: dict[date, DayResult] = {}
        after = 0

        def planned_now(some: Sequence[date]) -> Plan:
            nonlocal after
            view = self.settle(table)
            after = view.table(table.name).last_batch
            return planned(some, view)

        with (
            table_lock(self.settings.lake, table.name, run_id or owner, self.log),
            showing(in_lines(self.log)),
        ):
            wanted = sorted(set(days))
            for plan in in_batches(table, wanted, planned_now):
                found = self._do(table, plan, after, run_id, kind)
                results |= found
                now, done = time.monotonic(), len(results)
                worked = any(result.state != "idle" for result in found.values())
                if done < len(wanted) and (worked or now - logged_at > _SILENT_SECONDS):
                    self.log(_progress(table, done, len(wanted), now - started))
                    logged_at = now
            versions = [e.target_version for r in results.values() for e in r.entries]
            last = max((v for v in versions if v is not None), default=None)
            if last is not None:
                self._registration.write_comments(table)
        result = TableLoadResult(table.name, results, time.monotonic() - started, last)
        if last is not None:
            self._registration.after_load(table)
        return result

    def _do(
        self, table: Table, plan: Plan, after: int, run_id: str, kind: BatchKind[Any] | None = None
    ) -> dict[date, DayResult]:
        """Load the batches of a plan; all of one kind, if one is named.

        `after` is the table's last batch as the plan knew it.
        """
        results = {d: DayResult(d, "idle", plan.waits.get(d, "")) for d in plan.idle}
        results |= {d: DayResult(d, "refused", why) for d, why in plan.refused.items()}
        for note in plan.notes:
            self.log(f"{table.name}: {note}")
        lake = LoadContext(self.settings, self.tables, self.ledger, self._spark, self.now, self.log)
        for _, works in groupby(plan.work, lambda work: (work.kind, work.mode)):
            alike = list(works)
            self.log(_what(table, alike))
            to_log, since = list[Outcome](), time.monotonic()
            for number, work in enumerate(alike, 1):
                how = kind or kind_of(table, work.mode, work.kind)
                steps = TableSteps(lake, table, work, after, run_id, how, plan.now)
                outcome = self._load_batch(table, work, steps)
                after = outcome.entries[0].batch
                to_log.append(outcome)
                now = time.monotonic()
                if number == len(alike) or now - since > _SILENT_SECONDS:
                    self.log(_done(table, to_log, now - since, of_several=len(plan.work) > 1))
                    to_log, since = [], now
                for entry in outcome.entries:
                    checks = {r.rule: r for r in outcome.results.get(entry.day, ())}
                    state: DayState = "held" if entry.state == "held" else "committed"
                    day = DayResult(entry.day, state, entry.held_by, (entry,), checks)
                    results[entry.day] = day
        return dict(sorted(results.items()))

    def _load_batch(self, table: Table, work: Work, steps: TableSteps) -> Outcome:
        """Load one batch, and log that it goes on, and its notes."""
        started = time.monotonic()
        with repeatedly(partial(self._still_loading, table, work, started), _LONG_SECONDS):
            outcome = load(steps)
        assert outcome is not None  # a batch of days always has one
        for note in outcome.notes:
            self.log(f"{table.name}: {note}")
        return outcome

    def _still_loading(self, table: Table, work: Work, started: float) -> None:
        seconds = time.monotonic() - started
        days = counted(len(work.days), "day")
        self.log(f"{table.name}: still loading {days}, {seconds:,.0f} s so far")


def _what(table: Table, works: Sequence[Work]) -> str:
    """What batches load that are alike but for their days."""
    todo = {day: work for each in works for day, work in each.days.items()}
    days, first = sorted(todo), works[0]
    if len(days) == 1:
        how = first.kind if first.kind == "retract" else first.mode
        return f"{table.name}: {how} {days[0]}: {todo[days[0]].why}"
    files = sum(len(day.files) for day in todo.values())
    differ = "" if len({work.why for work in todo.values()}) == 1 else ", …"
    why = counted(files, "file") if files else f"{why_of_days(todo[days[0]].why)}{differ}"
    batches = f" in {counted(len(works), 'batch', 'batches')}" if len(works) > 1 else ""
    many = f" ({counted(len(days), 'day')}{batches})" if len(days) > 2 or batches else ""
    span = f"{named(days)}{many}"
    return f"{table.name}: {first.mode} {span}: {why}"


def _progress(table: Table, done: int, of: int, seconds: float) -> str:
    """How many days are done, and how long the rest takes if it goes on like that."""
    left = seconds / max(done, 1) * (of - done)
    return f"{table.name}: {done:,} of {counted(of, 'day')} done, about {left:,.0f} s more"


def _done(
    table: Table, outcomes: Sequence[Outcome], seconds: float, *, of_several: bool = False
) -> str:
    """What batches did together, with their days where the load has several batches."""
    entries = [entry for outcome in outcomes for entry in outcome.entries]
    held = sorted(entry.day for entry in entries if entry.state == "held")
    tail = f", held: {', '.join(map(str, held))}" if held else ""
    quarantined = sum(e.rows_quarantined for e in entries)
    rows = f"{counted(sum(e.rows_read for e in entries), 'row')} read, {quarantined:,} quarantined"
    if any(entry.kind == "retract" for entry in entries):
        rows = f"{counted(sum(e.rows_deleted for e in entries), 'row')} retracted"
    days = f" {named(entry.day for entry in entries)}" if of_several else ""
    return f"{table.name}{days}: {rows}, {seconds:.1f} s{tail}"
