"""Rebuilding bronze from its source, as far as the source still has what was loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from incremental_assets.days import DayRange, utc_today
from incremental_assets.engine.snapshot_diff import is_damaged
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import DayWork, Plan, Work, plan_table
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.table import Table
from incremental_assets.verifying.rebuild import without_holds, would_hold

Planned = Callable[[Sequence[date], LedgerView], Plan]
_NAMED_FILES = 3


@dataclass(frozen=True)
class Reload:
    """What of a bronze table is loaded again, for a comparison.

    `days` are loaded by `planned`, which lets no rule hold one. Days in `left_out` and rows of
    `files` are not compared. `dated` is whether a row's landing day is the same whenever it is
    loaded. `hashed`: rows are compared by their hash, not as lines of files.
    """

    table: Table
    days: tuple[date, ...]
    planned: Planned
    left_out: Mapping[date, str] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    dated: bool = True
    hashed: bool = False


def reload_of(
    lakehouse: Lakehouse, table: Table, view: LedgerView, asked: DayRange | None
) -> Reload:
    """What of a bronze table can be loaded again now.

    Raises DefinitionError for a source that keeps no earlier state, and SourceError for one that
    cannot be listed.
    """
    if table.feed is not None:
        found = _of_files(lakehouse, table, table.feed, view, asked)
    elif table.why_not_again:
        raise DefinitionError(
            f"{table.name} cannot be rebuilt: {table.why_not_again}. Let its source land in day "
            "folders (LandedFiles) to be able to verify it; verify the tables that are built on "
            "it, which start from what bronze has."
        )
    else:
        found = _of_stored(lakehouse, table, view, asked)
    left_out = dict(found.left_out)
    for entry in view.table(table.name).unsettled:
        left_out[entry.day] = f"batch {entry.batch} is being loaded, or its run died"
    if asked is not None:
        left_out = {day: why for day, why in left_out.items() if day in asked}
    return replace(found, left_out=dict(sorted(left_out.items())))


def reload(scratch: Lakehouse, found: Reload, view: LedgerView) -> list[str]:
    """Load it into the scratch lake; a note for each rule that would have held a day."""
    history = view.table(found.table.name)
    accepted = {entry.day for entry in history.outcomes if entry.state == "accepted"}
    result = scratch.load_as(found.table, found.days, found.planned, "a verification")
    return would_hold(result, found.table, accepted)


def _of_files(
    lakehouse: Lakehouse, table: Table, feed: LandedFiles, view: LedgerView, asked: DayRange | None
) -> Reload:
    """Files in day folders: those that are as they were when they were loaded."""
    history, landing = view.table(table.name), lakehouse.settings.landing
    snapshots = table.changes.compares_days
    days = [
        day
        for day in sorted(history.last_committed)
        if asked is None or day in asked or (snapshots and day <= asked.last)
    ]
    unchanged: dict[date, tuple[SourceFile, ...]] = {}
    left_out: dict[date, str] = {}
    left_out_files: set[str] = set()
    notes: list[str] = []
    for day in days:
        known, listed = history.files(day), feed.files(landing, day)
        new, changed = table.files.new_and_changed(
            listed, known, partial(with_content_tag, landing)
        )
        other = {file.path for file in (*new, *changed)}
        same = tuple(file for file in listed if file.path not in other)
        missing = sorted(set(known) - {file.path for file in same})
        held = history.held.get(day)
        if held is not None:
            left_out[day] = f"held since batch {held.batch}: {held.held_by}"
        elif missing and (snapshots or not same):
            left_out[day] = (
                f"stale: {_files(missing)} are no longer in the landing, or have changed"
            )
        elif missing:
            left_out_files |= set(missing)
            notes.append(f"{day}: rows of {_files(missing)} are not compared: removed, or changed")
        if new:
            notes.append(f"{day}: {_files([file.path for file in new])} are not loaded yet")
        if day not in left_out:
            unchanged[day] = same
    if snapshots:
        left_out |= _after_a_missing_snapshot(history, days, left_out)
    planned = partial(_plan_files, table, unchanged, snapshots)
    return Reload(
        table, tuple(unchanged), planned, left_out, frozenset(left_out_files), tuple(notes)
    )


def _after_a_missing_snapshot(
    history: TableHistory, days: Sequence[date], missing: Mapping[date, str]
) -> dict[date, str]:
    """The snapshots after a missing one, up to one that does not depend on it."""
    found: dict[date, str] = {}
    before: date | None = None
    for day in days:
        if day in missing:
            before = day
        elif before is not None:
            found[day] = (
                f"the snapshot of {before}, which it is compared with, was not loaded again"
            )
            before = day if is_damaged(history.last_committed[day]) else None
    return found


def _plan_files(
    table: Table,
    unchanged: Mapping[date, tuple[SourceFile, ...]],
    snapshots: bool,  # noqa: FBT001 - bound by partial
    days: Sequence[date],
    view: LedgerView,
) -> Plan:
    works = {day: DayWork(day, f"{len(unchanged[day])} files", (), unchanged[day]) for day in days}
    each = [{day: work} for day, work in works.items()] if snapshots else [works]
    return without_holds(Plan(tuple(Work("append", "advance", some) for some in each)), table)


def _of_stored(
    lakehouse: Lakehouse, table: Table, view: LedgerView, asked: DayRange | None
) -> Reload:
    """A stored table or log: the days that did not change since they were loaded."""
    history, moment = view.table(table.name), lakehouse.now()
    today = utc_today(moment)
    dated = table.landing_column is not None
    loaded = sorted(history.last_committed)
    ask_for = loaded if dated else [today]
    now = plan_table(table, ask_for, view, lakehouse.settings, today, now=moment)
    changed = {day: f"stale: {todo.why}" for w in now.work for day, todo in w.days.items()}
    if not dated and changed:
        changed = dict.fromkeys(loaded, changed[today])
    left_out = {d: f"held since batch {e.batch}: {e.held_by}" for d, e in history.held.items()}
    left_out |= changed
    if dated:
        days = [d for d in loaded if d not in left_out and (asked is None or d in asked)]
    else:
        days = [] if left_out else [today]
    # Later loads have already passed a gap that a load waited for.
    again = replace(table, changes=table.changes.passing_gaps())
    planned = partial(_plan_stored, lakehouse, again)
    return Reload(again, tuple(days), planned, left_out, dated=dated, hashed=True)


def _plan_stored(
    lakehouse: Lakehouse, table: Table, days: Sequence[date], view: LedgerView
) -> Plan:
    now = lakehouse.now()
    plan = plan_table(table, days, view, lakehouse.settings, utc_today(now), now=now)
    return without_holds(plan, table)


def _files(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED_FILES} more" if len(paths) > _NAMED_FILES else ""
    return f"{', '.join(paths[:_NAMED_FILES])}{more}"
