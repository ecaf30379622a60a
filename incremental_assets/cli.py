"""The command line: `incremental-assets run`, `gate`, `quarantine`, `demo`, `setup`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click
import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from incremental_assets.catalog import table_named, tables
from incremental_assets.days import day_range, parse_day, parse_days
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.load import Lakehouse
    from incremental_assets.table import Table

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)


class _Group(click.Group):
    """Errors that the project raises on purpose are told in their own words, without a trace."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except IncrementalAssetsError as error:
            ERR.print(f"[bold red]Error:[/] {error}", soft_wrap=True)
            sys.exit(1)


@click.group(cls=_Group)
@click.version_option(package_name="incremental-assets")
def main() -> None:
    """Incremental loading on Spark and Delta Lake, day by day and exactly once."""


@main.command()
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


@main.command()
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


@main.group()
def gate() -> None:
    """The gates: what they held, and letting it through."""


@gate.command("accept")
@click.argument("name", metavar="TABLE")
@click.argument("day", metavar="DAY")
@click.option("--reason", required=True, help="Why; it stays on record with your name.")
def gate_accept(name: str, day: str, reason: str) -> None:
    """Let a day's held batch through, once: its rules on batches are waived.

    The next run of the day publishes it. Rows in quarantine stay there. If the input changes
    before, the day is judged anew.
    """
    from incremental_assets.accepting import accept

    table, house = _house(name)
    done = accept(house, table, parse_day(day), reason)
    days = ", ".join(map(str, done.days))
    OUT.print(
        f"{name} {days}: batch {done.batch} is accepted, which was held by "
        f"{', '.join(done.rules)}. `incremental-assets run {name}` loads it.",
        soft_wrap=True,
    )


@main.group()
def quarantine() -> None:
    """The rows that gates have set aside."""


_DAYS = click.option(
    "--days", "--day", "span", metavar="A...B", help="Only these days, both ends included."
)
_RULE = click.option("--rule", default="", help="Only rows with this reason, as the list says it.")
_JSON = click.option("--json", "as_json", is_flag=True, help="A JSON array instead of a table.")


@quarantine.command("list")
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@_DAYS
@_RULE
@_JSON
def quarantine_list(names: tuple[str, ...], span: str | None, rule: str, *, as_json: bool) -> None:
    """How many rows lie there, by table, day and reason."""
    from incremental_assets.quarantined import Asked, in_quarantine

    every = tables()
    chosen = [table_named(every, name) for name in names] or every
    asked = Asked(parse_days(span) if span else None, rule)
    _print(
        in_quarantine(Settings.from_environment(), chosen, asked), "In quarantine", as_json=as_json
    )


@quarantine.command("show")
@click.argument("name", metavar="TABLE")
@_DAYS
@_RULE
@click.option("--limit", default=20, show_default=True, help="At most so many rows.")
@_JSON
def quarantine_show(name: str, span: str | None, rule: str, limit: int, *, as_json: bool) -> None:
    """The rows themselves, as they landed, with all their reasons."""
    from incremental_assets.quarantined import Asked, set_aside

    asked = Asked(parse_days(span) if span else None, rule)
    rows = set_aside(Settings.from_environment(), table_named(tables(), name), asked)
    shown = rows.head(limit).rename({"_batch": "batch", "_day": "day", "_file": "file"})
    if not as_json:
        shown = shown.with_columns(pl.col("first_seen").dt.strftime("%Y-%m-%d %H:%M"))
    _print(shown.drop("_landing_day"), f"{len(rows)} rows of {name}", as_json=as_json)


@quarantine.command("replay")
@click.argument("name", metavar="TABLE")
@_DAYS
@_RULE
@_JSON
def quarantine_replay(name: str, span: str | None, rule: str, *, as_json: bool) -> None:
    """Send rows through today's rules and code; those that pass are merged like late data.

    What is built on the table is stale then: `incremental-assets run` brings it up to date. The
    exit status is 1 if a day was refused.
    """
    from incremental_assets.quarantined import Asked, set_aside

    table, house = _house(name)
    asked = Asked(parse_days(span) if span else None, rule)
    days = set_aside(house.settings, table, asked)["_day"].unique().sort().to_list()
    done = house.replay(table, days, rule)
    found = [
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
    _print(pl.DataFrame(found, schema=schema | more), f"Replayed to {name}", as_json=as_json)
    if done.failed:
        sys.exit(1)


@quarantine.command("drop")
@click.argument("name", metavar="TABLE")
@_DAYS
@_RULE
@click.option("--reason", required=True, help="Why; it stays on record with your name.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def quarantine_drop(name: str, span: str | None, rule: str, reason: str, *, yes: bool) -> None:
    """Take rows out of quarantine for good. Bronze keeps them as they landed."""
    from incremental_assets.quarantined import Asked, drop, set_aside

    table, house = _house(name)
    asked = Asked(parse_days(span) if span else None, rule)
    rows = set_aside(house.settings, table, asked)
    if rows.is_empty():
        OUT.print(f"No such rows of {name} are in quarantine.")
        return
    days = rows["_day"].n_unique()
    if not yes:
        click.confirm(f"Drop {len(rows)} rows of {name}, of {days} days?", abort=True)
    dropped = drop(house, table, asked, reason)
    OUT.print(
        f"{sum(dropped.values())} rows of {name} are dropped, of {len(dropped)} days.",
        soft_wrap=True,
    )


def _house(name: str) -> tuple[Table, Lakehouse]:
    """A table of the lake, and the lake, with an embedded or remote Spark once it is needed."""
    from incremental_assets.load import Lakehouse
    from incremental_assets.spark.session import start_session

    every, settings = tables(), Settings.from_environment()
    spark = cache(lambda: start_session(settings))
    house = Lakehouse(settings, every, spark, lambda: datetime.now(UTC), _say)
    return table_named(every, name), house


def _say(line: str) -> None:
    ERR.print(escape(line), soft_wrap=True)


def _print(rows: pl.DataFrame, title: str, *, as_json: bool) -> None:
    """Rows as a table for a person, or as JSON for a program."""
    if as_json:
        sys.stdout.write(rows.write_json() + "\n")
        return
    if rows.is_empty():
        OUT.print(f"{title}: nothing.")
        return
    grid = RichTable(title=title, header_style="bold")
    for column, kind in rows.schema.items():
        grid.add_column(column, justify="right" if kind.is_numeric() else "left", overflow="fold")
    for row in rows.iter_rows():
        grid.add_row(*(escape(", ".join(v) if isinstance(v, list) else str(v)) for v in row))
    OUT.print(grid)


@main.group()
def demo() -> None:
    """A real retail feed, and what became of it."""


@demo.command("land")
@click.option("--from", "first", required=True, metavar="DAY", help="First landing day.")
@click.option("--to", "last", required=True, metavar="DAY", help="Last landing day.")
@click.option("--landing", help="Where to land; default INCREMENTAL_ASSETS_LANDING.")
@click.option("--late", default=0.01, show_default=True, help="Share of rows that come late.")
@click.option("--duplicate", default=0.002, show_default=True, help="Share that comes twice.")
@click.option("--bad", default=0.001, show_default=True, help="Share of bad rows.")
@click.option("--sample", default=1.0, show_default=True, help="Share of households and products.")
def demo_land(
    first: str,
    last: str,
    landing: str | None,
    late: float,
    duplicate: float,
    bad: float,
    sample: float,
) -> None:
    """Land days of the Complete Journey grocery data as a shop would deliver them."""
    from incremental_assets.demo import land

    days = day_range(parse_day(first), parse_day(last))
    where = landing or Settings.from_environment().landing
    if "://" not in where:
        where = str(Path(where).absolute())
    summary = land(where, days.first, days.last, late, duplicate, bad, sample, progress=ERR.print)
    OUT.print(
        f"{len(summary.written)} parts of feeds landed in {where}, {len(summary.left_alone)} were "
        "there already.",
        soft_wrap=True,
    )


@demo.command("show")
@click.option("--days", "span", metavar="A...B", help="Only these days, both ends included.")
def demo_show(span: str | None) -> None:
    """What the loads did, per day and table, and the products that sold best."""
    from incremental_assets.demo.show import show

    show(Settings.from_environment(), tables(), parse_days(span) if span else None, OUT)


if __name__ == "__main__":
    main()
