"""Days that Dagster shows as failed although nothing is wrong with them.

A run plans all days of its range before it begins. If it is interrupted, or one table fails and
what is built on it is skipped, Dagster shows every day of the range as failed that the run has not
materialized, also those that were loaded long before; after a `kill -9` as in progress, for ever
where no daemon ends the run. The ledger knows better.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import dagster as dg

from incremental_assets.days import named, utc_today
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import DayResult
from incremental_assets.ledger.view import LedgerView
from incremental_assets.orchestration.events import materialization
from incremental_assets.orchestration.failed_runs import failures
from incremental_assets.orchestration.metadata import shown
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.partitions import daily
from incremental_assets.orchestration.process import is_alive, recorded_process
from incremental_assets.orchestration.under_way import loads, runs_that_load
from incremental_assets.plan import pending_days, stale_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

DAYS_PER_TICK = 250
_REPORTED = "reported as loaded"
# The values of Dagster's status of a partition, whose type is not public.
_FAILED, _IN_PROGRESS = "FAILED", "IN_PROGRESS"


@dataclass(frozen=True)
class RedDays:
    """The days of a lake that an instance shows as failed, by the ledger as it is in `view`."""

    instance: dg.DagsterInstance
    view: LedgerView
    settings: Settings
    now: datetime
    naming: Naming = ALONE

    def clear(
        self, tables: Sequence[Table], log: Callable[[str], None], most: int = sys.maxsize
    ) -> bool:
        """Report those of these tables that are up to date as materialized, and log them.

        At most `most` days; returns whether these were all.

        Days that are shown as in progress count as failed if every run of the table is dead.
        A day that is held, stale or pending stays as it is, and so does one of which any upstream
        is. A day that was never loaded stays red, too: there is nothing that could be shown as
        loaded. Raises SourceError if the source of a table with failed days cannot be listed.
        """
        waiting = _NotUpToDate(self.view, self.settings, self.now)
        for table in tables:
            red = self._of(table)
            loaded = red & self.view.table(table.name).last_committed.keys()
            left = loaded - waiting.by_ledger(table) if loaded else loaded
            wrong = sorted(left - waiting.at_source(table)) if left else []
            cleared = wrong[:most]
            if cleared:
                log(f"{table.name} {named(cleared)}: up to date and shown as failed: {_REPORTED}")
                self._report(table, cleared)
            most -= len(cleared)
            if len(cleared) < len(wrong):
                return False
        return True

    def clear_if_possible(
        self, tables: Sequence[Table], log: Callable[[str], None], most: int = sys.maxsize
    ) -> bool:
        """The same at the end of loads: what cannot be inspected is logged, and left to the next.

        Its error is no reason that what these loads did is not reported.
        """
        try:
            return self.clear(tables, log, most)
        except IncrementalAssetsError as error:
            log(f"{error} Days that Dagster shows as failed without cause stay so until then.")
            return False

    def clear_after_failures(
        self, tables: Sequence[Table], seen: int, log: Callable[[str], None]
    ) -> int:
        """Clear the tables of the runs that failed after the event `seen`; the last such event.

        With `seen` 0, at a first time, all tables, if any run has failed. It is returned as it is
        where a source cannot be inspected or some days are left, for a tick has time for
        `DAYS_PER_TICK`. A run that is cancelled leaves no day red: Dagster shows what it has not
        reached as before.
        """
        found = failures(self.instance, seen or None)
        if not found:
            return seen
        runs = [self.instance.get_run_by_id(event.run_id) for event in found] if seen else []
        chosen = [t for t in tables if not seen or any(r and self._loads(r, t) for r in runs)]
        return found[-1].storage_id if self.clear_if_possible(chosen, log, DAYS_PER_TICK) else seen

    def _loads(self, run: dg.DagsterRun, table: Table) -> bool:
        return loads(self.instance, run, table, self.naming)

    def _of(self, table: Table) -> set[date]:
        partitions, key = daily(self.settings), self.naming.key(table)
        keys = partitions.get_partition_keys()
        wrong = {_FAILED} if self._is_loading(table) else {_FAILED, _IN_PROGRESS}
        shown_as = self.instance.get_status_by_partition(key, keys, partitions) or {}
        return {
            date.fromisoformat(key)
            for key, status in shown_as.items()
            if status is not None and status.value in wrong
        }

    def _is_loading(self, table: Table) -> bool:
        """Whether a run that has not ended and may be alive loads the table."""
        processes = map(recorded_process, runs_that_load(self.instance, table, self.naming))
        return any(not each or is_alive(each) is not False for each in processes)

    def _report(self, table: Table, days: Sequence[date]) -> None:
        history = self.view.table(table.name)
        after = shown(table, self.settings.lake, history, self.naming)
        for day in days:
            result = DayResult(day, "idle")
            event = materialization(self.naming.key(table), table, result, after)
            self.instance.report_runless_asset_event(event)


class _NotUpToDate:
    """Which days of a table wait for a load or a decision, of its own or of what it is built on.

    What is built on a day that was never published is not stale, and yet not loaded. What the
    ledger knows costs no listing of a source.
    """

    def __init__(self, view: LedgerView, settings: Settings, now: datetime) -> None:
        self._view, self._settings, self._now = view, settings, now
        self._in_ledger: dict[str, frozenset[date]] = {}
        self._at_source: dict[str, frozenset[date]] = {}

    def by_ledger(self, table: Table) -> frozenset[date]:
        """The days that are held or stale, of the table or of what it is built on."""
        return self._and_above(table, self._in_ledger, self._held_or_stale)

    def at_source(self, table: Table) -> frozenset[date]:
        """The days that have something new at a source of the table, or of what it is built on.

        Raises SourceError if such a source cannot be listed.
        """
        return self._and_above(table, self._at_source, self._pending)

    def _and_above(
        self,
        table: Table,
        known: dict[str, frozenset[date]],
        own: Callable[[Table], set[date]],
    ) -> frozenset[date]:
        if table.name not in known:
            above = (self._and_above(read.table, known, own) for read in table.upstreams)
            known[table.name] = frozenset().union(own(table), *above)
        return known[table.name]

    def _held_or_stale(self, table: Table) -> set[date]:
        held = set(self._view.table(table.name).held)
        start, today = self._settings.start_date, utc_today(self._now)
        return held | set(stale_days(table, self._view, start, today))

    def _pending(self, table: Table) -> set[date]:
        if table.layer != "bronze":
            return set()
        return set(pending_days(table, self._view, self._settings, self._now).days)
