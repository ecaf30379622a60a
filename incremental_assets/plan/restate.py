"""Days that are to be rebuilt although their upstreams have nothing new for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.entry import Mode
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.derived import upstream_held, windows_of
from incremental_assets.plan.lost_days import lost_days
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
    lost = lost_days(table, [d for d in days if d in history.last_committed], view, lake)
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
