"""`demo`: a real retail feed, and what was loaded of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import click

from incremental_assets.choices import no_such
from incremental_assets.cli.context import ledger_view, tables
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAY, DAYS, JSON_OBJECT, not_empty
from incremental_assets.cli.output import ERR, OUT, show_object
from incremental_assets.days import DayRange, day_range, parse_day
from incremental_assets.errors import DayError
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

SHARE = click.FloatRange(0, 1)
_LANDING = click.option(
    "--landing", callback=not_empty, help="Where to land; default INCREMENTAL_ASSETS_LANDING."
)
_SAMPLE = click.option(
    "--sample", type=SHARE, default=1.0, show_default=True, help="Share of households and products."
)


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
@_LANDING
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
@_SAMPLE
@click.option(
    "--broken-day",
    metavar="DAY",
    type=parse_day,
    help="On this day the tills of two stores send prices such as 1,99, and a gate holds it.",
)
@click.option(
    "--feed", "feeds", metavar="NAME", multiple=True, help="Land this feed alone; may be repeated."
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
    broken_day: date | None,
    feeds: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Land days of real grocery data, as a shop would.

    They are of the Complete Journey data set.
    """
    from incremental_assets.retail.feed import FEEDS, land

    for feed in feeds:
        if feed not in FEEDS:
            raise click.UsageError(no_such("feed", feed, FEEDS))
    wanted = [feed for feed in FEEDS if feed in feeds] if feeds else FEEDS
    days = day_range(first, last)
    where = _landing(landing)
    shares = (late, duplicate, bad, sample)
    summary = land(where, days.first, days.last, *shares, broken_day, wanted, progress=ERR.print)
    if not summary.written and not summary.left_alone:
        raise DayError(
            f"Nothing lands on {days}: the data set has the days {summary.span}, and their late "
            "rows and changes land a few days later. Land some of these days."
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


@demo.command("repair")
@DAY
@_LANDING
@_SAMPLE
@JSON_OBJECT
def demo_repair(day: date, landing: str | None, sample: float, *, as_json: bool) -> None:
    """Send a day's sales again, as working tills do.

    They replace the files that landed. Give the share of households and products with which the day
    was landed. The next run finds the changed files, replaces their rows and rebuilds what is built
    on them.
    """
    from incremental_assets.retail.feed import send_again

    where = _landing(landing)
    part = send_again(where, day, sample)
    if as_json:
        show_object({"landing": where, **asdict(part)})
        return
    OUT.print(
        f"{counted(part.rows, 'line')} of {day} were sent again to {where}, in "
        f"{counted(part.files, 'file')}. `incremental-assets run` loads them.",
        soft_wrap=True,
    )


def _landing(given: str | None) -> str:
    where = given or Settings.from_environment().landing
    return where if "://" in where else str(Path(where).absolute())


@demo.command("show")
@DAYS
@click.option("--by-day", is_flag=True, help="A row for each day of each table.")
@JSON_OBJECT
def demo_show(days: DayRange | None, *, by_day: bool, as_json: bool) -> None:
    """What was loaded, what is held, and what was sold.

    Loads by table, sales by day and product.
    """
    from incremental_assets.retail.feed import loaded
    from incremental_assets.retail.feed.show import show

    settings = Settings.from_environment()
    ledger_view(settings)
    if not as_json:
        show(settings, tables(), days, OUT, each_day=by_day)
        return
    each_day = loaded.loaded_days(settings, tables(), days)
    found: dict[str, Sequence[Any]] = {
        "loaded": each_day,
        "tables": loaded.by_table(settings, tables(), each_day),
        "held": loaded.held_days(settings, tables(), days),
    }
    show_object(
        {name: [asdict(each) for each in some] for name, some in found.items()}
        | {
            "revenue_by_day": loaded.revenue_by_day(settings, days).to_dicts(),
            "best_products": loaded.best_products(settings, days).to_dicts(),
        }
    )
