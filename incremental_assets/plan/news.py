"""Which landing days of a source have something new, for those who ask on their own."""

from __future__ import annotations

from datetime import date

from incremental_assets.days import DayRange
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.accepted import same_input
from incremental_assets.plan.landed import plan_landed
from incremental_assets.plan.stored import plan_stored
from incremental_assets.plan.work import Plan
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def landing_days_with_news(
    table: Table, view: LedgerView, settings: Settings, start: date, today: date
) -> dict[date, str]:
    """The landing days inside the partitions that have something new, with why.

    A held day is left out as long as its input is what was judged and nobody accepted it. Raises
    SourceError if the source cannot be listed.
    """
    span = DayRange(start, today)
    plan = Plan()
    if table.feed is not None:
        days = [day for day in table.feed.days(settings.landing) if day in span]
        plan = plan_landed(table, table.feed, days, view, settings)
    elif table.stored is not None:
        plan = plan_stored(table, table.stored, list(span), view, settings, today)
    history = view.table(table.name)
    judged = {day: e for day, e in history.held.items() if day not in history.accepted}
    found = {
        day: todo.why
        for work in plan.work
        for day, todo in work.days.items()
        if day not in judged or not same_input(judged[day], todo, table, view)
    }
    return dict(sorted(found.items()))
