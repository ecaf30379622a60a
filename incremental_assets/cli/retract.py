"""`retract`: takes files that should never have landed out of every table."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click
import polars as pl

from incremental_assets.cli.context import ledger_view, tables
from incremental_assets.cli.group import main
from incremental_assets.cli.options import JSON_OBJECT, REASON
from incremental_assets.cli.output import OUT, bad, show, show_object
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

_ROWS = {"table": pl.String, "file": pl.String, "day": pl.Date, "rows": pl.Int64}


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@REASON
@click.option("--dry-run", is_flag=True, help="Only list the rows of bronze that would go.")
@JSON_OBJECT
def retract(files: tuple[str, ...], reason: str, *, dry_run: bool, as_json: bool) -> None:
    """Remove the rows of files that should never have landed.

    What is built on them is rebuilt. A FILE is named as it landed, `<feed>/YYYY-MM-DD/…`, or by a
    path into the landing. Move it out of the landing first. A file that was retracted before
    changes nothing. It runs as the Dagster job `retract`. The exit status is 1 if a file was
    refused, a day held, or tables keep the rows until a hold ends: these are named.
    """
    from incremental_assets.operations.retract import retractions_of, rows_to_retract
    from incremental_assets.orchestration import jobs
    from incremental_assets.orchestration.incidents import run_retract

    settings = Settings.from_environment()
    view = ledger_view(settings)
    found = retractions_of(files, tables(), view, settings)
    rows = [asdict(each) for each in rows_to_retract(found, settings, view)]
    failed = ""
    if not dry_run:
        failed = run_retract(jobs.retract, settings, files, reason)
    elif not as_json:
        show(pl.DataFrame(rows, schema=_ROWS), "Would be retracted", as_json=False)
    if as_json:
        show_object({"files": files, "why": reason, "rows": rows, "failed": failed})
    if failed:
        bad("Error:", failed)
        sys.exit(1)
    if not (as_json or dry_run):
        names = ", ".join(each.table.name for each in found)
        rows_removed = sum(row["rows"] for row in rows)
        OUT.print(f"Retracted: {counted(rows_removed, 'row')} of {names}.", soft_wrap=True)
