"""Which landing days of a source have something new, for those who ask on their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from incremental_assets.changes.position import is_as_read, state_of
from incremental_assets.days import DayRange, utc_today
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.accepted import same_input
from incremental_assets.plan.inspector import INSPECTOR, Inspector
from incremental_assets.plan.plan import plan_undecided
from incremental_assets.plan.stored import last_state
from incremental_assets.plan.work import DayWork, Plan
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class PendingDays:
    """The landing days with something new, each with what there is to do.

    `outside` are landing days that the source has and the partitions do not. `notes` name what is
    there and not read, such as files that wait.
    """

    days: Mapping[date, DayWork] = field(default_factory=dict)
    outside: tuple[date, ...] = ()
    notes: tuple[str, ...] = ()

    def position(self, day: date) -> str:
        """Text that identifies what is new for a day: of files their paths, sizes and tags."""
        todo = self.days[day]
        if todo.source is not None and todo.source.days is not None:
            return todo.seen
        if todo.source is not None:
            return f"{todo.source.fingerprint} {todo.seen}"
        return str([(file.path, file.size, file.tag or file.modified) for file in todo.files])


def pending_days(
    table: Table,
    view: LedgerView,
    settings: Settings,
    now: datetime,
    inspection: Inspector = INSPECTOR,
) -> PendingDays:
    """What a source has inside the partitions that a load would take now.

    A held day is left out as long as its input is what was judged and it was neither accepted nor
    rewound, a sequence that waits for a gap until it waits no longer. Raises SourceError if the
    source cannot be listed.
    """
    span = DayRange(settings.start_date, utc_today(now))
    plan, outside = _planned(table, view, settings, span, inspection, now)
    found = {
        todo.day: todo
        for todo in _days(plan)
        if not _judged(table, view, todo, now) and not _waits(table, view, todo, now)
    }
    return PendingDays(dict(sorted(found.items())), outside, plan.notes)


def why_pending(
    table: Table,
    view: LedgerView,
    settings: Settings,
    start: date,
    today: date,
    now: datetime | None = None,
) -> dict[date, str]:
    """The landing days inside the partitions that have something new, with why.

    A held day is left out as long as its input is what was judged and it was neither accepted nor
    rewound. Raises SourceError if the source cannot be listed.
    """
    plan, _ = _planned(table, view, settings, DayRange(start, today), INSPECTOR, now)
    found = {todo.day: todo.why for todo in _days(plan) if not _judged(table, view, todo, now)}
    return dict(sorted(found.items()))


def _planned(
    table: Table,
    view: LedgerView,
    settings: Settings,
    span: DayRange,
    inspection: Inspector,
    now: datetime | None,
) -> tuple[Plan, tuple[date, ...]]:
    """What there is to do up to the last day of the span, and the days outside it."""
    history = view.table(table.name)
    there = table.landed_days(settings.landing, history)
    # The files of such a day may all be gone.
    others = {*history.held, *history.days_to_retract}
    landed = span if there is None else sorted({*there, *others})
    days = [day for day in landed if day in span]
    plan = plan_undecided(table, days, view, settings, span.last, inspection, now)
    return plan, tuple(day for day in there or () if day not in span)


def _days(plan: Plan) -> Iterator[DayWork]:
    for work in plan.work:
        yield from work.days.values()


def _judged(table: Table, view: LedgerView, todo: DayWork, now: datetime | None) -> bool:
    """Whether the day is held, and no load is due: what there is to do for it was judged."""
    history, day = view.table(table.name), todo.day
    if table.reads_whole_source:  # whatever day it was
        if any(same_input(entry, todo, table, view) for entry in history.accepted.values()):
            return False
        day = max(history.held, default=day)
    held = history.judged(day)
    if held is None:
        return False
    if todo.source is not None and table.changes.has_come(state_of(held), now):
        return False
    return same_input(held, todo, table, view)


def _waits(table: Table, view: LedgerView, todo: DayWork, now: datetime) -> bool:
    """Whether the source is as it was when its rows began to wait, and they still wait."""
    if todo.source is None:
        return False
    state = last_state(table, view.table(table.name), todo.day)
    return is_as_read(todo.source, state) and table.changes.holds_back(state, now)
