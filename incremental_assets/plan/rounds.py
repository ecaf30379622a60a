"""Which runs are due, one after the other, until nothing is; for a run and for a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from incremental_assets.days import ONE_DAY, DayRange, contiguous, utc_today, within_partitions
from incremental_assets.errors import IncrementalAssetsError, LedgerError
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.due import Due, stale_tables, with_downstream
from incremental_assets.plan.inspector import INSPECTOR, Inspector
from incremental_assets.plan.pending import pending_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_TableRange = tuple[str, DayRange]
# What there is to do for each day of a range: what is loaded is gone, what came is another text.
_Todo = Sequence[frozenset[str]]
_Fingerprinted = tuple[Due, _Todo]
# A range of which nothing is loaded ends as eighths: what fails then is hardly a few of its days.
_HALVINGS = 3


@dataclass(frozen=True)
class Left:
    """A range that is still due at the end although it was given once.

    `came_later`: its input has changed since. Otherwise the run did not load it.
    """

    due: Due
    came_later: bool


@dataclass(frozen=True)
class Unreadable:
    """A table whose source cannot be inspected or planned, so that nobody knows if it is due."""

    table: Table
    error: IncrementalAssetsError


class _DayOfRun:
    """When the rounds began, and the first reading of the clock on the present UTC day."""

    def __init__(self, read: Callable[[], datetime]) -> None:
        self._read = read
        self.began = self.on_this_day = read()

    @property
    def today(self) -> date:
        """The present UTC day."""
        return utc_today(self.on_this_day)

    def read(self) -> None:
        """Notice that another day has begun."""
        now = self._read()
        if utc_today(now) > self.today:
            self.on_this_day = now

    def asked_as_of(self, table: Table) -> datetime:
        """The time as of which a source is asked for what is new."""
        return self.on_this_day if table.reads_whole_source else self.began

    def notes(self, table: Table, found: Iterable[date], span: DayRange) -> Iterator[str]:
        """That a source without days has something new, and the day that it is of has ended."""
        before = utc_today(self.began)
        ended = table.reads_whole_source and self.today > before
        if ended and before in span and self.today in found:
            then = (
                "" if self.today in span else " That day is not asked for: the next run loads it."
            )
            yield (
                f"{before} (UTC) ended during this run, and the source has no days: what is new "
                f"in it is of {self.today}.{then}"
            )


def _refuse(unreadable: Unreadable) -> None:
    raise unreadable.error


def due_runs(
    chosen: Sequence[Table],
    settings: Settings,
    days: DayRange | None,
    clock: Callable[[], datetime],
    ledger: Callable[[], LedgerView],
    inspection: Inspector = INSPECTOR,
    log: Callable[[str], None] = lambda _: None,
    left: Callable[[Left], None] = lambda _: None,
    unreadable: Callable[[Unreadable], None] = _refuse,
    *,
    note: Callable[[str], None] = lambda _: None,
    in_halves: bool = False,
) -> Iterator[Due]:
    """What to run next: landing days with something new, with all the tables; else stale days.

    `ledger` is called again after each round, when all given runs have ended. A range that was
    given once is not given again, so the rounds end; `left` is called then with each range that is
    still due. So is `unreadable`, with each table whose source cannot be inspected: the others are
    given without it; by default its error is raised then.

    With `in_halves` a range that is still due as it was given is given in halves, and these in
    halves: so a day that cannot be loaded does not keep those next to it back. For one such day of
    N these are about 2·log2(N) runs more; where nothing of a range can be loaded, at most 14.

    `clock` is read at the beginning and after each round. What is new in a source without days is
    of the day of its load: after midnight UTC it is given as of the new day, or left to the next
    run where that day was not asked for. All other sources are asked as of the beginning.

    Raises DayError for days outside the partitions, and the error of the first source if none of
    them can be inspected. `log` takes one line for each source that is inspected, `note` one for
    what a source has and no run reads, such as files that wait.
    """
    time = _DayOfRun(clock)
    tried: dict[_TableRange, _Todo] = {}
    halvings = _HALVINGS if in_halves else 0
    noted: set[str] = set()

    def note_once(line: str) -> None:
        if line not in noted:
            noted.add(line)
            note(line)

    while True:
        view, span = ledger(), within_partitions(days, settings.start_date, time.today)
        landed, refused = _landed(chosen, settings, span, time, view, inspection, log, note_once)
        due = [part for some in landed for part in _untried(*some, tried, halvings)]
        stale: list[_Fingerprinted] = []
        for some in () if due else _stale(chosen, settings.start_date, time.today, span, view):
            stale += some
            due = [part for each in some for part in _untried(*each, tried, halvings)]
            if due:
                break  # what is stale further down is due after that
        if not due:
            break
        for each, todo in due:
            tried[_key(each)] = todo
            yield each
        time.read()
    for each, todo in (*landed, *stale):
        left(Left(each, not _is_as_given(todo, tried[_key(each)])))
    for missing in refused:
        unreadable(missing)


def _untried(
    due: Due, todo: _Todo, tried: dict[_TableRange, _Todo], halvings: int
) -> Iterator[_Fingerprinted]:
    """A range that was not given yet; of one that is still due as it was given such halves."""
    given = tried.get(_key(due))
    if given is None:
        yield due, todo
    elif halvings and len(todo) > 1 and _is_as_given(todo, given):
        middle = len(todo) // 2
        first = DayRange(due.days.first, due.days.first + (middle - 1) * ONE_DAY)
        second = DayRange(first.last + ONE_DAY, due.days.last)
        yield from _untried(replace(due, days=first), todo[:middle], tried, halvings - 1)
        yield from _untried(replace(due, days=second), todo[middle:], tried, halvings - 1)


def _is_as_given(todo: _Todo, given: _Todo) -> bool:
    """Whether nothing came; some of it may be loaded."""
    return all(now <= then for now, then in zip(todo, given, strict=True))


def _landed(
    chosen: Sequence[Table],
    settings: Settings,
    span: DayRange,
    time: _DayOfRun,
    view: LedgerView,
    inspection: Inspector,
    log: Callable[[str], None],
    note: Callable[[str], None],
) -> tuple[list[_Fingerprinted], list[Unreadable]]:
    """The landing days with something new, with all tables but those that are unreadable."""
    pending: dict[date, str] = {}
    fingerprints: dict[date, set[str]] = defaultdict(set)
    refused: list[Unreadable] = []
    sources = [table for table in chosen if table.layer == "bronze"]
    for table in sources:
        log(f"Inspecting the source of {table.name}")
        try:
            found = pending_days(table, view, settings, time.asked_as_of(table), inspection)
        except LedgerError:
            raise
        except IncrementalAssetsError as error:
            refused.append(Unreadable(table, error))
            continue
        for line in (*found.notes, *time.notes(table, found.days, span)):
            note(f"{table.name}: {line}")
        for day, todo in found.days.items():
            if day in span:
                pending.setdefault(day, f"{table.name}: {todo.why}")
                fingerprints[day].add(f"{table.name} {found.position(day)}")
    if refused and len(refused) == len(sources):
        raise refused[0].error
    without = {each.table.name for each in refused}
    readable = tuple(table for table in chosen if table.name not in without)
    landed: list[_Fingerprinted] = [
        (Due(readable, some, pending[some.first]), [frozenset(fingerprints[d]) for d in some])
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
        yield [
            (Due(below, some, reason), [frozenset({stale[day]}) for day in some])
            for some, reason in why.items()
        ]


def _key(due: Due) -> _TableRange:
    return due.tables[0].name, due.days
