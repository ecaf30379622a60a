"""What the tables of the lake have to offer to those that read them, told by the ledger alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from incremental_assets.lake.strategy import Append, Merge, ReplaceKeys
from incremental_assets.ledger.entry import Entry, Kind, Mode, Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.accepted import changed_since
from incremental_assets.plan.costs import Costs
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.table import AsOf, ByDay, Table


def stale_days(table: Table, view: LedgerView, start: date, today: date) -> dict[date, str]:
    """The days of a table whose upstream has batches that it has not read, with why.

    Held days are left out as long as nothing new came for them and nobody accepted them; so are
    days outside the partitions `start` to `today`.
    """
    found: dict[date, str] = {}
    history = view.table(table.name)
    accepted = history.accepted
    candidates = {
        day for read in table.upstreams for day in view.table(read.table.name).touching
    } | set(history.last_committed)
    for day in sorted(d for d in candidates if start <= d <= today):
        work = _day_work(table, day, view)
        if work is None or upstream_held(table, day, view):
            continue
        held = history.held.get(day)
        if held is not None and day not in accepted and not changed_since(held, table, view):
            continue
        found[day] = work.why
    return found


def upstream_held(table: Table, day: date, view: LedgerView) -> str:
    """Why a day cannot be built: a gate above it failed for the same date; else "".

    Also further up: what stands between has not read the held day, and so has nothing to say.
    """
    for read in table.upstreams:
        held = view.table(read.table.name).held.get(day)
        if held is not None:
            return (
                f"{read.table.name} {day} is held since batch {held.batch}: {held.held_by}. "
                "Repair its input, or accept it, and run that day again"
            )
        above = upstream_held(read.table, day, view)
        if above:
            return above
    return ""


def not_read(table: Table, day: date, view: LedgerView) -> str:
    """What a day has not read of its upstreams, in words; "" where it has read all."""
    work = _day_work(table, day, view)
    return work.why if work is not None else ""


def plan_derived(table: Table, days: Sequence[date], view: LedgerView) -> Plan:
    found: dict[tuple[Mode, Kind], dict[date, DayWork]] = {}
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
            mode, because = _mode(table, work, view)
            why = f"{work.why}; {because}" if because else work.why
            kind = _kind(table, day, mode, view)
            found.setdefault((mode, kind), {})[day] = replace(work, why=why)
    order: tuple[Mode, ...] = ("append", "merge", "rebuild")
    kinds: tuple[Kind, ...] = ("advance", "restate")
    each = [(mode, kind) for mode in order for kind in kinds if (mode, kind) in found]
    works = [Work(mode, kind, found[mode, kind]) for mode, kind in each]
    return Plan(tuple(works), refused, tuple(idle))


def _kind(table: Table, day: date, mode: Mode, view: LedgerView) -> Kind:
    """Whether the day's rows are written anew, for those that are built on it."""
    anew = isinstance(table.write, ReplaceKeys) and day in view.table(table.name).rewound
    return "restate" if anew or (mode == "rebuild" and table.is_typed) else "advance"


def unread(table: Table, read: ByDay | AsOf, day: date, view: LedgerView) -> tuple[Entry, ...]:
    """The batches of an upstream that changed what a day is made of since it read them."""
    history, upstream = view.table(table.name), view.table(read.table.name)
    low = history.watermark(read.table.name, day)
    if isinstance(read, ByDay):
        return upstream.changes(day, low)
    return upstream.looked_up_changes(day, low) if day in history.last_committed else ()


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
        new = unread(table, read, day, view)
        if isinstance(read, ByDay):
            whole = upstream.touching.get(day, ()) if not table.is_typed else new
            rows += sum(t.rows for e in whole for t in e.touched if t.day == day)
        if new:
            last = new[-1].batch
            batches = f"batch {last}" if len(new) == 1 else f"{len(new)} batches up to {last}"
            reasons.append(f"{read.table.name} {batches}")
    if day in history.rewound:
        entry = history.rewound[day]
        reasons.append(f"rewound by {entry.who}: {entry.why}")
    return DayWork(day, ", ".join(reasons), tuple(windows), rows=rows) if reasons else None


def _mode(table: Table, work: DayWork, view: LedgerView) -> tuple[Mode, str]:
    """How the day is to be written, and why, where there was a choice."""
    history = view.table(table.name)
    if isinstance(table.write, ReplaceKeys):
        return "merge", ""
    if not table.is_typed:
        return _joined(table, work, view)
    if _restating(work, view) or work.day in history.rewound:
        return "rebuild", ""
    if isinstance(table.write, Append):
        return "append", ""
    empty = work.day not in history.published_days if table.day else not history.published_days
    return ("append" if empty else "merge"), ""


def _joined(table: Table, work: DayWork, view: LedgerView) -> tuple[Mode, str]:
    """Whether only the rows that changed are joined and merged, or the whole day."""
    history = view.table(table.name)
    last = history.last_committed.get(work.day)
    there = last.rows_counted if last is not None else 0
    if not isinstance(table.write, Merge) or not there or _restating(work, view):
        return "rebuild", ""
    facts = work.windows[0]
    new = view.table(facts.upstream).changes(work.day, facts.low)
    changed = sum(e.rows_inserted + e.rows_updated for e in new if e.day == work.day)
    return Costs.of(history).cheaper(changed, there)


def _restating(work: DayWork, view: LedgerView) -> list[Entry]:
    return [
        entry
        for window in work.windows
        for entry in view.table(window.upstream).changes(work.day, window.low)
        if entry.kind == "restate"
    ]
