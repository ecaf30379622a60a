"""Days that a run would skip although they are not up to date, each with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from incremental_assets.days import DayRange, contiguous
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.code import days_of_other_code
from incremental_assets.plan.derived import never_loaded, upstream_held
from incremental_assets.plan.due import with_downstream
from incremental_assets.plan.retract import missing_below, retract_hint
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class Skipped:
    """Days of a table, `first` to `last`, that a run skips, with the reason and the remedy."""

    table: str
    first: date
    last: date
    reason: str


def skipped(
    chosen: Sequence[Table],
    view: LedgerView,
    settings: Settings,
    span: DayRange,
    today: date,
    planned: Collection[tuple[str, date]],
) -> list[Skipped]:
    """What is skipped of these tables and days apart from what is `planned`, by table and day.

    Days that a gate holds, and those whose upstream is held; landing folders outside the
    partitions; days that other code has built. Raises SourceError if a landing cannot be listed.
    """
    found: list[Skipped] = []
    for table in chosen:
        own = [*_outside(table, view, settings, span, today), *_held(table, view, settings, span)]
        own += _below_held(table, view, span)
        if table.upstreams:
            history = view.table(table.name)
            days = [day for day in sorted(history.last_committed) if day in span]
            made = days_of_other_code(table, history, days)
            own += [Skipped(table.name, first, last, remedy) for first, last, remedy in made]
        found += [s for s in own if s.first != s.last or (s.table, s.first) not in planned]
    return found


def _outside(
    table: Table, view: LedgerView, settings: Settings, span: DayRange, today: date
) -> Iterator[Skipped]:
    partitions = DayRange(settings.start_date, today)
    if span != partitions:
        return
    there = table.landed_days(settings.landing, view.table(table.name)) or ()
    outside = [day for day in there if day not in partitions]
    for some in contiguous(outside):
        yield Skipped(
            table.name,
            some.first,
            some.last,
            f"has landed, but is outside the partitions {partitions}"
            + ("" if some.first > today else "; INCREMENTAL_ASSETS_START_DATE sets the first day"),
        )


def _held(table: Table, view: LedgerView, settings: Settings, span: DayRange) -> Iterator[Skipped]:
    history = view.table(table.name)
    for day, entry in sorted(history.held.items()):
        if day in span and day not in history.accepted:
            yield Skipped(
                table.name,
                day,
                day,
                f"held since batch {entry.batch}: {entry.held_by}. "
                + held_remedy(entry, missing_below(table, day, view, settings)),
            )


def held_remedy(entry: Entry, missing: Sequence[str] = (), then: str = "") -> str:
    """What ends the hold of a day.

    `missing` are the files that bronze may have rows of for it, and that are no longer landed;
    `then` is what to do after any of it.
    """
    repair = (
        "Repair its input, or accept it: `incremental-assets gate accept "
        f"{entry.table} {entry.day} --reason …`{then}"
    )
    return f"{repair}. {retract_hint(missing)}" if missing else repair


def held_until(
    entry: Entry, table: Table, lake: Sequence[Table], missing: Sequence[str] = ()
) -> str:
    """What ends the hold of a day, and which tables of the lake wait for it, in sentences."""
    waiting = [other.name for other in with_downstream(table, lake)[1:]]
    until = f" Until then {', '.join(waiting)} {'wait' if waiting[1:] else 'waits'}."
    return f"{held_remedy(entry, missing, ', and run it again')}.{until if waiting else ''}"


def _below_held(table: Table, view: LedgerView, span: DayRange) -> Iterator[Skipped]:
    for day in sorted(day for day in _held_above(table, view) if day in span):
        why = upstream_held(table, day, view)
        if why and day not in view.table(table.name).held:
            yield Skipped(table.name, day, day, why)


def _held_above(table: Table, view: LedgerView) -> set[date]:
    """The days that are held in any upstream, direct or not, or wait for one never loaded."""
    facts = table.facts
    waits = facts is not None and never_loaded(table, view)
    days = set(view.table(facts.name).touching) if facts is not None and waits else set()
    for read in table.upstreams:
        days |= set(view.table(read.table.name).held) | _held_above(read.table, view)
    return days
