"""Days that are to be rebuilt although their upstreams have nothing new for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from incremental_assets.delta.delta_table import rows_by_file
from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.entry import Entry, Mode
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.derived import upstream_held, windows_of
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.table import Table


def require_restatable(table: Table) -> None:
    """Raises DefinitionError for a bronze table, which is not made of another one."""
    if table.layer == "bronze":
        raise DefinitionError(
            f"{table.name}: bronze keeps what landed. To load a file again, repair it where it "
            "landed, or rewind the table (`incremental-assets watermarks rewind "
            f"{table.name} --to BATCH --reason …`) and run it."
        )


def plan_restate(table: Table, days: Sequence[date], view: LedgerView, why: str, lake: str) -> Plan:
    """The days of a table that can be rebuilt now, from all that its upstreams have of them.

    Raises DefinitionError for a bronze table.
    """
    require_restatable(table)
    history = view.table(table.name)
    lost = _lost_days(table, days, view, lake)
    refused: dict[date, str] = {}
    works: dict[date, DayWork] = {}
    for day in days:
        held = upstream_held(table, day, view)
        if held:
            refused[day] = held
        elif day in lost:
            refused[day] = lost[day]
        elif day not in history.last_committed:
            refused[day] = "it was never loaded, so there is nothing to restate; run it"
        else:
            windows = windows_of(table, day, view)
            rows = sum(e.rows_read for e in history.since_rebuilt(day))
            works[day] = DayWork(day, why, windows, rows=rows)
    mode: Mode = "merge" if table.write.recomputes_keys else "rebuild"
    return Plan((Work(mode, "restate", works),) if works else (), refused)


def _lost_days(
    table: Table, days: Sequence[date], view: LedgerView, lake: str
) -> Mapping[date, str]:
    """The days whose rows the upstream had and has no more: a rebuild would empty them."""
    read = [each.table for each in table.same_days]
    # Of tables that are joined, the first has the rows; of those that are typed, each.
    return {
        day: why
        for facts in (read if table.is_typed else read[:1])
        for day, why in _lost_of(facts, days, view, lake).items()
    }


def _lost_of(facts: Table, days: Sequence[date], view: LedgerView, lake: str) -> Mapping[date, str]:
    if not view.table(facts.name).high:
        return {}  # it was never loaded
    column = "_day" if facts.layer == "bronze" else "dt"
    there = {day for _, day, rows in rows_by_file(f"{lake}/{facts.name}", column) if rows}
    last = {day: view.table(facts.name).changes(day, 0)[-1:] for day in days if day not in there}
    return {
        day: f"{facts.name} has no rows of it any more, and had {_rows(entry, day)} after batch "
        f"{entry.batch}: a rebuild would empty it. Restore {facts.name} from a backup, or "
        "load it again, first"
        for day, some in last.items()
        for entry in some
        if _rows(entry, day)
    }


def _rows(entry: Entry, day: date) -> int:
    return next((touched.rows for touched in entry.touched if touched.day == day), 0)
