"""`run`, which loads what is due, and `setup`, which prepares the machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from incremental_assets.catalog import table_named, tables
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON_OBJECT, asked_days
from incremental_assets.cli.output import ERR, OUT, bad, log, show_object
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.retract import gone_below
from incremental_assets.plan.skipped import held_remedy
from incremental_assets.plan.unread import unread
from incremental_assets.plurals import counted
from incremental_assets.screen import labelled
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.orchestration.runs import RunReport
    from incremental_assets.plan.due import Due

_NAMED = 3
NOTHING_DUE = "Nothing is new or stale."


@main.command()
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@DAYS
@JSON_OBJECT
def run(names: tuple[str, ...], span: str | None, *, as_json: bool) -> None:
    """Load whatever is new or stale, through Dagster runs: what a cron line needs.

    It does what `plan` lists. The runs go to the instance of DAGSTER_HOME (default ./.dagster).
    The exit status is 1 if a run failed, a gate has held a day, or something that was run is still
    due; 3 if nothing is wrong but days that were held before. What landed meanwhile is named, and
    left to the next run.
    """
    days = asked_days(span)
    from incremental_assets.orchestration.jobs import load_days
    from incremental_assets.orchestration.runs import run_what_is_due

    console = ERR if as_json else OUT

    def announce(due: Due) -> None:
        what = tables_in_brief([table.name for table in due.tables], len(tables()))
        console.print(labelled(f"{due.days}:", "bold", what), soft_wrap=True)

    settings, now = Settings.from_environment(), datetime.now(UTC)
    report = run_what_is_due(load_days, settings, names, days, now, announce, log)
    if as_json:
        show_object(_as_json(report))
    elif not report.runs and not report.held:
        OUT.print(NOTHING_DUE)
    for note in () if report.runs else unread(tables(), settings):
        ERR.print(f"- {note}", soft_wrap=True)
    _show_what_failed(report, settings)
    for each in report.left:
        if each.came_later:
            ERR.print(f"{_due(each.due)}. It landed during this run: run again", soft_wrap=True)
    sys.exit(report.status)


def _show_what_failed(report: RunReport, settings: Settings) -> None:
    view = Ledger(ledger_path(settings.lake)).view_if_any() if report.held else LedgerView(None)
    for entry in report.held:
        gone = gone_below(table_named(tables(), entry.table), entry.day, view, settings)
        bad("held", f"{_held(entry)}. {held_remedy(entry, gone)}")
    for line in report.failed:
        if not (report.held and line in report.by_gates):  # said above, with the remedy
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


def _held(entry: Entry) -> str:
    return f"{entry.table} {entry.day} by batch {entry.batch}: {entry.held_by}"


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


@main.command()
@JSON_OBJECT
def setup(*, as_json: bool) -> None:
    """Download the jars of Delta into the cache and make Spark start fast. Safe to repeat."""
    from incremental_assets.spark.jars import resolve_jars
    from incremental_assets.spark.java import require_java
    from incremental_assets.spark.session import archive_path
    from incremental_assets.warm_up import make_archive

    settings = Settings.from_environment()
    java = require_java(settings.java_home)
    with ERR.status("Resolving the Delta jars …"):
        jars = resolve_jars(settings.cache, settings.java_home)
    ERR.print(f"Java {java}, {counted(len(jars), 'jar')} in {jars[0].parent}")
    if not archive_path(settings).exists():
        ERR.print("Preparing Spark's class archive (once, about a minute) …")
        make_archive(settings)
    if as_json:
        show_object({"java": java, "jars": [str(jar) for jar in jars]})
