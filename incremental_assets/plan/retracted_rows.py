"""Where rows of retracted files stay: on days that wait for the hold of an upstream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date

from incremental_assets.ledger.entry import KEEP_HOLDS
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.derived import upstream_held
from incremental_assets.plan.due import with_downstream
from incremental_assets.table import AsOf, SameDay, Table

Retracted = Mapping[str, Collection[str]]
"""Per bronze table: the paths of the files that were retracted."""


def retracted_rows_stay(
    table: Table,
    retracted: Retracted,
    last: Callable[[str], int],
    tables: Sequence[Table],
    view: LedgerView,
) -> Mapping[date, str]:
    """The days of a table that keep rows of these files until a hold ends, each with the reason.

    `last` gives the last batch of an upstream before the files left it, and `tables` are all
    tables of the lake.
    """
    history = view.table(table.name)
    above = [each for each in tables if each != table and table in with_downstream(each, tables)]
    held = {day for each in above for day in view.table(each.name).held}
    days = sorted(day for day in held if day in history.last_published)
    changed = {
        name for bronze in above if bronze.name in retracted for name in _below(bronze, tables)
    }
    reads = [read for read in table.upstreams if read.table.name in changed]
    found: dict[date, str] = {}
    for day in days:
        why = upstream_held(table, day, view)
        if why and any(_has_rows(read, day, history, retracted, last, view) for read in reads):
            names = ", ".join(_that_show(table, day, tables, view))
            found[day] = f"{why}; until then the retracted rows stay in {names}"
    return found


def _below(table: Table, tables: Sequence[Table]) -> Iterator[str]:
    return (each.name for each in with_downstream(table, tables))


def _has_rows(
    read: SameDay | AsOf,
    day: date,
    history: TableHistory,
    retracted: Retracted,
    last: Callable[[str], int],
    view: LedgerView,
) -> bool:
    """Whether the published rows of a day were read from an upstream before the files left it."""
    name = read.table.name
    upstream, seen = view.table(name), history.published_up_to(name, day)
    if name not in retracted:
        is_looked_up = isinstance(read, AsOf)
        changes = upstream.looked_up_changes if is_looked_up else upstream.changes
        return any(seen < entry.batch for entry in changes(day, last(name))[:1])
    of_files = [
        entry
        for entry in upstream.changes(day, 0)
        if any(file.path in retracted[name] for file in entry.files)
    ]
    loaded = [entry.batch for entry in of_files if entry.kind not in KEEP_HOLDS]
    left = [entry.batch for entry in of_files if entry.kind == "retract"]
    return min(loaded, default=1) <= seen < max(left, default=0)


def _that_show(table: Table, day: date, tables: Sequence[Table], view: LedgerView) -> Iterator[str]:
    """The table, and those built on it that have the day, or look rows up."""
    for each in with_downstream(table, tables):
        history = view.table(each.name)
        looks_up = any(isinstance(read, AsOf) for read in each.upstreams)
        if day in history.last_published or (looks_up and history.high):
            yield each.name
