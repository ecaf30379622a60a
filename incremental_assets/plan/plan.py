"""What loading given days of any table would do now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.accepted import with_accepted
from incremental_assets.plan.derived import plan_derived
from incremental_assets.plan.inspector import INSPECTOR, Inspector
from incremental_assets.plan.landed import plan_landed
from incremental_assets.plan.stored import plan_stored
from incremental_assets.plan.work import Plan
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def plan_table(
    table: Table,
    days: Sequence[date],
    view: LedgerView,
    settings: Settings,
    today: date,
    inspection: Inspector = INSPECTOR,
    *,
    now: datetime | None = None,
) -> Plan:
    """What loading these days of a table would do now. Changes nothing.

    Without `now`, rows of a stored source whose timestamp is in `today` count as come. Raises
    SourceError if the landing or a stored source cannot be listed.
    """
    return with_accepted(
        plan_undecided(table, days, view, settings, today, inspection, now), table, view
    )


def plan_undecided(
    table: Table,
    days: Sequence[date],
    view: LedgerView,
    settings: Settings,
    today: date,
    inspection: Inspector,
    now: datetime | None,
) -> Plan:
    """As `plan_table`, without what a manual decision accepted."""
    if table.feed is not None:
        return plan_landed(table, table.feed, days, view, settings, inspection)
    if table.source is not None:
        return plan_stored(table, table.source, days, view, settings, today, inspection, now=now)
    return plan_derived(table, days, view)
