"""Days that are to be built anew although nothing new came for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from incremental_assets.errors import DefinitionError
from incremental_assets.lake.strategy import ReplaceKeys
from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.derived import upstream_held
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.table import Table


def plan_restate(table: Table, days: Sequence[date], view: LedgerView, why: str) -> Plan:
    """The days of a table that can be built anew now, from all that its upstreams have of them.

    Raises DefinitionError for a table that is not built from others by day.
    """
    if table.layer == "bronze":
        raise DefinitionError(
            f"{table.name}: bronze keeps what landed; to load a file anew, put it right where it "
            "landed."
        )
    if isinstance(table.write, ReplaceKeys):
        raise DefinitionError(
            f"{table.name}: its rows belong to keys and not to days; they follow from the tables "
            "that it reads, so restate those."
        )
    history = view.table(table.name)
    refused: dict[date, str] = {}
    works: dict[date, DayWork] = {}
    for day in days:
        held = upstream_held(table, day, view)
        if held:
            refused[day] = held
        elif day not in history.last_committed:
            refused[day] = "it was never loaded, so there is nothing to restate; run it"
        else:
            windows = tuple(
                Window(
                    read.table.name,
                    history.watermark(read.table.name, day),
                    view.table(read.table.name).high,
                )
                for read in table.upstreams
            )
            rows = sum(e.rows_read for e in history.since_rebuilt(day))
            works[day] = DayWork(day, why, windows, rows=rows)
    return Plan((Work("rebuild", "restate", works),) if works else (), refused)
