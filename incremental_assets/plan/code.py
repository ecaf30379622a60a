"""Days that another code version built than the table has now, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from incremental_assets.days import contiguous
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.table import Table


def other_code(table: Table, history: TableHistory, day: date) -> tuple[str, ...]:
    """The other code versions that wrote a day since it was last rebuilt.

    A batch from before the ledger recorded the code counts as written by today's.
    """
    return tuple(sorted({*history.codes(day)} - {"", table.code_version}))


def is_rebuilt_by_day(table: Table) -> bool:
    """Whether a rebuild of a day computes all its rows from that day of its upstreams.

    Not where a key may be on any day: its rows follow from all days that have it.
    """
    if table.write.recomputes_keys:
        return False
    return not table.is_typed or table.day is not None or table.write.appends


def made_by(versions: Iterable[str], table: Table) -> str:
    """Which code built a day, for a message."""
    return f"made by code version {' and '.join(versions)}, the code is {table.code_version}"


def days_of_other_code(
    table: Table, history: TableHistory, days: Iterable[date]
) -> list[tuple[date, date, str]]:
    """The ranges of these days that other code has built, each with the remedy."""
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
