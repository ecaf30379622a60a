"""What is due next in a lake: the first stale table, with all tables built on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from incremental_assets.days import DayRange, contiguous
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.derived import stale_days
from incremental_assets.table import Table


@dataclass(frozen=True)
class Due:
    """Days of tables that one run does together, and why the first table's days are stale."""

    tables: tuple[Table, ...]
    days: DayRange
    why: str


def stale_work(
    chosen: Sequence[Table], view: LedgerView, start: date, today: date, span: DayRange
) -> list[Due]:
    """The stale days of the first of the tables that has any, with the tables built on it.

    Upstreams come before the tables that read them. Tables further down are due after that. Days
    whose upstream is held are left out.
    """
    for table, stale in stale_tables(chosen, view, start, today, span):
        below = with_downstream(table, chosen)
        return [
            Due(below, some, "; ".join(stale[day] for day in some)) for some in contiguous(stale)
        ]
    return []


def stale_tables(
    chosen: Sequence[Table], view: LedgerView, start: date, today: date, span: DayRange
) -> Iterator[tuple[Table, Mapping[date, str]]]:
    """The stale tables, in their order, with their stale days in `span` and the reasons."""
    for table in chosen:
        stale = stale_days(table, view, start, today) if table.upstreams else {}
        days = {day: why for day, why in stale.items() if day in span}
        if days:
            yield table, days


def with_downstream(table: Table, chosen: Sequence[Table]) -> tuple[Table, ...]:
    """The table and those that are built on it, in their order."""
    below = {table.name}
    for other in chosen:
        if any(read.table.name in below for read in other.upstreams):
            below.add(other.name)
    return tuple(t for t in chosen if t.name in below)
