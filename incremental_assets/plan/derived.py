"""Which days of silver and gold are stale, and how to load them, by the ledger alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from incremental_assets.ledger.entry import Entry, Kind, Mode, Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.accepted import changed_since
from incremental_assets.plan.code import is_rebuilt_by_day, made_by, other_code
from incremental_assets.plan.merge_or_rebuild import merge_or_rebuild
from incremental_assets.plan.work import DayWork, Plan, Work, first_load
from incremental_assets.table import AsOf, SameDay, Table

# The order of the batches of one load.
_ORDER: tuple[tuple[Mode, Kind], ...] = (
    ("append", "advance"),
    ("merge", "advance"),
    ("merge", "restate"),
    ("rebuild", "advance"),
    ("rebuild", "restate"),
)


def stale_days(table: Table, view: LedgerView, start: date, today: date) -> dict[date, str]:
    """The days of a table whose upstream has batches that it has not read, each with the reason.

    Held days are left out as long as nothing new came for them and they were neither accepted nor
    rewound; so are days outside the partitions `start` to `today`.
    """
    found: dict[date, str] = {}
    history = view.table(table.name)
    for day in sorted(d for d in _may_be_stale(table, view) if start <= d <= today):
        work = _day_work(table, day, view)
        if work is None or upstream_held(table, day, view):
            continue
        held = history.judged(day)
        if held is not None and not changed_since(held, table, view):
            continue
        found[day] = work.why
    return found


def _may_be_stale(table: Table, view: LedgerView) -> set[date]:
    """The days to ask: no other has anything to read. Of all days only numbers are compared."""
    history = view.table(table.name)
    found = {*history.rewound, *history.held}
    for read in table.upstreams:
        upstream, low = view.table(read.table.name), history.watermarks(read.table.name)
        if isinstance(read, SameDay):
            last = upstream.last_touched
            found |= {day for day, batch in last.items() if batch > low.get(day, 0)}
        else:
            looked_up = upstream.last_looked_up
            of_any_day = looked_up.get(None, 0)
            found |= {
                day
                for day in history.last_committed
                if max(of_any_day, looked_up.get(day, 0)) > low.get(day, 0)
            }
    return found


def upstream_held(table: Table, day: date, view: LedgerView) -> str:
    """Why a day cannot be built: the gate of an upstream holds the same date; else "".

    Any upstream counts, also one further up: the tables between have not read the held day. So
    does a table that a transform needs a frame of, and that has no columns: it was never loaded.
    """
    missing = never_loaded(table, view)
    if missing:
        return f"{table.name} also reads {missing}, which was never loaded; load that first"
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


def never_loaded(table: Table, view: LedgerView) -> str:
    """The table without which no day can be built: its transform needs a frame of it; else ""."""
    joins_days = len(table.same_days) > 1 and not table.is_typed
    needed = table.same_days if joins_days else ()
    return next((r.table.name for r in needed if not view.table(r.table.name).high), "")


def not_read(table: Table, day: date, view: LedgerView) -> str:
    """What a day has not read of its upstreams, for a message; "" where it has read all."""
    batches = _named(_new_batches(table, day, view))
    return ", ".join((*batches, *_rewound(table, day, view)))


def plan_derived(table: Table, days: Sequence[date], view: LedgerView) -> Plan:
    by_way: dict[tuple[Mode, Kind], dict[date, DayWork]] = {}
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
            mode, kind, because = _way(table, work, view)
            why = f"{work.why}; {because}" if because else work.why
            left = () if mode == "rebuild" else _no_longer_read(table, day, view)
            work = replace(work, why=why, windows=(*work.windows, *left))
            by_way.setdefault((mode, kind), {})[day] = work
    works = [
        Work(mode, kind, by_way[mode, kind]) for mode, kind in _ORDER if (mode, kind) in by_way
    ]
    return Plan(tuple(works), refused, tuple(idle))


def unread(table: Table, read: SameDay | AsOf, day: date, view: LedgerView) -> tuple[Entry, ...]:
    """The batches of an upstream that a day has not read, and that changed its input."""
    history, upstream = view.table(table.name), view.table(read.table.name)
    low = history.watermark(read.table.name, day)
    if isinstance(read, SameDay):
        return upstream.changes(day, low)
    return upstream.looked_up_changes(day, low) if day in history.last_committed else ()


def windows_of(table: Table, day: date, view: LedgerView) -> tuple[Window, ...]:
    """What a day has not read of each upstream: from its watermark to the last batch."""
    history = view.table(table.name)
    return tuple(
        Window(
            read.table.name,
            history.watermark(read.table.name, day),
            view.table(read.table.name).high,
        )
        for read in table.upstreams
    )


def _day_work(table: Table, day: date, view: LedgerView) -> DayWork | None:
    """The windows of a day, or None if no upstream has anything new for it and it is not held."""
    history = view.table(table.name)
    reasons = _reasons(table, day, view)
    judged = 0
    if not reasons and day in history.held:  # a restatement was, which had nothing new to read
        held = history.held[day]
        reasons, judged = [f"held since batch {held.batch}"], held.rows_read
    if not reasons:
        return None
    windows = windows_of(table, day, view)
    rows = sum(_rows_to_read(table, window, day, view) for window in windows)
    return DayWork(day, ", ".join(reasons), windows, rows=max(rows, judged))


def _reasons(table: Table, day: date, view: LedgerView) -> list[str]:
    """Why a day is loaded: it never was, upstreams have changed, or its watermark was rewound."""
    new, history = _new_batches(table, day, view), view.table(table.name)
    if new and day not in history.last_committed and day not in history.held:
        return [first_load(", ".join(_named(new)))]
    changed = [f"{upstream} has changed ({batches})" for upstream, batches in new.items()]
    return [*changed, *_rewound(table, day, view)]


def _new_batches(table: Table, day: date, view: LedgerView) -> dict[str, str]:
    """The batches of each upstream that has any that a day has not read, by its name."""
    found: dict[str, str] = {}
    for read in table.upstreams:
        new = unread(table, read, day, view)
        if new:
            last, count = new[-1].batch, len({entry.batch for entry in new})
            batches = f"batch {last}" if count == 1 else f"{count:,} batches up to {last}"
            found[read.table.name] = batches
    return found


def _named(batches: Mapping[str, str]) -> list[str]:
    return [f"{upstream} {which}" for upstream, which in batches.items()]


def _rewound(table: Table, day: date, view: LedgerView) -> list[str]:
    """That a day's watermark was rewound, if it was."""
    entry = view.table(table.name).rewound.get(day)
    return [f"rewound by {entry.who}: {entry.why}"] if entry is not None else []


def _no_longer_read(table: Table, day: date, view: LedgerView) -> tuple[Window, ...]:
    """How far a silver table has read what is no longer among its `reads`: its rows stay.

    So they are not read twice once it is there again.
    """
    last = view.table(table.name).last_committed.get(day)
    if last is None or not table.is_typed:
        return ()
    there = {read.table.name for read in table.same_days}
    return tuple(
        Window(w.upstream, w.high, w.high) for w in last.windows if w.upstream not in there
    )


def _rows_to_read(table: Table, window: Window, day: date, view: LedgerView) -> int:
    """How many rows of a day the upstream's batches wrote; for a typed table the new ones."""
    reads = [r for r in table.upstreams if r.table.name == window.upstream]
    if not any(isinstance(read, SameDay) for read in reads):
        return 0
    low = window.low if table.is_typed else 0
    entries = view.table(window.upstream).changes(day, low)
    return sum(t.rows for e in entries for t in e.touched if t.day == day)


def _way(table: Table, work: DayWork, view: LedgerView) -> tuple[Mode, Kind, str]:
    """How the day is written, and the reason, where it does not follow from what is new."""
    history = view.table(table.name)
    other = other_code(table, history, work.day)
    because = made_by(other, table) if other else ""
    held = history.held.get(work.day)
    # What was held as a restatement goes on as one: its batch has judged all rows of the day.
    restated = work.day in history.rewound or (held is not None and held.kind == "restate")
    if table.write.recomputes_keys:
        reason = because and f"{because}, and keys that do not change stay"
        return "merge", "restate" if restated else "advance", "" if restated else reason
    if restated or _restating(work, view):
        return "rebuild", "restate", because
    if other and is_rebuilt_by_day(table):  # never half old code, half new
        return "rebuild", "restate", because
    if not table.is_typed:
        return _joined(table, work, view)
    if because:
        because += ", and its keys are on any day: what is new is merged by the new code"
    if table.write.appends:
        return "append", "advance", because
    empty = work.day not in history.published_days if table.day else not history.published_days
    return ("append" if empty else "merge"), "advance", because


def _joined(table: Table, work: DayWork, view: LedgerView) -> tuple[Mode, Kind, str]:
    """Whether only the rows that changed are joined and merged, or the whole day."""
    there = rows_before(table, work.day, view)
    if not table.write.keeps_latest or not there:
        return "rebuild", "advance", ""
    if len(table.same_days) > 1:  # a changed row of the second may belong to any of the first
        return "rebuild", "advance", "it reads the day of several tables"
    way, because = merge_or_rebuild(changed_rows(work, view), there)
    return way, "advance", because


def rows_before(table: Table, day: date, view: LedgerView) -> int:
    """How many rows a gold table has of a day."""
    last = view.table(table.name).last_committed.get(day)
    return last.rows_counted if last is not None else 0


def changed_rows(work: DayWork, view: LedgerView) -> int:
    """How many rows of the facts the batches in a day's window have inserted and updated."""
    facts = work.windows[0]
    new = view.table(facts.upstream).changes(work.day, facts.low)
    return sum(e.rows_inserted + e.rows_updated for e in new if e.day == work.day)


def _restating(work: DayWork, view: LedgerView) -> list[Entry]:
    return [
        entry
        for window in work.windows
        for entry in view.table(window.upstream).changes(work.day, window.low)
        if entry.replaces_rows
    ]
