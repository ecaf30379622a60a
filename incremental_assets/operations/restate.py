"""Restating days of tables and of all that depends on them, from the rows that bronze keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from incremental_assets.days import DayRange, named, utc_today
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import require_restatable, stale_days, upstream_held
from incremental_assets.plan.due import with_downstream
from incremental_assets.table import AsOf, Table


def restate(
    lakehouse: Lakehouse, tables: Sequence[Table], days: Sequence[date], why: str, run_id: str = ""
) -> Iterator[TableLoadResult]:
    """Rebuild days of the tables, then the days of other tables that this made stale.

    These may be other days than the given ones: facts that look up a version, levels that continue
    from the day before. Yields a result as soon as its table is done, upstreams first. Of several
    days, those that were never loaded are left out. Raises DefinitionError without a reason, and
    where `Lakehouse.restate` does.
    """
    if not why.strip():
        raise DefinitionError("A restatement needs a reason, which stays in the ledger: give one.")
    _require_any(tables)
    before = lakehouse.ledger.view()
    chosen = {table.name for table in tables}
    below = {t.name for table in tables for t in with_downstream(table, lakehouse.tables)}
    for table in (t for t in lakehouse.tables if t.name in below):
        if table.name in chosen:
            yield lakehouse.restate(table, _loaded(table, days, lakehouse), why.strip(), run_id)
            continue
        redone = days_made_stale(table, lambda name: before.table(name).last_batch, lakehouse)
        if redone:
            lakehouse.log(f"{table.name}: stale by the restatement: {named(redone)}")
            yield lakehouse.load(table, redone, run_id)


def require_loaded(tables: Sequence[Table], days: DayRange | None, view: LedgerView) -> None:
    """Raises DefinitionError for no or a bronze table, and where no day was ever loaded.

    A day that could not be loaded because its upstream is held is refused for that reason.
    """
    _require_any(tables)
    for table in tables:
        require_restatable(table)
    for table in tables:
        history = view.table(table.name)
        there = {*history.last_committed, *history.held}
        if days is None and there:
            return
        if days is not None and any(d in there or upstream_held(table, d, view) for d in days):
            return
    what = ", ".join(table.name for table in tables) + ("" if days is None else f": {days}")
    raise DefinitionError(
        f"{what} was never loaded, so there is nothing to restate; `incremental-assets run` "
        "loads what is due."
    )


def _require_any(tables: Sequence[Table]) -> None:
    if not tables:
        raise DefinitionError("A restatement needs a table: name one or more.")


def _loaded(table: Table, days: Sequence[date], lakehouse: Lakehouse) -> Sequence[date]:
    """The days that were loaded once; all of them if none was, so that they are refused."""
    history = lakehouse.ledger.view().table(table.name)
    loaded = [day for day in days if day in history.last_committed or day in history.held]
    never = sorted(set(days) - set(loaded))
    if not loaded or not never:
        return days
    lakehouse.log(f"{table.name}: left out, because never loaded: {named(never)}")
    return loaded


def days_made_stale(table: Table, last: Callable[[str], int], lakehouse: Lakehouse) -> list[date]:
    """The days of a table that were made stale by batches after the `last` of each upstream."""
    now = lakehouse.ledger.view()
    start, today = lakehouse.settings.start_date, utc_today(lakehouse.now())
    stale = stale_days(table, now, start, today)
    changed: set[date] = set()
    for read in table.upstreams:
        low, upstream = last(read.table.name), now.table(read.table.name)
        for day in stale:
            new = (
                upstream.looked_up_changes(day, low)
                if isinstance(read, AsOf)
                else upstream.changes(day, low)
            )
            if new:
                changed.add(day)
    return sorted(changed)


def days_to_restate(
    lakehouse: Lakehouse, tables: Sequence[Table], days: DayRange | None
) -> Sequence[date]:
    """The given days, or all that any of the tables was loaded for."""
    if days is not None:
        return list(days)
    view = lakehouse.ledger.view()
    return sorted({day for table in tables for day in view.table(table.name).last_committed})
