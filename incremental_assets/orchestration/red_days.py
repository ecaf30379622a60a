"""Days that Dagster shows as failed although nothing is wrong with them.

A run plans all days of its range before it begins. If it is interrupted, or one table fails and
what is built on it is skipped, Dagster shows every day of the range as failed that the run has not
materialized, also those that were loaded long before; after a `kill -9` as in progress, for ever
where no daemon ends the run. The ledger knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime

import dagster as dg

from incremental_assets.days import named, utc_today
from incremental_assets.lakehouse import DayResult
from incremental_assets.ledger.view import LedgerView
from incremental_assets.orchestration.events import materialization
from incremental_assets.orchestration.metadata import shown
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.partitions import RANGE_START, daily
from incremental_assets.orchestration.process import is_alive, recorded_process
from incremental_assets.orchestration.requests import UNDER_WAY
from incremental_assets.plan import pending_days, stale_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_PARTITION = "dagster/partition"
# The values of Dagster's status of a partition, whose type is not public.
_FAILED, _IN_PROGRESS = "FAILED", "IN_PROGRESS"


def clear_red_days(
    instance: dg.DagsterInstance,
    tables: Sequence[Table],
    view: LedgerView,
    settings: Settings,
    now: datetime,
    log: Callable[[str], None],
    naming: Naming = ALONE,
) -> None:
    """Report the days as materialized that are shown as failed and are up to date, and log them.

    Days that are shown as in progress count as failed if every run of the table is dead.
    A day that is held, stale or pending stays as it is, and so does one of which any upstream is.
    Raises SourceError if the source of a table with failed days cannot be listed.
    """
    waiting = _NotUpToDate(view, settings, now)
    for table in tables:
        red = _red(instance, table, settings, naming)
        cleared = sorted(red - waiting.days_of(table)) if red else []
        if not cleared:
            continue
        log(f"{table.name} {named(cleared)}: up to date and shown as failed: reported as loaded")
        after = shown(table, settings.lake, view.table(table.name), naming)
        for day in cleared:
            event = materialization(naming.key(table), table, DayResult(day, "idle"), after)
            instance.report_runless_asset_event(event)


def _red(
    instance: dg.DagsterInstance, table: Table, settings: Settings, naming: Naming
) -> set[date]:
    partitions = daily(settings)
    keys = partitions.get_partition_keys()
    wrong = {_FAILED} if _is_loading(instance, table, naming) else {_FAILED, _IN_PROGRESS}
    shown_as = instance.get_status_by_partition(naming.key(table), keys, partitions) or {}
    return {
        date.fromisoformat(key)
        for key, status in shown_as.items()
        if status is not None and status.value in wrong
    }


def _is_loading(instance: dg.DagsterInstance, table: Table, naming: Naming) -> bool:
    """Whether a run that has not ended and may be alive loads the table."""
    for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)):
        if naming.loads(run, table) or _may_load_anything(run):
            process = recorded_process(run)
            if not process or is_alive(process) is not False:
                return True
    return False


def _may_load_anything(run: dg.DagsterRun) -> bool:
    """A run of days without a selection, of a job that this code does not know."""
    return not run.asset_selection and bool({_PARTITION, RANGE_START} & run.tags.keys())


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
