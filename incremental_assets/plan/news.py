"""Which landing days of a source have something new, for those who ask on their own."""

from __future__ import annotations

from datetime import date

from incremental_assets.days import DayRange
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.landed import plan_landed
from incremental_assets.plan.stored import plan_stored, state_of
from incremental_assets.plan.work import DayWork, Plan
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def landing_days_with_news(
    table: Table, view: LedgerView, settings: Settings, start: date, today: date
) -> dict[date, str]:
    """The landing days inside the partitions that have something new, with why.

    A held day is left out as long as its input is what was judged. Raises SourceError if the
    source cannot be listed.
    """
    span = DayRange(start, today)
    plan = Plan()
    if table.feed is not None:
        days = [day for day in table.feed.days(settings.landing) if day in span]
        plan = plan_landed(table, table.feed, days, view, settings)
    elif table.stored is not None:
        plan = plan_stored(table, table.stored, list(span), view, settings, today)
    held = view.table(table.name).held
    found = {
        day: todo.why
        for work in plan.work
        for day, todo in work.days.items()
        if not _judged(held.get(day), todo)
    }
    return dict(sorted(found.items()))


def _judged(held: Entry | None, todo: DayWork) -> bool:
    """Whether a day's gate failed for this very input."""
    if held is None:
        return False
    if todo.source is not None:
        return state_of(held).get("source") == todo.source.mark
    judged = {(f.path, f.size, f.tag) for f in held.files}
    return {(f.path, f.size, f.tag) for f in todo.files} == judged
