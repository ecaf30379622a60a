"""Days that were made by other code than a table has now, and what can be done about them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from incremental_assets.days import contiguous
from incremental_assets.ledger.view import TableHistory
from incremental_assets.table import Table


def other_code(table: Table, history: TableHistory, day: date) -> tuple[str, ...]:
    """The other code versions that made what the table has of a day since it was last rebuilt.

    A batch from before the ledger told the code counts as made by today's.
    """
    return tuple(sorted({*history.codes(day)} - {"", table.code_version}))


def is_rebuilt_by_day(table: Table) -> bool:
    """Whether a day's rows are all made anew from what its upstreams have of that day.

    Not where a key may lie on any day: its rows follow from all days that know of it.
    """
    if table.write.recomputes_keys:
        return False
    return not table.is_typed or table.day is not None or table.write.appends


def made_by(versions: Iterable[str], table: Table) -> str:
    """That a day was made by other code, in words."""
    return f"made by code version {' and '.join(versions)}, the code is {table.code_version}"


def days_of_other_code(
    table: Table, history: TableHistory, days: Iterable[date]
) -> list[tuple[date, date, str]]:
    """The days among these that other code has made, as ranges, each with what can be done."""
    by_version: dict[tuple[str, ...], list[date]] = {}
    for day in days:
        versions = other_code(table, history, day)
        if versions:
            by_version.setdefault(versions, []).append(day)
    found = []
    for versions, made in by_version.items():
        for some in contiguous(made):
            remedy = f"`incremental-assets restate {table.name} --days {some} --why …`"
            found.append((some.first, some.last, f"{made_by(versions, table)}: {remedy}"))
    return sorted(found)
