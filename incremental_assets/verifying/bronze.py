"""Building bronze anew from its source, as far as the source still has what was loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from incremental_assets.days import DayRange, utc_today
from incremental_assets.engine.snapshot_diff import is_damaged
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.view import LedgerView, TableHistory
from incremental_assets.plan import DayWork, Plan, Work, plan_table
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.table import Table
from incremental_assets.verifying.rebuild import all_let_through, would_hold

Planned = Callable[[Sequence[date], LedgerView], Plan]
_NAMED_FILES = 3


@dataclass(frozen=True)
class Landed:
    """What of a bronze table can be loaded again.

    `days` are those that are loaded, all let through by `planned`. Days in `left_out` and rows of
    `files` are not compared. `dated` is whether a row's landing day is the same whenever it is
    loaded.
    """

    table: Table
    days: tuple[date, ...]
    planned: Planned
    left_out: Mapping[date, str] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    dated: bool = True


def landed(house: Lakehouse, table: Table, view: LedgerView, asked: DayRange | None) -> Landed:
    """What of a bronze table can be loaded again now.

    Raises DefinitionError where the source keeps nothing of what it was, and SourceError where it
    cannot be listed.
    """
    if table.feed is not None:
        found = _of_files(house, table, table.feed, view, asked)
    elif table.changes.is_snapshot:
        raise DefinitionError(
            f"{table.name} cannot be built anew: its source is one full copy, which keeps nothing "
            "of those before it. Land each copy in a day folder (LandedFiles) if that is to be "
            "proved; verify the tables that are built on it, which start from what bronze has."
        )
    else:
        found = _of_stored(house, table, view, asked)
    left_out = dict(found.left_out)
    for entry in view.table(table.name).unsettled:
        left_out[entry.day] = f"batch {entry.batch} is being loaded, or its run died"
    if asked is not None:
        left_out = {day: why for day, why in left_out.items() if day in asked}
    return replace(found, left_out=dict(sorted(left_out.items())))


def load_again(scratch: Lakehouse, found: Landed, view: LedgerView) -> list[str]:
    """Load it into the scratch lake, and tell which rules would have held a day."""
    history = view.table(found.table.name)
    accepted = {entry.day for entry in history.outcomes if entry.state == "accepted"}
    result = scratch.load_as(found.table, found.days, found.planned, "a verification")
    return would_hold(result, found.table, accepted)


def _of_files(
    house: Lakehouse, table: Table, feed: LandedFiles, view: LedgerView, asked: DayRange | None
) -> Landed:
    """Files in day folders: those that lie there as they were loaded."""
    history, landing = view.table(table.name), house.settings.landing
    copies = table.changes.is_snapshot
    days = [
        day
        for day in sorted(history.last_committed)
        if asked is None or day in asked or (copies and day <= asked.last)
    ]
    there: dict[date, tuple[SourceFile, ...]] = {}
    left_out: dict[date, str] = {}
    without: set[str] = set()
    notes: list[str] = []
    for day in days:
        known, listed = history.files(day), feed.files(landing, day)
        new, changed = table.files.new_and_changed(
            listed, known, partial(with_content_tag, landing)
        )
        other = {file.path for file in (*new, *changed)}
        same = tuple(file for file in listed if file.path not in other)
        lost = sorted(set(known) - {file.path for file in same})
        held = history.held.get(day)
        if held is not None:
            left_out[day] = f"held since batch {held.batch}: {held.held_by}"
        elif lost and (copies or not same):
            left_out[day] = f"stale: {_files(lost)} are gone from the landing, or have changed"
        elif lost:
            without |= set(lost)
            notes.append(f"{day}: rows of {_files(lost)} are not compared: gone, or changed")
        if new:
            notes.append(f"{day}: {_files([file.path for file in new])} are not loaded yet")
        if day not in left_out:
            there[day] = same
    if copies:
        left_out |= _after_a_lost_copy(history, days, left_out)
    planned = partial(_files_again, table, there, copies)
    return Landed(table, tuple(there), planned, left_out, frozenset(without), tuple(notes))


def _after_a_lost_copy(
    history: TableHistory, days: Sequence[date], lost: Mapping[date, str]
) -> dict[date, str]:
    """The copies that are told from one that is gone, up to one that is whole."""
    found: dict[date, str] = {}
    before: date | None = None
    for day in days:
        if day in lost:
            before = day
        elif before is not None:
            found[day] = f"the copy of {before}, from which it is told, was not loaded again"
            before = day if is_damaged(history.last_committed[day]) else None
    return found


def _files_again(
    table: Table,
    there: Mapping[date, tuple[SourceFile, ...]],
    copies: bool,  # noqa: FBT001 - bound by partial
    days: Sequence[date],
    view: LedgerView,
) -> Plan:
    works = {day: DayWork(day, f"{len(there[day])} files", (), there[day]) for day in days}
    each = [{day: work} for day, work in works.items()] if copies else [works]
    return all_let_through(Plan(tuple(Work("append", "advance", some) for some in each)), table)


def _of_stored(house: Lakehouse, table: Table, view: LedgerView, asked: DayRange | None) -> Landed:
    """A table or log at its source, of which the days are loaded that did not change since."""
    history, moment = view.table(table.name), house.now()
    today = utc_today(moment)
    dated = table.landing_column is not None
    loaded = sorted(history.last_committed)
    ask_for = loaded if dated else [today]
    now = plan_table(table, ask_for, view, house.settings, today, now=moment)
    changed = {day: f"stale: {todo.why}" for w in now.work for day, todo in w.days.items()}
    if not dated and changed:
        changed = dict.fromkeys(loaded, changed[today])
    left_out = {d: f"held since batch {e.batch}: {e.held_by}" for d, e in history.held.items()}
    left_out |= changed
    if dated:
        days = [d for d in loaded if d not in left_out and (asked is None or d in asked)]
    else:
        days = [] if left_out else [today]
    # A gap that was waited for once is passed by what was loaded since.
    again = replace(table, changes=table.changes.passing_gaps())
    planned = partial(_stored_again, house, again)
    return Landed(again, tuple(days), planned, left_out, dated=dated)


def _stored_again(house: Lakehouse, table: Table, days: Sequence[date], view: LedgerView) -> Plan:
    now = house.now()
    plan = plan_table(table, days, view, house.settings, utc_today(now), now=now)
    return all_let_through(plan, table)


def _files(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED_FILES} more" if len(paths) > _NAMED_FILES else ""
    return f"{', '.join(paths[:_NAMED_FILES])}{more}"
