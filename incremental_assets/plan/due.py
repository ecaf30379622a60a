"""The stale days of the tables of a lake, and the tables that are built on a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from incremental_assets.days import DayRange
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.derived import stale_days
from incremental_assets.table import Table


@dataclass(frozen=True)
class Due:
    """Days of tables that one run does together, and why the first table's days are stale."""

    tables: tuple[Table, ...]
    days: DayRange
    why: str


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
