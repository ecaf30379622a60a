"""Days that a load would empty, because their upstream had rows of them and has none any more.

The table has the last copy of these rows, so such a day is refused and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache

from incremental_assets.delta.delta_table import rows_by_file
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.work import Plan
from incremental_assets.table import Table


def without_lost_days(plan: Plan, table: Table, view: LedgerView, lake: str) -> Plan:
    """The plan of a load, where days that it would empty are refused.

    `view` is the ledger as it is now, with no batch that is only expected.
    """
    if not plan.work or not table.same_days:
        return plan
    reads_nothing = bool(nothing_loaded(table, view))
    rebuilt = [
        day
        for work in plan.work
        for day in work.days
        if reads_nothing or work.mode == "rebuild" or work.kind == "restate"
    ]
    lost = lost_days(table, rebuilt, view, lake)
    left = (
        replace(work, days={day: todo for day, todo in work.days.items() if day not in lost})
        for work in plan.work
    )
    works = tuple(work for work in left if work.days)
    return replace(plan, work=works, refused={**plan.refused, **lost})


def lost_days(
    table: Table, days: Sequence[date], view: LedgerView, lake: str
) -> Mapping[date, str]:
    """Those of the days that a rebuild would empty, each with the reason and what to do first.

    None that was never loaded, and none that the upstream itself has emptied, as it does where a
    file was repaired or retracted.
    """
    nothing = nothing_loaded(table, view)
    if nothing:
        return dict.fromkeys(days, nothing)
    loaded = [day for day in days if day in view.table(table.name).last_committed]
    there = {each.name: _days_with_rows(each, lake) for each in _facts(table) if loaded}
    own = cache(lambda: _days_with_rows(table, lake))
    found: dict[date, str] = {}
    for day in loaded:
        empty = [name for name in there if day not in there[name]]
        last = [entry for name in empty for entry in view.table(name).changes(day, 0)[-1:]]
        had = next((entry for entry in last if _rows(entry, day)), None)
        if had is not None:
            found[day] = _has_lost(had, day)
        elif not last and len(empty) == len(there) and _holds_rows(table, day, view, own):
            found[day] = _never_had(table)
    return found


def nothing_loaded(table: Table, view: LedgerView) -> str:
    """Why a table has nothing to read: no upstream was ever loaded, or it is gone; else ""."""
    facts = _facts(table)
    if any(view.table(each.name).high for each in facts):
        return ""
    return (
        f"by the ledger nothing was ever loaded into {_named(facts)}, so there is nothing to read "
        "it from. Load that first, or restore it from a backup"
    )


def _facts(table: Table) -> list[Table]:
    """The tables that have the rows of a day: each that is typed; of those joined, the first."""
    read = [each.table for each in table.same_days]
    return read if table.is_typed else read[:1]


def _days_with_rows(table: Table, lake: str) -> set[date | None]:
    column = "_day" if table.layer == "bronze" else "dt"
    return {day for _, day, rows in rows_by_file(f"{lake}/{table.name}", column) if rows}


def _rows(entry: Entry, day: date) -> int:
    return next((touched.rows for touched in entry.touched if touched.day == day), 0)


def _holds_rows(
    table: Table, day: date, view: LedgerView, days: Callable[[], set[date | None]]
) -> bool:
    """Whether the table, or its quarantine, holds rows of a day that came from what it reads.

    `days` are those that the table has rows of. What it no longer reads may have given it some.
    """
    history, there = view.table(table.name), {read.table.name for read in table.upstreams}
    last = history.last_published.get(day)
    if last is not None and any(w.high and w.upstream not in there for w in last.windows):
        return False
    return day in days() or any(e.rows_quarantined for e in history.since_rebuilt(day))


def _has_lost(entry: Entry, day: date) -> str:
    return (
        f"{entry.table} has no rows of it any more, and had {_rows(entry, day)} after batch "
        f"{entry.batch}: a rebuild would empty it. Restore {entry.table} from a backup, or load it "
        "again, first"
    )


def _never_had(table: Table) -> str:
    return (
        f"{table.name} holds rows of it, and by the ledger none was ever in "
        f"{_named(_facts(table))}: a rebuild would empty it. Restore that from a backup, or load "
        "it again, first"
    )


def _named(tables: Sequence[Table]) -> str:
    return " or ".join(table.name for table in tables)
