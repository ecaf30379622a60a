"""What the demo's loads did: a table of days, and the products that sold best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl
from rich.text import Text

from incremental_assets.days import ONE_DAY, DayRange
from incremental_assets.delta.delta_table import open_table
from incremental_assets.errors import SourceError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.query import query
from incremental_assets.screen import Screen, grid, printable
from incremental_assets.settings import Settings
from incremental_assets.table import Table

BEST = 10


@dataclass(frozen=True, slots=True)
class LoadedDay:
    """What the loads of a table's day did together; of a batch of several days its share of them.

    Rows count from the day's last rebuild on. `state` is that of the last load.
    """

    day: date
    table: str
    rows_in: int
    rows_out: int
    quarantined: int
    late: int
    seconds: float
    state: str


def loaded_days(
    settings: Settings, tables: Sequence[Table], days: DayRange | None
) -> list[LoadedDay]:
    """What was loaded, by day, then by table in the order of loading. Creates no ledger."""
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    found: list[LoadedDay] = []
    for table in tables:
        by_day: dict[date, list[Entry]] = {}
        sizes: dict[int, int] = {}
        for entry in view.table(table.name).loads:
            by_day.setdefault(entry.day, []).append(entry)
            sizes[entry.batch] = sizes.get(entry.batch, 0) + 1
        found += [
            _loaded(table.name, day, entries, sizes)
            for day, entries in by_day.items()
            if days is None or day in days
        ]
    return sorted(found, key=lambda loaded: loaded.day)


def best_products(settings: Settings, days: DayRange | None) -> pl.DataFrame:
    """The products with the most revenue: `product_id`, `revenue`, `units`, `orders`."""
    table = open_table(f"{settings.lake}/gold/daily_product_sales")
    if table is None:
        return pl.DataFrame(schema=["product_id", "revenue", "units", "orders"])
    sold = query(table, "dt, product_id, revenue, units, orders")
    if days is not None:
        sold = sold.filter(pl.col("dt").is_between(days.first, days.last))
    return (
        sold.group_by("product_id")
        .agg(pl.sum("revenue"), pl.sum("units"), pl.sum("orders"))
        .sort(["revenue", "product_id"], descending=[True, False])
        .head(BEST)
    )


def show(settings: Settings, tables: Sequence[Table], days: DayRange | None, out: Screen) -> None:
    """Print a row per day and table from the ledger, then the best products from gold."""
    loads = grid("What was loaded, by day")
    loads.add_column("day, table", no_wrap=True)
    for name in ("rows in", "rows out", "quarantined", "late"):
        loads.add_column(name, justify="right")
    loads.add_column("state")
    before: date | None = None
    for loaded in loaded_days(settings, tables, days):
        if before != loaded.day:
            loads.add_row(Text(str(loaded.day), "bold"))
        loads.add_row(*_row(loaded))
        before = loaded.day
    out.print(loads)
    _show_best(best_products(settings, days), out)
    week = _next_week(settings, tables)
    out.print(
        Text.from_markup("\nNext: [bold]make dev[/] opens the UI; land more, and load it, with")
    )
    for command in (f"demo land --from {week.first} --to {week.last}", "run"):
        out.print(Text(f"  .venv/bin/incremental-assets {command}", "bold"), soft_wrap=True)


def _next_week(settings: Settings, tables: Sequence[Table]) -> DayRange:
    """The seven days after the last one that has landed, or the first ones of the lake."""
    try:
        landed = {
            day for t in tables if t.feed is not None for day in t.feed.days(settings.landing)
        }
    except SourceError:  # the landing is gone; what was loaded is shown anyway
        landed = set()
    first = max(landed) + ONE_DAY if landed else settings.start_date
    return DayRange(first, first + 6 * ONE_DAY)


def _loaded(
    name: str, day: date, entries: Sequence[Entry], batch_days: dict[int, int]
) -> LoadedDay:
    since = [e for e in entries if e.state != "abandoned"]
    rebuilt = max((i for i, e in enumerate(since) if e.mode == "rebuild"), default=0)
    counted = since[rebuilt:]
    own = [t.rows for e in counted for t in e.touched if t.day == day or "bronze" in name]
    return LoadedDay(
        day=day,
        table=name,
        rows_in=sum(e.rows_read for e in counted),
        rows_out=sum(own) if "bronze" in name else (own[-1] if own else 0),
        quarantined=sum(e.rows_quarantined for e in counted),
        late=sum(e.rows_late for e in counted),
        seconds=round(sum(e.seconds / batch_days[e.batch] for e in since), 3),
        state=(since or entries)[-1].state,
    )


def _row(loaded: LoadedDay) -> list[str | Text]:
    ok = loaded.state == "committed"
    return [
        f"  {loaded.table}",
        f"{loaded.rows_in:,}",
        f"{loaded.rows_out:,}",
        f"{loaded.quarantined:,}",
        f"{loaded.late:,}",
        Text("ok", "green") if ok else Text(printable(loaded.state), "red"),
    ]


def _show_best(best: pl.DataFrame, out: Screen) -> None:
    if best.is_empty():
        return
    out.print()
    products = grid(f"The {BEST} products with the most revenue")
    products.add_column("product")
    for name in ("revenue", "units", "orders"):
        products.add_column(name, justify="right")
    products.add_column("")
    top = float(best["revenue"][0])
    for row in best.iter_rows(named=True):
        bar = "█" * round(24 * float(row["revenue"]) / top) if top else ""
        products.add_row(
            row["product_id"], f"{row['revenue']:,}", f"{row['units']:,}", f"{row['orders']:,}", bar
        )
    out.print(products)
