"""The page of the reports: one HTML file in the lake, which needs no other file and no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from incremental_assets.days import ONE_DAY, DayRange, named
from incremental_assets.locations import local_path
from incremental_assets.plurals import counted
from incremental_assets.retail.feed.loaded import HeldDay
from incremental_assets.retail.gold.daily_product_sales import DAILY_PRODUCT_SALES
from incremental_assets.retail.gold.sales_mart import SALES_MART
from incremental_assets.retail.reports.charts import DARK, LIGHT, STYLE, clean
from incremental_assets.retail.reports.figures import HELD, WAITS
from incremental_assets.retail.reports.pictures import health_pictures, sales_pictures
from incremental_assets.settings import Settings
from incremental_assets.storage import write_file
from incremental_assets.table_names import LAYERS

DAYS_SHOWN = 31
_MOST_HELD = 5
_NAME = "reports/index.html"
_CSS = (
    f":root{{color-scheme:light dark;{LIGHT};--page:#f6f8fa}}"
    f"@media(prefers-color-scheme:dark){{:root{{{DARK};--page:#0d1117}}}}"
    "*{box-sizing:border-box}"
    "body{margin:0;padding:1.5rem clamp(.75rem,3vw,3rem);background:var(--page);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
    "main{max-width:86rem;margin:auto}"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .75rem}"
    "p{margin:.25rem 0}.soft{color:var(--soft)}.bad{color:var(--c5);font-weight:600}"
    ".tiles,.charts{display:grid;gap:.75rem;margin:.75rem 0}"
    ".tiles{grid-template-columns:repeat(auto-fit,minmax(8.75rem,1fr))}"
    ".charts{grid-template-columns:repeat(auto-fit,minmax(min(100%,32rem),1fr))}"
    ".card{background:var(--paper);border:1px solid var(--grid);border-radius:8px;padding:.75rem}"
    ".tile b{display:block;font-size:1.5rem;font-weight:600;line-height:1.3}"
    ".card svg{display:block;width:100%;height:auto}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.875rem}"
    "th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap}"
    "th,td{border-bottom:1px solid var(--grid)}"
    "th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left}"
    "details{margin:.75rem 0}summary{cursor:pointer}" + STYLE
)
# Nothing may be fetched, and nothing may run, whatever the data hold.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page_path(settings: Settings) -> str:
    return f"{settings.lake}/{_NAME}"


def days_shown(last: date) -> DayRange:
    """The days that pictures show, up to a last one."""
    return DayRange(last - (DAYS_SHOWN - 1) * ONE_DAY, last)


def write_page(settings: Settings, html: str) -> str:
    """Write the page in one piece, in place of the one before. Gives its path or URI."""
    path = page_path(settings)
    local = local_path(path)
    if local is not None:
        local.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, html.encode(), "text/html; charset=utf-8")
    return path


def page(sales: pl.DataFrame, health: pl.DataFrame, held: Sequence[HeldDay], now: datetime) -> str:
    """The page of the days of both reports, which may have no rows."""
    days = sorted({*sales["dt"], *health["dt"]})
    span = DayRange(days[0], days[-1]) if days else None
    said = f"{span or 'No day was reported yet'}; written {now:%Y-%m-%d %H:%M} UTC."
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>Sales and pipeline health</title><style>{_CSS}</style></head><body><main>",
        "<h1>Sales and pipeline health</h1>",
        f'<p class="soft">{clean(said)}</p>',
    ]
    if span is not None:
        waits = {e.day: e for e in held if DAILY_PRODUCT_SALES.name in (e.table, *e.waiting)}
        parts += [
            *_held(held),
            "<h2>Sales</h2>",
            *_sales_tiles(sales),
            *_charts(sales_pictures(sales, span, waits)),
            *_sales_table(sales),
            "<h2>Pipeline health</h2>",
            *_health_tiles(health),
            *_charts(health_pictures(health, span)),
            *_health_table(health),
        ]
    return "\n".join([*parts, "</main></body></html>\n"])


def _held(held: Sequence[HeldDay]) -> Iterator[str]:
    for each in held[:_MOST_HELD]:
        what = f"{each.table} {each.day}: {each.held_by}."
        if each.waiting:
            what += f" Until then these wait: {', '.join(each.waiting)}."
        yield f'<p class="card"><span class="bad">Held:</span> {clean(what)}</p>'
    if len(held) > _MOST_HELD:
        yield f'<p class="card">… and {counted(len(held) - _MOST_HELD, "more held day")}.</p>'


def _charts(pictures: Mapping[str, str]) -> Iterator[str]:
    yield '<div class="charts">'
    yield from (f'<div class="card">{svg}</div>' for svg in pictures.values())
    yield "</div>"


def _sales_tiles(sales: pl.DataFrame) -> Iterator[str]:
    if sales.is_empty():
        yield '<p class="soft">No day has rows in gold/daily_product_sales.</p>'
        return
    by_day = {row["dt"]: row for row in sales.iter_rows(named=True)}
    last = max(by_day)
    before = by_day.get(last - timedelta(days=7))
    tiles = [
        (
            f"Revenue of {last}",
            _cell(by_day[last]["revenue"]),
            _change(by_day[last], before),
        ),
        ("Orders", _cell(by_day[last]["orders"]), f"{_cell(by_day[last]['units'])} units"),
        (
            "Products sold",
            _cell(by_day[last]["products"]),
            f"in {counted(by_day[last]['stores'], 'store')}",
        ),
        ("Late rows", _cell(int(sales["rows_late"].sum())), "of all these days, landed later"),
    ]
    yield from _tiles(tiles)


def _change(day: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """By how much a day's revenue differs from that of the same weekday before."""
    if before is None or not before["revenue"]:
        return "no week before to compare"
    return f"{float(day['revenue'] / before['revenue'] - 1):+.1%} on the week before"


def _health_tiles(health: pl.DataFrame) -> Iterator[str]:
    held, waits = (health.filter(pl.col("state") == state) for state in (HELD, WAITS))
    seconds = round(float(health["seconds"].sum()), 1)
    rejected = int(health["rows_quarantined"].sum())
    differing = _differing(health)
    counts = f"{DAILY_PRODUCT_SALES.name} counts each sale of {SALES_MART.name}"
    yield from _tiles(
        [
            (
                "Held by a gate",
                counted(len(held), "day"),
                f"{counted(len(waits), 'day of a table', 'days of tables')} wait",
            ),
            ("In quarantine", counted(rejected, "row"), "of these days, now"),
            ("Loading took", f"{seconds:,.1f} s", counted(health["table"].n_unique(), "table")),
            (
                "Gold adds up",
                "no" if differing else "yes",
                f"not on {named(differing)}" if differing else counts,
            ),
        ]
    )


def _differing(health: pl.DataFrame) -> list[date]:
    """The days on which the report's sales are not as many as the mart has rows."""
    mart = health.filter(pl.col("table") == SALES_MART.name).select("dt", "rows")
    counted_sales = health.filter(
        (pl.col("table") == DAILY_PRODUCT_SALES.name) & (pl.col("state") == "committed")
    ).select("dt", "orders")
    both = counted_sales.join(mart, on="dt").filter(pl.col("rows") != pl.col("orders"))
    return sorted(both["dt"].to_list())


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    yield '<div class="tiles">'
    for name, value, note in tiles:
        yield (
            f'<div class="card tile"><span class="soft">{clean(name)}</span><b>{clean(value)}</b>'
            f'<span class="soft">{clean(note)}</span></div>'
        )
    yield "</div>"


def _sales_table(sales: pl.DataFrame) -> Iterator[str]:
    names = ("dt", "revenue", "orders", "units", "products", "stores", "rows_late")
    heads = ("day", "revenue", "orders", "units", "products", "stores", "late rows")
    rows = sales.sort("dt", descending=True).select(names).iter_rows()
    yield "<details><summary>The figures of each day</summary>"
    yield from _table(heads, [[_cell(value) for value in row] for row in rows])
    yield "</details>"


def _health_table(health: pl.DataFrame) -> Iterator[str]:
    """A row for each table: what the days did together, and what its days wait for."""
    found = health.group_by("table", maintain_order=True).agg(
        pl.len().alias("days"),
        *(pl.sum(name) for name in ("rows_read", "rows_out", "rows_quarantined", "rows_late")),
        pl.sum("seconds"),
        held=(pl.col("state") == HELD).sum(),
        waits=(pl.col("state") == WAITS).sum(),
    )
    rows = sorted(
        found.iter_rows(), key=lambda row: (LAYERS.index(row[0].partition("/")[0]), row[0])
    )
    heads = ("table", "days", "rows read", "rows out", "quarantined", "late", "seconds", "state")
    shown = [[*map(_cell, row[:7]), _state(row[7], row[8])] for row in rows]
    yield '<div class="card">'
    yield from _table(heads, shown)
    yield "</div>"


def _state(held: int, waits: int) -> str:
    if held:
        return f'<span class="bad">{clean(counted(held, "day"))} held</span>'
    if waits:
        return f"{clean(counted(waits, 'day'))} {'waits' if waits == 1 else 'wait'}"
    return "ok"


def _cell(value: Any) -> str:
    """A value as HTML: money with two digits, seconds with one."""
    if isinstance(value, Decimal):
        return f"{value:,.2f}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else clean(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of cells that are HTML."""
    yield '<div class="scroll"><table><thead><tr>'
    yield from (f'<th scope="col">{clean(head)}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    yield "</tbody></table></div>"
