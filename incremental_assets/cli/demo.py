"""`demo`: a real retail feed, and what was loaded of it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from pathlib import Path

import click

from incremental_assets.cli.context import ledger_view, tables
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON_OBJECT, not_empty
from incremental_assets.cli.output import ERR, OUT, show_object
from incremental_assets.days import DayRange, day_range, parse_day
from incremental_assets.errors import DayError
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

SHARE = click.FloatRange(0, 1)


@main.group()
def demo() -> None:
    """A real retail feed, and what was loaded of it."""


@demo.command("land")
@click.option(
    "--from", "first", required=True, metavar="DAY", type=parse_day, help="First landing day."
)
@click.option(
    "--to", "last", required=True, metavar="DAY", type=parse_day, help="Last landing day."
)
@click.option(
    "--landing", callback=not_empty, help="Where to land; default INCREMENTAL_ASSETS_LANDING."
)
@click.option(
    "--late", type=SHARE, default=0.01, show_default=True, help="Share of rows that land late."
)
@click.option(
    "--duplicate",
    type=SHARE,
    default=0.002,
    show_default=True,
    help="Share of rows that land twice.",
)
@click.option("--bad", type=SHARE, default=0.001, show_default=True, help="Share of bad rows.")
@click.option(
    "--sample", type=SHARE, default=1.0, show_default=True, help="Share of households and products."
)
@JSON_OBJECT
def demo_land(
    first: date,
    last: date,
    landing: str | None,
    late: float,
    duplicate: float,
    bad: float,
    sample: float,
    *,
    as_json: bool,
) -> None:
    """Land days of the Complete Journey grocery data as a shop would deliver them."""
    from incremental_assets.retail.feed import land

    days = day_range(first, last)
    where = landing or Settings.from_environment().landing
    if "://" not in where:
        where = str(Path(where).absolute())
    summary = land(where, days.first, days.last, late, duplicate, bad, sample, progress=ERR.print)
    if not summary.written and not summary.left_alone:
        raise DayError(
            f"Nothing lands on {days}: the data set has the days {summary.span}, and what is late "
            "or changes of them lands a few days later. Land some of these."
        )
    if as_json:
        parts = [asdict(part) for part in summary.parts]
        show_object({"landing": where, "parts": parts})
        return
    OUT.print(
        f"{counted(len(summary.written), 'part')} of feeds landed in {where}; "
        f"{len(summary.left_alone)} existed already.",
        soft_wrap=True,
    )


@demo.command("show")
@DAYS
@JSON_OBJECT
def demo_show(days: DayRange | None, *, as_json: bool) -> None:
    """What the loads did, per day and table, and the products that sold best."""
    from incremental_assets.retail.feed.show import best_products, loaded_days, show

    settings = Settings.from_environment()
    ledger_view(settings)
    if as_json:
        loaded = [asdict(each) for each in loaded_days(settings, tables(), days)]
        best = best_products(settings, days).to_dicts()
        show_object({"loaded": loaded, "best_products": best})
    else:
        show(settings, tables(), days, OUT)
