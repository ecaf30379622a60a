"""`quarantine`: the rows that gates have quarantined."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import polars as pl

from incremental_assets.choices import no_such
from incremental_assets.cli.context import (
    lakehouse_and_table,
    ledger_view,
    table_named,
    tables_named,
)
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, NAME, NAMES, REASON, RULE, YES, limit_option
from incremental_assets.cli.output import OUT, log, show
from incremental_assets.days import DayRange
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.table import Table


@main.group()
def quarantine() -> None:
    """The rows that gates have quarantined."""


@quarantine.command("list")
@NAMES
@DAYS
@RULE
@JSON
def quarantine_list(
    names: tuple[str, ...], days: DayRange | None, rule: str | None, *, as_json: bool
) -> None:
    """How many rows are in quarantine, by table, day and reason."""
    from incremental_assets.operations.quarantined import QuarantineFilter, in_quarantine

    settings, which = Settings.from_environment(), QuarantineFilter(days, rule or "")
    ledger_view(settings)
    found = in_quarantine(settings, tables_named(names), which)
    show(found, "In quarantine", as_json=as_json, can_lack=("first_batch", "last_batch"))
    if rule and found.is_empty():
        _note_reasons(settings, tables_named(names), days, rule)


@quarantine.command("show")
@NAME
@DAYS
@RULE
@limit_option(20)
@JSON
def quarantine_show(
    name: str, days: DayRange | None, rule: str | None, limit: int, *, as_json: bool
) -> None:
    """The rows themselves, as they landed, with all their reasons."""
    from incremental_assets.operations.quarantined import QuarantineFilter, quarantined_rows

    settings, which = Settings.from_environment(), QuarantineFilter(days, rule or "")
    ledger_view(settings)
    rows = quarantined_rows(settings, table_named(name), which)
    shown = rows[: limit or None].rename({"_batch": "batch", "_day": "day", "_file": "file"})
    if not as_json:
        shown = shown.with_columns(pl.col("first_seen").dt.strftime("%Y-%m-%d %H:%M"))
    show(shown.drop("_landing_day"), f"{counted(len(rows), 'row')} of {name}", as_json=as_json)
    if rule and rows.is_empty():
        _note_reasons(settings, tables_named((name,)), days, rule)


def _note_reasons(
    settings: Settings, chosen: Sequence[Table], days: DayRange | None, rule: str
) -> None:
    """Name the reason that was meant, where rows are in quarantine for others."""
    from incremental_assets.operations.quarantined import QuarantineFilter, in_quarantine

    others = in_quarantine(settings, chosen, QuarantineFilter(days, ""))["reason"].unique().sort()
    if len(others):
        log(f"- {no_such('row with the reason', rule, others.to_list())}")


@quarantine.command("replay")
@NAME
@DAYS
@RULE
@JSON
def quarantine_replay(name: str, days: DayRange | None, rule: str | None, *, as_json: bool) -> None:
    """Send rows through today's rules and code.

    Those that pass are merged like late data. What is built on the table is then stale:
    `incremental-assets run` brings it up to date. The exit status is 1 if a day was refused.
    """
    from incremental_assets.operations.quarantined import QuarantineFilter, days_in_quarantine

    table, lakehouse = lakehouse_and_table(name)
    which = QuarantineFilter(days, rule or "")
    found = days_in_quarantine(lakehouse.settings, table, which)
    done = lakehouse.replay(table, list(found), which.reason)
    replayed = [
        {
            "day": day,
            "state": result.state,
            "tried": int(result.checks["replayed"].threshold) if result.checks else 0,
            "passed": int(result.checks["replayed"].value) if result.checks else 0,
            "in_quarantine": sum(entry.rows_quarantined for entry in result.entries),
            "why": result.reason,
        }
        for day, result in done.days.items()
    ]
    schema = {"day": pl.Date, "state": pl.String, "tried": pl.Int64, "passed": pl.Int64}
    more = {"in_quarantine": pl.Int64, "why": pl.String}
    show(pl.DataFrame(replayed, schema=schema | more), f"Replayed to {name}", as_json=as_json)
    if done.failed:
        sys.exit(1)


@quarantine.command("drop")
@NAME
@DAYS
@RULE
@REASON
@YES
@JSON
def quarantine_drop(
    name: str, days: DayRange | None, rule: str | None, reason: str, *, yes: bool, as_json: bool
) -> None:
    """Drop rows from quarantine for good. Bronze keeps them as they landed."""
    from incremental_assets.operations.quarantined import QuarantineFilter, days_in_quarantine, drop

    table, lakehouse = lakehouse_and_table(name)
    which = QuarantineFilter(days, rule or "")
    found = days_in_quarantine(lakehouse.settings, table, which)
    if not found and not as_json:
        OUT.print(f"No such rows of {name} are in quarantine.")
        return
    if not yes and found:
        rows_of_days = f"{counted(sum(found.values()), 'row')} of {name}"
        what = f"Drop {rows_of_days}, of {counted(len(found), 'day')}?"
        click.confirm(what, abort=True, err=as_json)
    dropped = drop(lakehouse, table, which, reason)
    if as_json:
        rows = [{"table": name, "day": day, "rows": count} for day, count in dropped.items()]
        schema = {"table": pl.String, "day": pl.Date, "rows": pl.Int64}
        show(pl.DataFrame(rows, schema=schema), "Dropped", as_json=True)
        return
    OUT.print(
        f"Dropped {counted(sum(dropped.values()), 'row')} of {name}, of "
        f"{counted(len(dropped), 'day')}.",
        soft_wrap=True,
    )
