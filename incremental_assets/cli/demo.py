"""`demo`: a real retail feed, and what became of it."""

from __future__ import annotations

from pathlib import Path

import click

from incremental_assets.catalog import tables
from incremental_assets.cli.output import ERR, OUT
from incremental_assets.days import day_range, parse_day, parse_days
from incremental_assets.settings import Settings


@click.group()
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
