"""What a load of given days would do, found out from listings and the ledger, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from incremental_assets.lake.strategy import Merge
from incremental_assets.ledger.entry import Entry, FileEntry, Kind, Mode, Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.settings import Settings
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.table import AsOf, Table

# Up to this much one task is faster than several; a day of the demo is 4,000 rows and 1 MiB.
SMALL_ROWS = 20_000
SMALL_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class DayWork:
    """What there is to do for one day: its windows, or its files, and why.

    `rows` is about how many rows will be read; 0 where the files' sizes say it.
    """

    day: date
    why: str
    windows: tuple[Window, ...] = ()
    files: tuple[SourceFile, ...] = ()
    changed: tuple[SourceFile, ...] = ()
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """The days that one batch can do together: they are written in the same mode."""

    mode: Mode
    kind: Kind
    days: Mapping[date, DayWork]

    @property
    def small(self) -> bool:
        """Whether starting further tasks costs more than they save."""
        rows = sum(day.rows for day in self.days.values())
        read = sum(file.size for day in self.days.values() for file in day.files)
        return rows <= SMALL_ROWS and read <= SMALL_BYTES


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, and what is not done: `refused` days with the reason, `idle` ones without."""

    work: tuple[Work, ...] = ()
    refused: Mapping[date, str] = field(default_factory=dict)
    idle: tuple[date, ...] = ()

    @property
    def days(self) -> tuple[date, ...]:
        """The days that there is something to do for."""
        return tuple(sorted(day for work in self.work for day in work.days))


def plan_table(table: Table, days: Sequence[date], view: LedgerView, settings: Settings) -> Plan:
    """What loading these days of a table would do now. Changes nothing.

    Raises SourceError if the landing cannot be listed.
    """
    if table.feed is not None:
        return _plan_landed(table, days, view, settings)
    return _plan_derived(table, days, view)


def stale_days(table: Table, view: LedgerView, start: date, today: date) -> dict[date, str]:
    """The days of a table whose upstream has batches that it has not read, with why.

    Held days are left out as long as nothing new came for them; so are days outside the
    partitions `start` to `today`.
    """
    found: dict[date, str] = {}
    history = view.table(table.name)
    candidates = {
        day for read in table.upstreams for day in view.table(read.table.name).touching
    } | set(history.last_committed)
    for day in sorted(d for d in candidates if start <= d <= today):
        work = _day_work(table, day, view)
        if work is None or upstream_held(table, day, view):
            continue
        held = history.held.get(day)
        if held is not None and not _changed_since(held, table, view):
            continue
        found[day] = work.why
    return found


def upstream_held(table: Table, day: date, view: LedgerView) -> str:
    """Why a day cannot be built: an upstream's gate failed for the same date; else ""."""
    for read in table.upstreams:
        held = view.table(read.table.name).held.get(day)
        if held is not None:
            return (
                f"{read.table.name} {day} is held since batch {held.batch}: {held.held_by}. "
                "Repair its input and run that day again"
            )
    return ""


def _plan_landed(table: Table, days: Sequence[date], view: LedgerView, settings: Settings) -> Plan:
    feed = table.feed
    assert feed is not None
    history = view.table(table.name)
    fresh: dict[date, DayWork] = {}
    repaired: dict[date, DayWork] = {}
    idle: list[date] = []
    for day in days:
        listed = feed.files(settings.landing, day)
        new, changed = table.changes.new_and_changed(
            listed, history.files(day), partial(with_content_tag, settings.landing)
        )
        if changed:
            why = f"{len(changed)} loaded files changed" + (f", {len(new)} new" if new else "")
            repaired[day] = DayWork(day, why, (), (*new, *changed), tuple(changed))
        elif new:
            fresh[day] = DayWork(day, f"{len(new)} new files", (), tuple(new))
        else:
            idle.append(day)
    works = [Work("append", "advance", fresh), Work("rebuild", "restate", repaired)]
    return Plan(tuple(w for w in works if w.days), {}, tuple(idle))


def _plan_derived(table: Table, days: Sequence[date], view: LedgerView) -> Plan:
    by_mode: dict[Mode, dict[date, DayWork]] = {}
    refused: dict[date, str] = {}
    idle: list[date] = []
    for day in days:
        reason = upstream_held(table, day, view)
        if reason:
            refused[day] = reason
            continue
        work = _day_work(table, day, view)
        if work is None:
            idle.append(day)
        else:
            by_mode.setdefault(_mode(table, work, view), {})[day] = work
    order: tuple[Mode, ...] = ("append", "merge", "rebuild")
    works = [
        Work(mode, "restate" if mode == "rebuild" and _restated(table, mode) else "advance", by)
        for mode in order
        if (by := by_mode.get(mode))
    ]
    return Plan(tuple(works), refused, tuple(idle))


def _day_work(table: Table, day: date, view: LedgerView) -> DayWork | None:
    """The windows of a day, or None if no upstream has anything new for it."""
    history = view.table(table.name)
    windows: list[Window] = []
    reasons: list[str] = []
    rows = 0
    for read in table.upstreams:
        upstream = view.table(read.table.name)
        low = history.watermark(read.table.name, day)
        windows.append(Window(read.table.name, low, upstream.high))
        if isinstance(read, AsOf):
            known = day in history.last_committed
            new = upstream.looked_up_changes(day, low) if known else ()
        else:
            new = upstream.changes(day, low)
            whole = upstream.touching.get(day, ()) if not isinstance(table.write, Merge) else new
            rows += sum(t.rows for e in whole for t in e.touched if t.day == day)
        if new:
            last = new[-1].batch
            batches = f"batch {last}" if len(new) == 1 else f"{len(new)} batches up to {last}"
            reasons.append(f"{read.table.name} {batches}")
    return DayWork(day, ", ".join(reasons), tuple(windows), rows=rows) if reasons else None


def _mode(table: Table, work: DayWork, view: LedgerView) -> Mode:
    history = view.table(table.name)
    if not isinstance(table.write, Merge):
        return "rebuild"
    if _restating(work, view):
        return "rebuild"
    empty = work.day not in history.published_days if table.day else not history.published_days
    return "append" if empty else "merge"


def _restating(work: DayWork, view: LedgerView) -> list[Entry]:
    return [
        entry
        for window in work.windows
        for entry in view.table(window.upstream).changes(work.day, window.low)
        if entry.kind == "restate"
    ]


def _restated(table: Table, mode: Mode) -> bool:
    return mode == "rebuild" and isinstance(table.write, Merge)


def _changed_since(held: Entry, table: Table, view: LedgerView) -> bool:
    """Whether an upstream has changed the day since its gate failed."""
    judged = {window.upstream: window.high for window in held.windows}
    return any(
        upstream.looked_up_changes(held.day, high)
        if isinstance(read, AsOf)
        else upstream.changes(held.day, high)
        for read in table.upstreams
        for upstream, high in [(view.table(read.table.name), judged.get(read.table.name, 0))]
    )


def file_entries(files: Sequence[SourceFile]) -> tuple[FileEntry, ...]:
    """Landed files as the ledger records them."""
    return tuple(FileEntry(f.path, f.size, f.tag, f.modified) for f in files)


def landing_days_with_news(
    table: Table, view: LedgerView, settings: Settings, start: date, today: date
) -> dict[date, str]:
    """The landing days inside the partitions that have new or changed files, with why.

    A held day is left out as long as its files are the ones that were judged.
    """
    feed = table.feed
    assert feed is not None
    days = [d for d in feed.days(settings.landing) if start <= d <= today]
    history = view.table(table.name)
    found: dict[date, str] = {}
    for work in _plan_landed(table, days, view, settings).work:
        for day, todo in work.days.items():
            held = history.held.get(day)
            judged = {(f.path, f.size, f.tag) for f in held.files} if held else set()
            if {(f.path, f.size, f.tag) for f in todo.files} != judged:
                found[day] = todo.why
    return dict(sorted(found.items()))
