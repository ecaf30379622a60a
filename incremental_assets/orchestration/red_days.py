"""Days that Dagster shows as failed although nothing is wrong with them.

A run plans all days of its range before it begins. If it is interrupted, or one table fails and
what is built on it is skipped, Dagster shows every day of the range as failed that the run has not
materialized, also those that were loaded long before; after a `kill -9` as in progress, for ever
where no daemon ends the run. The ledger knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import dagster as dg

from incremental_assets.days import named, utc_today
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import DayResult
from incremental_assets.ledger.view import LedgerView
from incremental_assets.orchestration.events import materialization
from incremental_assets.orchestration.metadata import shown
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.partitions import daily
from incremental_assets.orchestration.process import is_alive, recorded_process
from incremental_assets.orchestration.under_way import runs_that_load
from incremental_assets.plan import pending_days, stale_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

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

    def clear(self, tables: Sequence[Table], log: Callable[[str], None]) -> None:
        """Report those of these tables that are up to date as materialized, and log them.

        Days that are shown as in progress count as failed if every run of the table is dead.
        A day that is held, stale or pending stays as it is, and so does one of which any upstream
        is. Raises SourceError if the source of a table with failed days cannot be listed.
        """
        waiting = _NotUpToDate(self.view, self.settings, self.now)
        for table in tables:
            red = self._of(table)
            cleared = sorted(red - waiting.days_of(table)) if red else []
            if cleared:
                log(f"{table.name} {named(cleared)}: up to date and shown as failed: {_REPORTED}")
                self._report(table, cleared)

    def clear_if_possible(self, tables: Sequence[Table], log: Callable[[str], None]) -> None:
        """The same at the end of loads: what cannot be inspected is logged, and left to the next.

        Its error is no reason that what these loads did is not reported.
        """
        try:
            self.clear(tables, log)
        except IncrementalAssetsError as error:
            log(f"{error} Days that Dagster shows as failed without cause stay so until then.")

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

    What is built on a day that was never published is not stale, and yet not loaded.
    """

    def __init__(self, view: LedgerView, settings: Settings, now: datetime) -> None:
        self._view, self._settings, self._now = view, settings, now
        self._known: dict[str, frozenset[date]] = {}

    def days_of(self, table: Table) -> frozenset[date]:
        if table.name not in self._known:
            above = (self.days_of(read.table) for read in table.upstreams)
            self._known[table.name] = frozenset().union(self._own(table), *above)
        return self._known[table.name]

    def _own(self, table: Table) -> set[date]:
        held = set(self._view.table(table.name).held)
        if table.layer == "bronze":
            return held | set(pending_days(table, self._view, self._settings, self._now).days)
        start, today = self._settings.start_date, utc_today(self._now)
        return held | set(stale_days(table, self._view, start, today))
