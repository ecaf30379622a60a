"""Which runs are due, one after the other, until nothing is; for a run and for a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from incremental_assets.days import DayRange, contiguous, utc_today, within_partitions
from incremental_assets.errors import SourceError
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.due import Due, stale_tables, with_downstream
from incremental_assets.plan.inspector import INSPECTOR, Inspector
from incremental_assets.plan.pending import pending_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_Key = tuple[str, DayRange]
# What is due, with a fingerprint of what there is to do: another one if something has changed.
_Fingerprinted = tuple[Due, str]


@dataclass(frozen=True)
class Left:
    """A range that is still due at the end although it was given once.

    `came_later`: its input has changed since. Otherwise the run did not load it.
    """

    due: Due
    came_later: bool


@dataclass(frozen=True)
class Unreadable:
    """A table whose source cannot be inspected, so that it is not known whether it is due."""

    table: Table
    error: SourceError


def _refuse(unreadable: Unreadable) -> None:
    raise unreadable.error


def due_runs(
    chosen: Sequence[Table],
    settings: Settings,
    days: DayRange | None,
    now: datetime,
    ledger: Callable[[], LedgerView],
    inspection: Inspector = INSPECTOR,
    log: Callable[[str], None] = lambda _: None,
    left: Callable[[Left], None] = lambda _: None,
    unreadable: Callable[[Unreadable], None] = _refuse,
) -> Iterator[Due]:
    """What to run next: landing days with something new, with all the tables; else stale days.

    `ledger` is called again after each round, when all given runs have ended. A range that was
    given once is not given again, so the rounds end; `left` is called then with each range that is
    still due. So is `unreadable`, with each table whose source cannot be inspected: the others are
    given without it; by default its error is raised then. Raises DayError for days outside the
    partitions, and SourceError if none of the sources can be inspected. `log` takes one line for
    each source that is inspected.
    """
    today = utc_today(now)
    span = within_partitions(days, settings.start_date, today)
    tried: dict[_Key, str] = {}
    while True:
        view = ledger()
        landed, refused = _landed(chosen, settings, span, now, view, inspection, log)
        due = [(each, seen) for each, seen in landed if _key(each) not in tried]
        stale: list[_Fingerprinted] = []
        for some in () if due else _stale(chosen, settings.start_date, today, span, view):
            stale += some
            due = [(each, seen) for each, seen in some if _key(each) not in tried]
            if due:
                break  # what is stale further down is due after that
        if not due:
            break
        for each, seen in due:
            tried[_key(each)] = seen
            yield each
    for each, seen in (*landed, *stale):
        left(Left(each, tried[_key(each)] != seen))
    for missing in refused:
        unreadable(missing)


def _landed(
    chosen: Sequence[Table],
    settings: Settings,
    span: DayRange,
    now: datetime,
    view: LedgerView,
    inspection: Inspector,
    log: Callable[[str], None],
) -> tuple[list[_Fingerprinted], list[Unreadable]]:
    """The landing days with something new, with all tables but those that are unreadable."""
    pending: dict[date, str] = {}
    fingerprints: dict[date, str] = {}
    refused: list[Unreadable] = []
    sources = [table for table in chosen if table.layer == "bronze"]
    for table in sources:
        log(f"Inspecting the source of {table.name}")
        try:
            found = pending_days(table, view, settings, now, inspection)
        except SourceError as error:
            refused.append(Unreadable(table, error))
            continue
        for day, todo in found.days.items():
            if day in span:
                pending.setdefault(day, f"{table.name}: {todo.why}")
                fingerprints[day] = f"{fingerprints.get(day, '')} {found.position(day)}"
    if refused and len(refused) == len(sources):
        raise refused[0].error
    without = {each.table.name for each in refused}
    readable = tuple(table for table in chosen if table.name not in without)
    landed = [
        (Due(readable, some, pending[some.first]), str([fingerprints[day] for day in some]))
        for some in contiguous(pending)
    ]
    return landed, refused


def _stale(
    chosen: Sequence[Table], start: date, today: date, span: DayRange, view: LedgerView
) -> Iterator[list[_Fingerprinted]]:
    """The stale days of each table that has any, with the tables built on it."""
    for table, stale in stale_tables(chosen, view, start, today, span):
        below = with_downstream(table, chosen)
        why = {some: "; ".join(stale[day] for day in some) for some in contiguous(stale)}
        yield [(Due(below, some, reason), reason) for some, reason in why.items()]


def _key(due: Due) -> _Key:
    return due.tables[0].name, due.days
