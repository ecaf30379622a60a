"""One load: claim, read, gate, write, record, in this order only. Knows nothing of Dagster."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Literal

from pyspark.sql import SparkSession

from incremental_assets.batches.batch import Batch, BatchKind, Outcome
from incremental_assets.batches.kinds import detector_of, kind_of
from incremental_assets.batches.lookups import affected_days, looked_up_versions
from incremental_assets.batches.replay import ReplayBatch
from incremental_assets.batches.settling import Target, supersede
from incremental_assets.batches.superseded import outcomes_of, tidy
from incremental_assets.days import chunks, utc_today
from incremental_assets.errors import ConflictError, IncrementalAssetsError, LakeError
from incremental_assets.lake import quarantine
from incremental_assets.lake.beside import tolerated
from incremental_assets.lake.delta_log import ensure_table, version_of
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record, settle
from incremental_assets.ledger.together import new_token
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import Plan, Work, file_entries, plan_replay, plan_restate, plan_table
from incremental_assets.plan.work import DAYS_PER_BATCH
from incremental_assets.quality.judge import RuleResult
from incremental_assets.settings import Settings
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.table import Table

DayState = Literal["committed", "held", "refused", "idle"]


@dataclass(frozen=True)
class DayResult:
    """What a load did for a day; `entries` are the outcomes of its batches, oldest first."""

    day: date
    state: DayState
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    checks: Mapping[str, RuleResult] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadResult:
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
    """Loads tables of a lake, for any days, from wherever it is called.

    `spark` is asked for a session only when there is something to read; `now` is read once per
    load; `say` takes one line of progress at a time.
    """

    def __init__(
        self,
        settings: Settings,
        tables: Sequence[Table],
        spark: Callable[[], SparkSession],
        now: Callable[[], datetime],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.tables = tuple(tables)
        self.ledger = Ledger(ledger_path(settings.lake))
        self._spark = spark
        self.now = now
        self.say = say

    @property
    def spark(self) -> Callable[[], SparkSession]:
        """Gives the session that the loads use, and starts it if there is none."""
        return self._spark

    def load(self, table: Table, days: Sequence[date], run_id: str = "") -> LoadResult:
        """Advance the table by what is new for these days; restate the days that were restated.

        Days whose gate fails are held and named in the result, not raised. Raises an
        IncrementalAssetsError if the job could not be done; nothing is then half-written.
        """

        def planned(some: Sequence[date], view: LedgerView) -> Plan:
            now = self.now()
            return plan_table(table, some, view, self.settings, utc_today(now), now=now)

        return self._load(table, days, planned, run_id, "a load")

    def replay(
        self, table: Table, days: Sequence[date], reason: str = "", run_id: str = ""
    ) -> LoadResult:
        """Send the rows that lie in quarantine of these days through today's rules and code.

        With a `reason`, those that have it. What passes is merged like late data and leaves
        quarantine; the check `replayed` of a day says how many. Days that are held, or about to be
        judged anew, are refused. Raises an IncrementalAssetsError if nothing could be done.
        """
        planned = partial(plan_replay, table)
        return self._load(table, days, planned, run_id, "a replay", ReplayBatch(reason))

    def restate(self, table: Table, days: Sequence[date], why: str, run_id: str = "") -> LoadResult:
        """Build days of a silver or gold table anew from what they are made of, whatever it says.

        What a day reads is what there is of it now: a column that is declared later is filled, for
        bronze still has it. A table that replaces keys makes the rows of every key of these days
        anew, also on later days that go on from them. A day whose upstream is held or has lost its
        rows, or that was never loaded, is refused. Raises DefinitionError for a bronze table, which
        keeps what landed.
        """
        planned = partial(plan_restate, table, why=why, lake=self.settings.lake)
        return self._load(table, days, planned, run_id, "a restatement")

    def in_lake(self, lake: str) -> Lakehouse:
        """The same tables over the same sources in another lake, where rows stay in quarantine."""
        settings = replace(self.settings, lake=lake, quarantine_days=0)
        return Lakehouse(settings, self.tables, self._spark, self.now, self.say)

    def load_as(
        self,
        table: Table,
        days: Sequence[date],
        planned: Callable[[Sequence[date], LedgerView], Plan],
        owner: str,
    ) -> LoadResult:
        """Load what a plan of the caller's own says of the days, as `load` does.

        `owner` is named to whoever waits for the table meanwhile.
        """
        return self._load(table, days, planned, "", owner)

    def settle(self, table: Table) -> LedgerView:
        """Give an unfinished batch of the table its outcome; the view after that."""
        target = Target(self.settings, table, kind_of(table), self.say)
        settle(self.ledger, table.name, target, self.now(), self.say)
        view = self.ledger.view()
        target.tidy(view)
        return view

    def _load(
        self,
        table: Table,
        days: Sequence[date],
        planned: Callable[[Sequence[date], LedgerView], Plan],
        run_id: str,
        owner: str,
        kind: BatchKind | None = None,
    ) -> LoadResult:
        """Do what is planned for the days, some at a time, while no other run has the table."""
        started = time.monotonic()
        results: dict[date, DayResult] = {}
        with table_lock(self.settings.lake, table.name, run_id or owner, self.say):
            for some in chunks(sorted(set(days)), DAYS_PER_BATCH):
                view = self.settle(table)
                after = view.table(table.name).last_batch
                results |= self._do(table, planned(some, view), after, run_id, kind)
        versions = [e.target_version for r in results.values() for e in r.entries]
        last = max((v for v in versions if v is not None), default=None)
        return LoadResult(table.name, results, time.monotonic() - started, last)

    def _do(
        self, table: Table, plan: Plan, after: int, run_id: str, kind: BatchKind | None = None
    ) -> dict[date, DayResult]:
        """Load the batches of a plan; all of one kind, if one is named.

        `after` is the table's last batch as the plan knew it.
        """
        results = {day: DayResult(day, "idle") for day in plan.idle}
        results |= {d: DayResult(d, "refused", why) for d, why in plan.refused.items()}
        for said in plan.notes:
            self.say(f"{table.name}: {said}")
        for work in plan.work:
            self.say(_what(table, work))
            started = time.monotonic()
            outcome = self._run(table, work, after, run_id, kind or kind_of(table, work.mode))
            after = outcome.entries[0].batch
            for said in outcome.notes:
                self.say(f"{table.name}: {said}")
            self.say(_done(table, outcome, time.monotonic() - started))
            for entry in outcome.entries:
                checks = {r.rule: r for r in outcome.results.get(entry.day, ())}
                state: DayState = "held" if entry.state == "held" else "committed"
                results[entry.day] = DayResult(entry.day, state, entry.held_by, (entry,), checks)
        return dict(sorted(results.items()))

    def _run(self, table: Table, work: Work, after: int, run_id: str, kind: BatchKind) -> Outcome:
        started = time.monotonic()
        path = f"{self.settings.lake}/{table.name}"
        ensure_table(path, table.name, kind.columns(table), kind.partition_by(table))
        batch = self._claim(table, work, after, run_id)
        try:
            outcome = kind.execute(batch)
            entries = self._with_affected(batch, outcome.entries)
        except IncrementalAssetsError:
            raise
        except SPARK_ERRORS as error:
            raise LakeError(
                f"{table.name}, batch {batch.number}: Spark failed: {what_failed(error)}. Nothing "
                "was published that is not whole; run again, and if it fails again, look into "
                "what is said here."
            ) from error
        seconds = round(time.monotonic() - started, 3)
        entries = [replace(e, recorded_at=self.now(), seconds=seconds) for e in entries]
        supersede(self.settings, table, entries)
        record(self.ledger, table.name, entries)
        self._tidy(batch, entries)
        return replace(outcome, entries=entries)

    def _tidy(self, batch: Batch, entries: Sequence[Entry]) -> None:
        """Take away what is in quarantine no longer; whatever fails there, the load is done."""
        name, path = batch.table.name, batch.quarantine_path
        days = {entry.day for entry in entries}
        outcomes = (*outcomes_of(batch.view.table(name), days), *entries)
        tidy(path, name, outcomes, days, self.say)
        keep = self.settings.quarantine_days
        if keep and any(entry.rows_quarantined for entry in entries):
            with tolerated(f"{name}: rows that lie in quarantine for too long", self.say):
                quarantine.expire(path, batch.now - timedelta(days=keep))

    def _claim(self, table: Table, work: Work, expected: int, run_id: str) -> Batch:
        """Fix the windows and the upstreams' versions, and write the next number to the ledger.

        Raises ConflictError if anybody gave a number since the plan was made, on the batch
        `expected`.
        """
        now, who, token = self.now(), getpass.getuser(), new_token()
        planned = self.ledger.view()
        claimed: list[Entry] = []

        def decide(view: LedgerView) -> Sequence[Entry]:
            history = view.table(table.name)
            if history.last_batch != expected or history.unsettled:
                raise ConflictError(
                    f"{table.name}: another run claimed batch {history.last_batch} meanwhile. "
                    "Nothing was published by this one; run again."
                )
            claimed[:] = [
                Entry(
                    table=table.name,
                    batch=expected + 1,
                    day=day,
                    state="claimed",
                    kind=work.kind,
                    mode=work.mode,
                    detector=detector_of(table),
                    recorded_at=now,
                    windows=todo.windows,
                    files=file_entries(todo.files),
                    run_id=run_id,
                    who=who,
                    why=todo.why,
                    code_version=table.code_version,
                    token=token,
                )
                for day, todo in sorted(work.days.items())
            ]
            return claimed

        versions = {
            read.table.name: version_of(f"{self.settings.lake}/{read.table.name}")
            for read in table.upstreams
            if planned.table(read.table.name).high
        }
        view = self.ledger.transact(decide)
        # After the claim: whoever commits what is not in these sees the claim, and says what it
        # changed for this table's days (`affected_days`).
        versions |= looked_up_versions(table, self.settings.lake)
        return Batch(
            table, expected + 1, work, claimed, view, versions, self.settings, now, self._spark
        )

    def _with_affected(self, batch: Batch, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Add to each entry which fact days look up what the batch changed.

        For a table that nobody looks up that is none.
        """
        affected = affected_days(batch, self.tables, entries)
        return [replace(e, affects=affected) for e in entries]


def _what(table: Table, work: Work) -> str:
    days = sorted(work.days)
    if len(days) == 1:
        return f"{table.name}: {work.mode} {days[0]}: {work.days[days[0]].why}"
    files = sum(len(day.files) for day in work.days.values())
    why = f"{files} files" if files else f"{work.days[days[0]].why}, …"
    return f"{table.name}: {work.mode} {days[0]} … {days[-1]} ({len(days)} days): {why}"


def _done(table: Table, outcome: Outcome, seconds: float) -> str:
    read = sum(e.rows_read for e in outcome.entries)
    aside = sum(e.rows_quarantined for e in outcome.entries)
    held = [str(e.day) for e in outcome.entries if e.state == "held"]
    tail = f", held: {', '.join(held)}" if held else ""
    return f"{table.name}: {read} rows read, {aside} set aside, {seconds:.1f} s{tail}"
