"""`run`: loads what is due."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from incremental_assets.cli.context import open_lakehouse, table_named, tables, tables_named
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON_OBJECT, NAMES, require_partitions
from incremental_assets.cli.output import ERR, OUT, bad, log, show_object
from incremental_assets.days import DayRange
from incremental_assets.screen import labelled
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.ledger.entry import Entry
    from incremental_assets.operations.run_report import RunReport
    from incremental_assets.plan.due import Due

_NAMED = 3
NOTHING_DUE = "Nothing is new or stale."


@main.command()
@NAMES
@DAYS
@click.option("--held-ok", is_flag=True, help="Exit status 0 also if gates hold days.")
@click.option(
    "--no-dagster",
    is_flag=True,
    help="Load in this process; Dagster is not imported, and its UI shows nothing of it.",
)
@JSON_OBJECT
def run(
    names: tuple[str, ...],
    days: DayRange | None,
    *,
    held_ok: bool,
    no_dagster: bool,
    as_json: bool,
) -> None:
    """Load whatever is new or stale: what a cron line needs.

    It does what `plan` lists. The runs go to the instance of DAGSTER_HOME (default ./.dagster), or
    with --no-dagster to the lake's ledger alone.
    The exit status is 1 if a run failed, a source cannot be inspected (the other tables are loaded
    then), a gate has held a day, or something that was run is still due; 3 if nothing is wrong but
    days that were held before. What landed meanwhile is named, and left to the next run. What lies
    in the landing root and no table reads is named, too.
    """
    settings = Settings.from_environment()
    require_partitions(days, settings)
    from incremental_assets.plan.unread import unread

    console = ERR if as_json else OUT

    def announce(due: Due) -> None:
        what = tables_in_brief([table.name for table in due.tables], len(tables()))
        console.print(labelled(f"{due.days}:", "bold", what), soft_wrap=True)

    if no_dagster:
        from incremental_assets.operations.load_due import run_in_this_process

        report = run_in_this_process(open_lakehouse(), tables_named(names), days, announce)
    else:
        from incremental_assets.orchestration.jobs import load_days
        from incremental_assets.orchestration.runs import run_what_is_due

        report = run_what_is_due(
            load_days, settings, names, days, lambda: datetime.now(UTC), announce, log
        )
    if as_json:
        show_object(_as_json(report))
    elif not (report.runs or report.held or report.failed):
        OUT.print(NOTHING_DUE)
    for note in unread(tables(), settings):
        ERR.print(f"- {note}", soft_wrap=True)
    _show_what_failed(report, settings)
    for each in report.left:
        if each.came_later:
            ERR.print(f"{_due(each.due)}. It landed during this run: run again", soft_wrap=True)
    sys.exit(0 if held_ok and report.only_held else report.status)


def _show_what_failed(report: RunReport, settings: Settings) -> None:
    if report.held:
        _show_held(report.held, settings)
    for line in report.failed:
        if not (report.held and line in report.by_gates):  # shown above, with the remedy
            bad("failed", line)
    for due in report.in_vain:
        bad(
            "left", f"{_due(due)}. It was run and is still due: read that run's log, then run again"
        )


def tables_in_brief(names: Sequence[str], of: int) -> str:
    """Tables in a line, of a lake with so many; of many the first ones."""
    if len(names) == of > 1:
        return f"all {of} tables"
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMED])} and {more} more"


def _due(due: Due) -> str:
    return f"{due.tables[0].name} {due.days}: {due.why}"


def _show_held(held: Sequence[Entry], settings: Settings) -> None:
    from incremental_assets.ledger.ledger import Ledger, ledger_path
    from incremental_assets.plan.retract import missing_below
    from incremental_assets.plan.skipped import held_remedy

    view = Ledger(ledger_path(settings.lake)).view_if_any()
    for entry in held:
        missing = missing_below(table_named(entry.table), entry.day, view, settings)
        by = f"{entry.table} {entry.day} by batch {entry.batch}: {entry.held_by}"
        bad("held", f"{by}. {held_remedy(entry, missing)}")


def _as_json(report: RunReport) -> dict[str, Any]:
    """The report for a program."""
    return {
        "runs": [
            {
                "run_id": ran.run_id,
                "first_day": ran.due.days.first,
                "last_day": ran.due.days.last,
                "tables": [table.name for table in ran.due.tables],
                "why": ran.due.why,
                "success": ran.success,
            }
            for ran in report.runs
        ],
        "loaded": [
            {
                "table": entry.table,
                "batch": entry.batch,
                "day": entry.day,
                "state": entry.state,
                "mode": entry.mode,
                "read": entry.rows_read,
                "quarantined": entry.rows_quarantined,
                "bytes": entry.bytes,
                "seconds": entry.seconds,
                "why": entry.why,
                "run_id": entry.run_id,
            }
            for entry in report.loaded
        ],
        "failed": report.failed,
        "left": [
            {
                "table": each.due.tables[0].name,
                "first_day": each.due.days.first,
                "last_day": each.due.days.last,
                "why": each.due.why,
                "came_later": each.came_later,
            }
            for each in report.left
        ],
        "held": [
            {"table": e.table, "day": e.day, "batch": e.batch, "why": e.held_by}
            for e in report.held
        ],
    }
