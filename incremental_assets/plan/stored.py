"""What a stored source has to offer: which days may hold rows that were not read yet.

What is new in a table is known by reading it, but whether it changed since a day was loaded is
known by its version, or by the list of its files. A day of a source that did not change is idle; in
one that did, so is a day whose files are those that were there before, or whose rows are: its
fingerprints, which are taken without Spark, are equal. Rows that were ahead of the clock make their
day pending when their time has come, whatever the source did since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from incremental_assets.changes.position import FINGERPRINT, parsed, state_of, version_read
from incremental_assets.days import named
from incremental_assets.errors import NothingThereError
from incremental_assets.ledger.entry import Entry, Window
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.inspector import INSPECTOR, Inspector
from incremental_assets.plan.landed import HELD_IS_GONE, works_of
from incremental_assets.plan.work import FIRST_LOAD, DayWork, Plan, first_load
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.sources.landing_root import require_root
from incremental_assets.sources.source import FixedSource, Past, Source, Version
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table


def plan_stored(
    table: Table,
    source: Source,
    days: Sequence[date],
    view: LedgerView,
    settings: Settings,
    today: date,
    inspection: Inspector = INSPECTOR,
    *,
    now: datetime | None = None,
) -> Plan:
    """The days that have to be inspected, of those that are asked for.

    Rows whose day is not known land on the day of the load. Without `now`, rows whose timestamp
    is in `today` count as come. A feed below the landing root that has
    never landed is empty. Raises SourceError if there is nothing at the path of one that has, or
    of any other source.
    """
    history = view.table(table.name)
    if source.is_landed:
        require_root(settings.landing)
    there = table.changes.reading(source.below(settings.landing))
    try:
        fixed = inspection.fixed(there)
    except NothingThereError:
        if not source.is_landed or history.last_batch:
            raise
        note = f"Nothing has landed at {there.path} yet."
        return Plan(idle=tuple(days), notes=(note,))
    due = [d for d in days if (d == today if table.reads_whole_source else d <= today)]
    states = _last_states(table, history, due)
    # What was judged may be gone, and the source as it was before: then the load ends the hold.
    wait = {
        day
        for day, state in states.items()
        if table.changes.waits(state, now) or _has_held(table, history, day)
    }
    as_read = fixed.fingerprint if due else ""
    due = [day for day in due if day in wait or states[day].get(FINGERPRINT) != as_read]
    fixed = _since(fixed, due, history, settings.start_date, today)
    if fixed.days is not None:
        return _planned_by_days(table, history, fixed, days, due, inspection)
    listed = _fingerprints(table, fixed, due, today, inspection.files_by_day)
    if listed is not None:
        due = [d for d in due if d in wait or states[d].get("listed", "") != listed.get(d, "")]
    seen = _fingerprints(table, fixed, due, today, inspection.rows_by_day)
    if seen is not None:
        due = [d for d in due if d in wait or states[d].get("seen", "") != seen.get(d, "")]
    found: dict[date, DayWork] = {}
    for day in due:
        work = _day_work(table, history, fixed, day, inspection)
        if work is not None:
            rows, files = ("" if each is None else each.get(day, "") for each in (seen, listed))
            found[day] = replace(work, seen=rows, listed=files)
    idle = tuple(day for day in days if day not in found)
    works = works_of(table, history, found, {})
    other = _ended_by_another_day(table, history, idle, today)
    return Plan(works, {}, idle, notes=tuple(filter(None, (*fixed.notes, other))))


def _ended_by_another_day(
    table: Table, history: TableHistory, idle: Collection[date], today: date
) -> str:
    """A note on held days that are asked for and that no load of theirs can end; "" for none."""
    held = [day for day in idle if day in history.held and day != today]
    if not held or not table.reads_whole_source:
        return ""
    return (
        f"{named(held)}: held, and the source has no days: its rows are evaluated again by the "
        f"load of {today}, which ends this when it is published."
    )


def _since(
    fixed: FixedSource, due: Sequence[date], history: TableHistory, first: date, today: date
) -> FixedSource:
    """The source with the days of what was not read yet, where it knows these and one is due.

    After a rewind, what the last batch knew does not count.
    """
    if not due:
        return fixed
    last = history.last

    def versions() -> Mapping[date, Version]:
        read = {day: parsed(history.position(day)) for day in history.last_committed}
        return {day: state["version"] for day, state in read.items() if "version" in state}

    is_rewound = last is None or last.kind == "rewind"
    state = {} if is_rewound else state_of(last)
    return fixed.since(Past(state, versions, first, today, loaded=bool(history.high)))


def _planned_by_days(
    table: Table,
    history: TableHistory,
    fixed: FixedSource,
    days: Sequence[date],
    due: Sequence[date],
    inspection: Inspector,
) -> Plan:
    """The days of which the source knows that they have something new."""
    found: dict[date, DayWork] = {}
    for day in due:
        part = (fixed.days or {}).get(day)
        work = _day_work(table, history, fixed, day, inspection) if part is not None else None
        if part is not None and work is not None:
            why = work.why if day in history.rewound else counted(part.rows, "new row")
            found[day] = replace(work, why=why, rows=part.rows, seen=part.fingerprint)
    idle = tuple(day for day in days if day not in found)
    return Plan(works_of(table, history, found, {}), {}, idle, notes=fixed.notes)


def last_inspection(table: Table, history: TableHistory, day: date) -> Entry | None:
    """The batch that last inspected the source for a day; without days of its own, for any."""
    if table.landing_column is not None:
        return history.last_committed.get(day)
    return history.last


def last_state(table: Table, history: TableHistory, day: date) -> Mapping[str, Any]:
    """What the detector left at its last inspection; no entry of the day is read for it."""
    if table.landing_column is None:
        return state_of(history.last)
    return parsed(history.position(day))


def _last_states(
    table: Table, history: TableHistory, days: Sequence[date]
) -> Mapping[date, Mapping[str, Any]]:
    """`last_state` of each day, for many: a text that days have in common is parsed once."""
    if table.landing_column is None:
        return dict.fromkeys(days, state_of(history.last))
    texts = {day: history.position(day) for day in days}
    states = {text: parsed(text) for text in set(texts.values())}
    return {day: states[text] for day, text in texts.items()}


def _fingerprints(
    table: Table,
    fixed: FixedSource,
    days: Sequence[date],
    today: date,
    ask: Callable[[FixedSource, str, Collection[date], date], Mapping[date, str] | None],
) -> Mapping[date, str] | None:
    """What the source has for each day, with rows of no day or one to come under today's."""
    column = table.landing_column
    if column is None or not days:
        return None
    return ask(fixed, column, days, today)


def _day_work(
    table: Table, history: TableHistory, fixed: FixedSource, day: date, inspection: Inspector
) -> DayWork | None:
    last = last_inspection(table, history, day)
    if table.changes.compares_days and fixed.is_missing:
        return None  # a snapshot that is missing is no deletion of everything
    low = next((w.high for w in last.windows if w.upstream == fixed.path), 0) if last else 0
    windows = (Window(fixed.path, low, fixed.height),)
    why = "the source changed" if last else FIRST_LOAD
    if last is not None and last.kind == "rewind":
        why = f"rewound by {last.who}: {last.why}"
    files: tuple[SourceFile, ...] = ()
    if table.changes.reads_once and fixed.version is None:
        files = _unread(table, history, fixed, day, inspection)
        if not (files or _has_held(table, history, day)):
            return None
        new = counted(len(files), "new file") if last else first_load(counted(len(files), "file"))
        why = new if files else HELD_IS_GONE
    since = version_read(fixed, state_of(last))
    return DayWork(day, why, windows, files, source=fixed, since=since)


def _has_held(table: Table, history: TableHistory, day: date) -> bool:
    """Whether something that a load of the day reads, if it is still there, is held."""
    if table.reads_whole_source:
        return bool(history.held)
    return day in history.held


def _unread(
    table: Table, history: TableHistory, fixed: FixedSource, day: date, inspection: Inspector
) -> tuple[SourceFile, ...]:
    if table.landing_column is None:
        known = history.files_read  # of all days: reads the whole ledger
    else:
        again = history.to_load_again.get(day, ())
        known = {path: file for path, file in history.files(day).items() if path not in again}
    tagged = inspection.tags(fixed.tagged, known)
    new, changed = table.changes.new_and_changed(fixed.files, known, tagged)
    return (*new, *changed)
