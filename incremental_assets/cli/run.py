"""`run`, which loads what is due, and `setup`, which prepares the machine."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from incremental_assets.cli.output import ERR, OUT
from incremental_assets.days import parse_days
from incremental_assets.settings import Settings


@click.command()
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@click.option("--days", "span", metavar="A...B", help="Only these days, both ends included.")
def run(names: tuple[str, ...], span: str | None) -> None:
    """Load whatever is new or stale, through Dagster runs: what a cron line needs.

    The runs go to the instance of DAGSTER_HOME (default ./.dagster). The exit status is 1 if a
    day is held by its gate or a run failed.
    """
    from incremental_assets.definitions import defs
    from incremental_assets.orchestration.runs import run_what_is_due

    days = parse_days(span) if span else None
    report = run_what_is_due(defs, Settings.from_environment(), names, days, datetime.now(UTC), OUT)
    if not report.runs and not report.held:
        OUT.print("Nothing is new or stale.")
    for line in report.held:
        ERR.print(f"[bold red]held[/] {line}", soft_wrap=True)
    for line in report.failed:
        ERR.print(f"[bold red]failed[/] {line}", soft_wrap=True)
    if report.held or report.failed:
        sys.exit(1)


@click.command()
def setup() -> None:
    """Resolve the jars into the project's cache and make Spark start fast. Safe to repeat."""
    from incremental_assets.spark.jars import resolve_jars
    from incremental_assets.spark.java import require_java
    from incremental_assets.spark.session import ARCHIVE
    from incremental_assets.warm_up import make_archive

    settings = Settings.from_environment()
    java = require_java(settings.java_home)
    with ERR.status("Resolving the Delta jars …"):
        jars = resolve_jars(settings.cache, settings.java_home)
    ERR.print(f"Java {java}, {len(jars)} jars in {jars[0].parent}")
    if not (settings.cache / ARCHIVE).exists():
        ERR.print("Preparing Spark's class archive (once, about a minute) …")
        make_archive(settings)
