"""Of which days the rows in quarantine can be replayed now, and how the good ones are written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.entry import Mode, Window
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.lost_days import nothing_loaded
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.table import Table


def plan_replay(table: Table, days: Sequence[date], view: LedgerView) -> Plan:
    """The days of a typed table whose rows in quarantine can be replayed.

    Nothing new is read: the windows end where the day was read to. Raises DefinitionError for a
    table whose rows do not come from bronze.
    """
    if not table.is_typed:
        raise DefinitionError(
            f"{table.name}: only rows that a silver table typed are replayed. Repair what bronze "
            "quarantined at its source, and load it again."
        )
    refused: dict[date, str] = {}
    works: dict[date, DayWork] = {}
    history = view.table(table.name)
    read = {each.table.name for each in table.same_days}
    nothing = nothing_loaded(table, view)
    for day in days:
        held, last = history.held.get(day), history.last_committed.get(day)
        if held is not None:
            refused[day] = (
                f"it is held since batch {held.batch}: {held.held_by}. Repair its input, or accept "
                "it, and run it; then replay"
            )
        elif last is None:
            refused[day] = "it was never loaded"
        elif day in history.rewound:
            refused[day] = "it was rewound; run it, which judges it again"
        elif nothing:
            refused[day] = nothing
        elif any(
            entry.replaces_rows
            for window in last.windows
            if window.upstream in read
            for entry in view.table(window.upstream).changes(day, window.high)
        ):
            refused[day] = "its input was repaired since; run it, which judges all of it again"
        else:
            windows = tuple(Window(w.upstream, w.high, w.high) for w in last.windows)
            works[day] = DayWork(day, "rows in quarantine", windows, rows=last.rows_read)
    mode: Mode = "append" if table.write.appends else "merge"
    return Plan((Work(mode, "replay", works),) if works else (), refused)
