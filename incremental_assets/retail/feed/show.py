"""The end of the demo on a terminal: what was loaded, what is held, and what was sold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import polars as pl
from rich.text import Text

from incremental_assets.days import ONE_DAY, DayRange, named
from incremental_assets.errors import SourceError
from incremental_assets.plurals import counted
from incremental_assets.retail.feed.loaded import (
    HeldDay,
    LoadedDay,
    LoadedTable,
    best_products,
    by_table,
    held_days,
    loaded_days,
    revenue_by_day,
)
from incremental_assets.screen import Screen, grid, labelled, printable
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_PROGRAM = ".venv/bin/incremental-assets"
SALES = "silver/sales"
_LONG, _SHORT = 20, 14  # characters of a bar
_OUTLIER = 3  # times the second largest; a larger value would flatten all other bars
_COUNTS = ("rows in", "rows out", "quarantined", "late")


def show(
    settings: Settings,
    tables: Sequence[Table],
    days: DayRange | None,
    out: Screen,
    *,
    each_day: bool = False,
) -> None:
    """Print the result in a line, then a row per table, or per day and table, and the details."""
    loaded = loaded_days(settings, tables, days)
    held = held_days(settings, tables, days)
    out.print(f"{_in_short(loaded, held)}\n", soft_wrap=True)
    if each_day:
        _show_days(loaded, out)
    else:
        _show_tables(by_table(settings, tables, loaded), loaded, out)
    _show_revenue(revenue_by_day(settings, days), held, out)
    _show_best(best_products(settings, days), out)
    for each in held:
        _show_held(each, out)
    _show_next(_next_week(settings, tables), out, each_day=each_day)


def _in_short(loaded: Sequence[LoadedDay], held: Sequence[HeldDay]) -> str:
    """All of it in one line; what lands is counted once, in bronze."""
    tables, days = ({getattr(each, name) for each in loaded} for name in ("table", "day"))
    landed = sum(each.rows_in for each in loaded if each.table.startswith("bronze/"))
    quarantined = sum(each.quarantined for each in loaded)
    parts = [
        counted(len(tables), "table"),
        counted(len(days), "day"),
        f"{counted(landed, 'row')} landed",
        f"{quarantined:,} in quarantine",
        f"{counted(len(held), 'day')} held" if held else "nothing held",
    ]
    return f"In short: {', '.join(parts)}."


def _show_tables(found: Sequence[LoadedTable], loaded: Sequence[LoadedDay], out: Screen) -> None:
    days = {each.day for each in loaded}
    seconds = sum(each.seconds for each in found)
    table = grid(f"What was loaded: {named(days) or 'no day'}, in {seconds:.0f} s")
    table.add_column("table", no_wrap=True)
    for name in _COUNTS:
        table.add_column(name, justify="right")
    table.add_column("state")
    for each in found:
        table.add_row(each.table, *_counts(each), _state_of_table(each))
    out.print(table)


def _show_days(loaded: Sequence[LoadedDay], out: Screen) -> None:
    table = grid("What was loaded, by day")
    table.add_column("day, table", no_wrap=True)
    for name in _COUNTS:
        table.add_column(name, justify="right")
    table.add_column("state")
    before: date | None = None
    for each in loaded:
        if before != each.day:
            table.add_row(Text(str(each.day), "bold"))
        table.add_row(f"  {each.table}", *_counts(each), _state_of_day(each))
        before = each.day
    out.print(table)


def _counts(each: LoadedDay | LoadedTable) -> list[str]:
    return [f"{number:,}" for number in (each.rows_in, each.rows_out, each.quarantined, each.late)]


def _state_of_table(each: LoadedTable) -> Text:
    if each.held:
        return Text(f"{counted(len(each.held), 'day')} held", "red")
    if each.waiting:
        waits = "waits" if len(each.waiting) == 1 else "wait"
        return Text(f"{counted(len(each.waiting), 'day')} {waits}", "yellow")
    return _ok(each)


def _state_of_day(each: LoadedDay) -> Text:
    return _ok(each) if each.state == "committed" else Text(printable(each.state), "red")


def _ok(each: LoadedDay | LoadedTable) -> Text:
    """`ok`, and why nothing came out where nothing did."""
    if each.rows_out:
        return Text("ok", "green")
    return Text("ok, no change" if each.rows_in else "ok, no rows", "green")


def _show_held(held: HeldDay, out: Screen) -> None:
    out.print()
    what = f"{held.table} {held.day}: {held.held_by}."
    out.print(labelled("Held:", "bold red", what))
    if held.waiting:
        out.print(f"Until then these wait: {', '.join(held.waiting)}.")
    out.print("Look at its rows:")
    _command(f"quarantine show {held.table} --day {held.day} --limit 3", out)
    if held.table == SALES:
        out.print("Publish the other rows of the day, or have the shop send the day again:")
        _command(f'gate accept {held.table} {held.day} --reason "two tills were broken"', out)
        _command(f"demo repair {held.day}", out)
    else:
        out.print("Repair its input, or publish the other rows of the day:")
        _command(f"gate accept {held.table} {held.day} --reason …", out)
    out.print("Then load it:")
    _command("run", out)


def _show_next(week: DayRange, out: Screen, *, each_day: bool) -> None:
    out.print("\nNext: `make dev` opens the UI; land more days, and load them:")
    _command(f"demo land --from {week.first} --to {week.last}", out)
    _command("run", out)
    if not each_day:
        out.print("Each day by itself:")
        _command("demo show --by-day", out)


def _command(words: str, out: Screen) -> None:
    out.print(Text(f"  {_PROGRAM} {words}", "bold"), soft_wrap=True)


def _next_week(settings: Settings, tables: Sequence[Table]) -> DayRange:
    """The seven days after the last one that has landed, or the first ones of the lake."""
    try:
        landed = {day for t in tables for day in t.landed_days(settings.landing) or ()}
    except SourceError:  # the landing is gone; what was loaded is shown anyway
        landed = set()
    first = max(landed) + ONE_DAY if landed else settings.start_date
    return DayRange(first, first + 6 * ONE_DAY)


def _show_revenue(revenue: pl.DataFrame, held: Sequence[HeldDay], out: Screen) -> None:
    """A bar for each day that gold has; a held one is named as such in its place."""
    if revenue.is_empty():
        return
    out.print()
    table = grid("Revenue by day")
    table.add_column("day", no_wrap=True)
    for name in ("revenue", "orders"):
        table.add_column(name, justify="right")
    table.add_column("")
    lengths = bars(revenue["revenue"].cast(pl.Float64), _LONG)
    rows = {
        row["day"]: (f"{row['revenue']:,.2f}", f"{row['orders']:,}", bar)
        for row, bar in zip(revenue.iter_rows(named=True), lengths, strict=True)
    }
    missing = {each.day: ("", "", f"{each.table} is held") for each in held}
    for day, row in sorted((missing | rows).items()):
        table.add_row(str(day), *row)
    out.print(table)


def _show_best(best: pl.DataFrame, out: Screen) -> None:
    if best.is_empty():
        return
    out.print()
    table = grid(f"The {len(best)} products with the most revenue")
    table.add_column("product", overflow="fold")
    for name in ("revenue", "units", "orders"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    lengths = bars(best["revenue"].cast(pl.Float64), _SHORT)
    for row, bar in zip(best.iter_rows(named=True), lengths, strict=True):
        revenue, units, orders = f"{row['revenue']:,.2f}", f"{row['units']:,}", f"{row['orders']:,}"
        table.add_row(row["product"], revenue, units, orders, bar)
    out.print(table)


def bars(values: Sequence[float] | pl.Series, length: int) -> list[str]:
    """A bar for each value. One that is far above all others is cut, with `»`, for their sake."""
    first, second = [*sorted(values, reverse=True), 0.0, 0.0][:2]
    top = second * _OUTLIER if 0 < second * _OUTLIER < first else first
    return [_bar(value, top, length) for value in values]


def _bar(value: float, top: float, length: int) -> str:
    if value > top:
        return "█" * (length - 2) + " »"
    return "█" * round(length * max(value, 0) / top) if top else ""
