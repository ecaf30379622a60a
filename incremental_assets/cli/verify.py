"""`verify`: a table compared with its rebuild from bronze."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import polars as pl
from rich.text import Text

from incremental_assets.cli.context import lakehouse_and_table
from incremental_assets.cli.group import main
from incremental_assets.cli.interrupts import was_interrupted
from incremental_assets.cli.options import DAYS, NAME, not_empty
from incremental_assets.cli.output import OUT, bad, show, write
from incremental_assets.days import DayRange, contiguous
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.locations import table_location
from incremental_assets.plurals import counted
from incremental_assets.screen import labelled

if TYPE_CHECKING:
    from incremental_assets.verifying import Compared, Verified

_NOT_DONE = 2
_MOST_DAYS = 31
"""Of more days, only those are shown that differ."""


@main.command()
@NAME
@DAYS
@click.option(
    "--scratch",
    metavar="DIR",
    callback=not_empty,
    help="Folder for the rebuild, removed afterwards; default the lake.",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object instead of tables.")
def verify(name: str, days: DayRange | None, scratch: str | None, *, as_json: bool) -> None:
    """Compare a table with a rebuild from bronze, row by row.

    It is rebuilt in a scratch lake; nothing in the lake is changed. Days that are stale or held are
    named and left out. The exit status is 0 if all that was compared is equal, 1 if anything
    differs, and 2 if nothing could be compared.
    """
    try:
        found = _verified(name, days, scratch)
        if as_json:
            write(json.dumps(_plain(found), default=str))
        else:
            _show(found)
    except IncrementalAssetsError as error:
        if was_interrupted():
            raise
        bad("Error:", str(error))
        sys.exit(_NOT_DONE)  # 1 would mean that rows differ
    if not found.rebuilt:
        sys.exit(_NOT_DONE)
    if not found.equal:
        sys.exit(1)


def _verified(name: str, days: DayRange | None, scratch: str | None) -> Verified:
    from incremental_assets.verifying import verify as verified

    folder = table_location("--scratch", scratch) if scratch else None
    table, lakehouse = lakehouse_and_table(name)
    return verified(lakehouse, table, days, folder)


def _plain(found: Verified) -> dict[str, object]:
    """What was found, for a program."""
    left_out = [{"day": day, "why": why} for day, why in found.left_out.items()]
    return asdict(found) | {"equal": found.equal, "left_out": left_out}


def _show(found: Verified) -> None:
    for compared, what in ((found.rows, found.table), (found.quarantine, "its quarantine")):
        if compared.days:
            _show_compared(compared, what)
    for days in contiguous(found.left_out):
        OUT.print(f"not compared: {days}: {found.left_out[days.first]}", soft_wrap=True)
    for note in found.notes:
        OUT.print(f"note: {note}", soft_wrap=True)
    OUT.print(_verdict(found), soft_wrap=True)


def _show_compared(compared: Compared, what: str) -> None:
    rows = [
        {
            "day": day.day,
            "rows": day.compared,
            "missing": day.missing,
            "extra": day.extra,
            "different": day.different,
        }
        for day in compared.days
        if day.differences or len(compared.days) <= _MOST_DAYS
    ]
    counts = dict.fromkeys(("rows", "missing", "extra", "different"), pl.Int64)
    title = f"{what}, by day" if len(rows) == len(compared.days) else f"{what}, days that differ"
    if rows:
        show(pl.DataFrame(rows, schema={"day": pl.Date, **counts}), title, as_json=False)
    if compared.columns:
        schema = {"column": pl.String, "rows that differ": pl.Int64}
        columns = pl.DataFrame(list(compared.columns.items()), schema=schema, orient="row")
        show(columns, f"{what}, by column", as_json=False)
    for example in compared.examples:
        OUT.print(f"for example {example}", soft_wrap=True)


def _verdict(found: Verified) -> Text:
    quarantined = f", {found.quarantine.rows:,} in quarantine" if found.quarantine.days else ""
    what = f"{found.table} at version {found.version} (batch {found.batch})"
    done = f"{counted(found.rows.rows, 'row')}{quarantined} in {found.seconds:.0f} s"
    if not found.rebuilt:
        verdict = f"of {what}: no day of it can be rebuilt."
        return labelled("Nothing was compared", "bold yellow", verdict)
    if found.equal:
        verdict = f"{what} is what a full rebuild makes of it; {done}."
        return labelled("Equal:", "bold green", verdict)
    differ = f"{counted(found.differences, 'row')} of {what}"
    differ += " differs" if found.differences == 1 else " differ"
    verdict = f"{differ} from a full rebuild; {done}."
    return labelled("Different:", "bold red", verdict)
