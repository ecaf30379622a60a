"""Which runs there are to do, one after the other, until nothing is due: a run's and a plan's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime

from incremental_assets.days import DayRange, contiguous, utc_today
from incremental_assets.errors import DayError
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.due import Due, stale_tables, with_downstream
from incremental_assets.plan.looks import LOOK, Looks
from incremental_assets.plan.news import source_news
from incremental_assets.settings import Settings
from incremental_assets.table import Table

MOST_ROUNDS = 12
_Tried = set[tuple[str, DayRange]]


def due_runs(
    chosen: Sequence[Table],
    settings: Settings,
    days: DayRange | None,
    now: datetime,
    ledger: Callable[[], LedgerView],
    look: Looks = LOOK,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Due]:
    """What to run next: landing days with something new, with all the tables; else stale days.

    `ledger` is asked again after each round, by when all that was given is done, or has failed.
    What was given once is not given again. Raises DayError for days outside the partitions and
    SourceError if a source cannot be listed. `say` is told what is being looked at.
    """
    today = utc_today(now)
    span = within_partitions(days, settings.start_date, today)
    tried: _Tried = set()
    for _ in range(MOST_ROUNDS):
        view = ledger()
        due = _landed(chosen, settings, span, now, view, look, say, tried)
        due = due or _stale(chosen, settings.start_date, today, span, view, tried)
        if not due:
            return
        for each in due:
            tried.add(_key(each))
            yield each


def within_partitions(days: DayRange | None, start: date, today: date) -> DayRange:
    """The days that are asked for, as far as there are partitions; all where none are named.

    Raises DayError where there is none.
    """
    if days is None:
        return DayRange(start, today)
    if days.last < start or days.first > today:
        raise DayError(
            f"{days} lies outside the partitions {start}...{today}. Name days among them, or set "
            "INCREMENTAL_ASSETS_START_DATE to an earlier first day."
        )
    return DayRange(max(days.first, start), min(days.last, today))


def _landed(
    chosen: Sequence[Table],
    settings: Settings,
    span: DayRange,
    now: datetime,
    view: LedgerView,
    look: Looks,
    say: Callable[[str], None],
    tried: _Tried,
) -> list[Due]:
    news: dict[date, str] = {}
    for table in chosen:
        if table.layer == "bronze":
            say(f"Looking at the source of {table.name}")
            for day, todo in source_news(table, view, settings, now, look).days.items():
                if day in span:
                    news.setdefault(day, f"{table.name}: {todo.why}")
    due = [Due(tuple(chosen), some, news[some.first]) for some in contiguous(news)]
    return [each for each in due if _key(each) not in tried]


def _stale(
    chosen: Sequence[Table],
    start: date,
    today: date,
    span: DayRange,
    view: LedgerView,
    tried: _Tried,
) -> list[Due]:
    """The stale days of the first table that has any which were not tried, with what is below."""
    for table, stale in stale_tables(chosen, view, start, today, span):
        below = with_downstream(table, chosen)
        due = [
            Due(below, some, "; ".join(stale[day] for day in some)) for some in contiguous(stale)
        ]
        left = [each for each in due if _key(each) not in tried]
        if left:
            return left
    return []


def _key(due: Due) -> tuple[str, DayRange]:
    return due.tables[0].name, due.days
