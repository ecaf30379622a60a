"""`stale`: the days that have to be rebuilt, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

from incremental_assets.cli.context import ledger_view, tables, tables_named
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, NAMES
from incremental_assets.cli.output import OUT, show
from incremental_assets.days import DayRange, utc_today
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.ledger.view import LedgerView
    from incremental_assets.table import Table


@main.command()
@NAMES
@DAYS
@JSON
def stale(names: tuple[str, ...], days: DayRange | None, *, as_json: bool) -> None:
    """Which days have to be rebuilt, and why: their upstream has batches that they did not read.

    What waits for a day that a gate holds is not stale: such days are named below, with what to do.
    """
    from incremental_assets.plan import stale_days
    from incremental_assets.plan.consistent import require_all_consistent

    settings = Settings.from_environment()
    some, last = tables_named(names), utc_today(datetime.now(UTC))
    require_all_consistent(Ledger(ledger_path(settings.lake)), settings, some)
    view = ledger_view(settings)
    asked = days or DayRange(settings.start_date, last)
    found = [
        {"table": table.name, "day": day, "why": why}
        for table in some
        if table.upstreams
        for day, why in stale_days(table, view, settings.start_date, last).items()
        if day in asked
    ]
    schema = {"table": pl.String, "day": pl.Date, "why": pl.String}
    show(pl.DataFrame(found, schema=schema), "Stale", as_json=as_json)
    for line in () if as_json else _held(tables(), view, settings, asked):
        OUT.print(f"- {line}", soft_wrap=True)


def _held(
    lake: Sequence[Table], view: LedgerView, settings: Settings, asked: DayRange
) -> Iterator[str]:
    """Each held day, why it is held, what to do, and which tables wait for it."""
    from incremental_assets.plan.retract import gone_below
    from incremental_assets.plan.skipped import held_until

    for table in lake:
        history = view.table(table.name)
        for day, entry in sorted(history.held.items()):
            if day in asked and day not in history.accepted:
                since = f"is held since batch {entry.batch}: {entry.held_by}."
                gone = gone_below(table, day, view, settings)
                yield f"{table.name} {day} {since} {held_until(entry, table, lake, gone)}"
