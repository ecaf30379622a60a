"""What the demo's loads did: a table of days, and the products that sold best."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import polars as pl
from rich.console import Console
from rich.table import Table as RichTable

from incremental_assets.days import DayRange
from incremental_assets.lake.delta_log import open_table
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import TableHistory
from incremental_assets.query import query
from incremental_assets.settings import Settings
from incremental_assets.table import Table

BEST = 10


def show(settings: Settings, tables: Sequence[Table], days: DayRange | None, out: Console) -> None:
    """Print a row per day and table from the ledger, then the best products from gold."""
    view = Ledger(ledger_path(settings.lake)).view()
    grid = RichTable(title="What was loaded, by day", header_style="bold")
    grid.add_column("day")
    grid.add_column("table")
    for name in ("rows in", "rows out", "quarantined", "late", "seconds"):
        grid.add_column(name, justify="right")
    grid.add_column("state")
    by_day: dict[date, list[tuple[str, list[Entry]]]] = {}
    for table in tables:
        history = view.table(table.name)
        touched = {day: [e for e in history.loads if e.day == day] for day in _days(history)}
        for day, entries in touched.items():
            by_day.setdefault(day, []).append((table.name, entries))
    batch_days = _batch_sizes(by_day)
    for day in sorted(by_day):
        if days is not None and day not in days:
            continue
        for position, (name, entries) in enumerate(by_day[day]):
            grid.add_row(str(day) if position == 0 else "", *_row(name, day, entries, batch_days))
        grid.add_section()
    out.print(grid)
    out.print("seconds: a batch's time, shared out over the days that it loaded together")
    _best_products(f"{settings.lake}/gold/daily_product_sales", days, out)
    out.print(
        "\nNext: [bold]make dev[/] opens the UI; land more with "
        "[bold].venv/bin/incremental-assets demo land --from 2017-01-08 --to 2017-01-14[/] and "
        "load it with [bold].venv/bin/incremental-assets run[/]."
    )


def _days(history: TableHistory) -> list[date]:
    return sorted({e.day for e in history.loads})


def _batch_sizes(
    by_day: dict[date, list[tuple[str, list[Entry]]]],
) -> dict[tuple[str, int], int]:
    sizes: dict[tuple[str, int], int] = {}
    for loads in by_day.values():
        for name, entries in loads:
            for entry in entries:
                sizes[name, entry.batch] = sizes.get((name, entry.batch), 0) + 1
    return sizes


def _row(
    name: str, day: date, entries: Sequence[Entry], batch_days: dict[tuple[str, int], int]
) -> list[str]:
    since = [e for e in entries if e.state != "abandoned"]
    rebuilt = max((i for i, e in enumerate(since) if e.mode == "rebuild"), default=0)
    counted = since[rebuilt:]
    own = [t.rows for e in counted for t in e.touched if t.day == day or "bronze" in name]
    out = sum(own) if "bronze" in name else (own[-1] if own else 0)
    seconds = sum(e.seconds / batch_days[name, e.batch] for e in since)
    last = since[-1] if since else entries[-1]
    state = "[green]ok[/]" if last.state == "committed" else f"[red]{last.state}[/]"
    return [
        name,
        f"{sum(e.rows_read for e in counted):,}",
        f"{out:,}",
        f"{sum(e.rows_quarantined for e in counted):,}",
        f"{sum(e.rows_late for e in counted):,}",
        f"{seconds:.1f}",
        state,
    ]


def _best_products(path: str, days: DayRange | None, out: Console) -> None:
    table = open_table(path)
    if table is None:
        return
    sold = query(table, "dt, product_id, revenue, units, orders")
    if days is not None:
        sold = sold.filter(pl.col("dt").is_between(days.first, days.last))
    best = (
        sold.group_by("product_id")
        .agg(pl.sum("revenue"), pl.sum("units"), pl.sum("orders"))
        .sort(["revenue", "product_id"], descending=[True, False])
        .head(BEST)
    )
    grid = RichTable(title=f"The {BEST} products with the most revenue", header_style="bold")
    grid.add_column("product")
    for name in ("revenue", "units", "orders"):
        grid.add_column(name, justify="right")
    grid.add_column("")
    top = float(best["revenue"][0]) if len(best) else 0.0
    for row in best.iter_rows(named=True):
        bar = "█" * round(24 * float(row["revenue"]) / top) if top else ""
        grid.add_row(
            row["product_id"], f"{row['revenue']:,}", f"{row['units']:,}", f"{row['orders']:,}", bar
        )
    out.print(grid)
