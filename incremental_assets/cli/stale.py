"""`stale`: the days that have to be rebuilt, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from incremental_assets.cli.context import ledger_view, tables, tables_named
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, NAMES
from incremental_assets.cli.output import OUT, show
from incremental_assets.days import DayRange, utc_today
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.ledger.entry import Entry
    from incremental_assets.ledger.view import LedgerView
    from incremental_assets.table import Table


@main.command()
@NAMES
@DAYS
@click.option("--held", is_flag=True, help="A row also for each day that a gate holds.")
@JSON
def stale(names: tuple[str, ...], days: DayRange | None, *, held: bool, as_json: bool) -> None:
    """Which days have to be rebuilt, and why.

    Their upstream has batches that they did not read. What waits for a day that a gate holds is not
    stale: such days are named below, with what to do. With --held they are rows like the others,
    and each row has its state, `stale` or `held`; with --json also the tables that wait for it.
    """
    from incremental_assets.plan import stale_days
    from incremental_assets.plan.consistent import require_all_consistent

    settings = Settings.from_environment()
    some, last = tables_named(names), utc_today(datetime.now(UTC))
    require_all_consistent(Ledger(ledger_path(settings.lake)), settings, some)
    view = ledger_view(settings)
    asked = days or DayRange(settings.start_date, last)
    found = [
        {"table": table.name, "day": day, "why": why, "state": "stale", "waiting": []}
        for table in some
        if table.upstreams
        for day, why in stale_days(table, view, settings.start_date, last).items()
        if day in asked
    ]
    schema: dict[str, Any] = {"table": pl.String, "day": pl.Date, "why": pl.String}
    if held:
        found += [_held_row(table, entry) for table, entry in _held(view, asked)]
        schema |= {"state": pl.String}
        schema |= {"waiting": pl.List(pl.String)} if as_json else {}  # the lines below have them
    title = "Stale or held" if held else "Stale"
    show(pl.DataFrame(found, schema=schema), title, as_json=as_json)
    for table, entry in () if as_json else _held(view, asked):
        OUT.print(f"- {_in_words(table, entry, view, settings)}", soft_wrap=True)


def _held(view: LedgerView, asked: DayRange) -> Iterator[tuple[Table, Entry]]:
    """The last batch of each day that a gate holds and nobody accepted, of all tables."""
    for table in tables():
        history = view.table(table.name)
        for day, entry in sorted(history.held.items()):
            if day in asked and day not in history.accepted:
                yield table, entry


def _held_row(table: Table, entry: Entry) -> dict[str, Any]:
    from incremental_assets.plan.due import with_downstream

    return {
        "table": table.name,
        "day": entry.day,
        "why": entry.held_by,
        "state": "held",
        "waiting": [other.name for other in with_downstream(table, tables())[1:]],
    }


def _in_words(table: Table, entry: Entry, view: LedgerView, settings: Settings) -> str:
    """Why a day is held, what to do, and which tables wait for it."""
    from incremental_assets.plan.retract import missing_below
    from incremental_assets.plan.skipped import held_until

    since = f"is held since batch {entry.batch}: {entry.held_by}."
    missing = missing_below(table, entry.day, view, settings)
    return f"{table.name} {entry.day} {since} {held_until(entry, table, tables(), missing)}"
