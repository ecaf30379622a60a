"""The figures of both reports, by day, as frames: what is stored of them, and then drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl

from incremental_assets.days import DayRange
from incremental_assets.delta.contents import TableContents, contents_of
from incremental_assets.delta.delta_table import open_table
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.operations.quarantined import QuarantineFilter, in_quarantine
from incremental_assets.plan import upstream_held
from incremental_assets.retail.feed.loaded import (
    HeldDay,
    held_days,
    loaded_days,
    product_names,
)
from incremental_assets.retail.gold.daily_product_sales import DAILY_PRODUCT_SALES
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.settings import Settings
from incremental_assets.table import Table

BEST = 10
HELD, WAITS = "held", "waits"
_MONEY = pl.Decimal(38, 4)
_SOLD = pl.Schema(
    {
        "dt": pl.Date(),
        "product_id": pl.String(),
        "store_id": pl.String(),
        "units": pl.Int64(),
        "revenue": _MONEY,
        "orders": pl.Int64(),
    }
)


@dataclass(frozen=True)
class Report:
    """A report: its name, which is its folder in the lake, and the columns of its days."""

    name: str
    schema: pl.Schema


DAILY_SALES = Report(
    "reports/daily_sales",
    pl.Schema(
        {
            "dt": pl.Date(),
            "revenue": _MONEY,
            "orders": pl.Int64(),
            "units": pl.Int64(),
            "products": pl.Int64(),
            "stores": pl.Int64(),
            "rows_late": pl.Int64(),
            "best": pl.List(
                pl.Struct(
                    {
                        "product_id": pl.String(),
                        "product": pl.String(),
                        "revenue": _MONEY,
                        "units": pl.Int64(),
                    }
                )
            ),
        }
    ),
)
PIPELINE_HEALTH = Report(
    "reports/pipeline_health",
    pl.Schema(
        {
            "dt": pl.Date(),
            "table": pl.String(),
            "rows_read": pl.Int64(),
            "rows_out": pl.Int64(),
            "rows_quarantined": pl.Int64(),
            "rows_late": pl.Int64(),
            "seconds": pl.Float64(),
            "state": pl.String(),
            "held_by": pl.String(),
            "rows": pl.Int64(),
            "orders": pl.Int64(),
            "quarantine": pl.List(pl.Struct({"rule": pl.String(), "rows": pl.Int64()})),
        }
    ),
)


def sold_rows(found: pl.DataFrame) -> pl.DataFrame:
    """Rows of gold/daily_product_sales, as it was read; none where there is no such table."""
    return found.select(_SOLD.names()).cast(_SOLD) if found.width else _SOLD.to_frame()


def sales_of_days(
    sold: pl.DataFrame, names: Mapping[str, str], late: Mapping[date, int]
) -> pl.DataFrame:
    """A row of `DAILY_SALES` for each day that has rows of gold.

    `best` are the products with the most revenue, at most `BEST`, the first one first; `rows_late`
    the sales of the day that landed after it. The sums are exact.
    """
    by_product = (
        sold.group_by("dt", "product_id")
        .agg(pl.sum("revenue"), pl.sum("units"))
        .sort(["dt", "revenue", "product_id"], descending=[False, True, False])
    )
    shown = [
        names.get(p, f"Product {p}") if p else "Unknown product" for p in by_product["product_id"]
    ]
    best = (
        by_product.with_columns(pl.Series("product", shown, pl.String))
        .group_by("dt")
        .agg(best=pl.struct("product_id", "product", "revenue", "units").head(BEST))
    )
    days = sold.group_by("dt").agg(
        pl.sum("revenue"),
        pl.sum("orders"),
        pl.sum("units"),
        products=pl.n_unique("product_id"),
        stores=pl.n_unique("store_id"),
    )
    counted = days.with_columns(
        rows_late=pl.Series([late.get(day, 0) for day in days["dt"]], dtype=pl.Int64)
    )
    return _of(DAILY_SALES, counted.join(best, on="dt").sort("dt"))


def best_of(sold: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """The same `best` over all these days: `product_id`, `product`, `revenue`, `units`."""
    together = sales_of_days(sold.with_columns(dt=pl.lit(date.min)), names, {})
    return together.select(pl.col("best").explode()).unnest("best")


def late_by_day(settings: Settings, tables: Sequence[Table], days: DayRange) -> Mapping[date, int]:
    """How many sales of each business day landed after it, as the ledger counts them."""
    sales = [table for table in tables if table.name == SALES.name]
    return {each.day: each.late for each in loaded_days(settings, sales, days)}


def names_of(settings: Settings, sold: pl.DataFrame) -> Mapping[str, str]:
    """The names of the products that were sold."""
    return product_names(settings, set(sold["product_id"].drop_nulls()))


def held_of_sales(
    settings: Settings, tables: Sequence[Table], days: DayRange
) -> Mapping[date, HeldDay]:
    """Per day what gold/daily_product_sales waits for, or that its own gate holds it."""
    name = DAILY_PRODUCT_SALES.name
    found = held_days(settings, tables, days)
    return {each.day: each for each in found if name in (each.table, *each.waiting)}


def health_of_days(
    settings: Settings, tables: Sequence[Table], days: DayRange, sold: pl.DataFrame
) -> pl.DataFrame:
    """A row of `PIPELINE_HEALTH` for each day and table that was loaded, is held, or waits.

    A day is one of the table's own: of bronze that of landing, otherwise the business day. Rows
    and seconds are what the day's loads did together since its last rebuild; `rows` what the day
    holds now, by the table's log. `orders` are those that the rows of gold/daily_product_sales
    count, as they were `sold`; null for other tables. `quarantine` is what is in there now.
    """
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    held = {(each.table, each.day): each.held_by for each in held_days(settings, tables, days)}
    loaded = {(each.table, each.day): each for each in loaded_days(settings, tables, days)}
    orders = dict(sold.group_by("dt").agg(pl.sum("orders")).iter_rows())
    rejected = _rejected(settings, tables, days)
    rows: list[dict[str, object]] = []
    for table in tables:
        contents = _contents(settings, table)
        for day in days:
            key = (table.name, day)
            did = loaded.get(key)
            waits = key not in held and bool(upstream_held(table, day, view))
            if did is None and key not in held and not waits:
                continue
            rows.append(
                {
                    "dt": day,
                    "table": table.name,
                    "rows_read": did.rows_in if did else 0,
                    "rows_out": did.rows_out if did else 0,
                    "rows_quarantined": did.quarantined if did else 0,
                    "rows_late": did.late if did else 0,
                    "seconds": did.seconds if did else 0.0,
                    "state": WAITS if waits else HELD if key in held else did.state if did else "",
                    "held_by": held.get(key, ""),
                    "rows": contents.day(day).rows,
                    "orders": orders.get(day, 0)
                    if table.name == DAILY_PRODUCT_SALES.name
                    else None,
                    "quarantine": rejected.get(key, []),
                }
            )
    return _of(PIPELINE_HEALTH, pl.DataFrame(rows, PIPELINE_HEALTH.schema).sort("dt", "table"))


def _rejected(
    settings: Settings, tables: Sequence[Table], days: DayRange
) -> Mapping[tuple[str, date], list[dict[str, object]]]:
    """The rules with the rows that they hold back, by table and day; empty without a ledger."""
    found: dict[tuple[str, date], list[dict[str, object]]] = {}
    counts = in_quarantine(settings, tables, QuarantineFilter(days))
    for table, day, rule, rows in counts.select("table", "day", "reason", "rows").iter_rows():
        found.setdefault((table, day), []).append({"rule": rule, "rows": rows})
    return found


def _contents(settings: Settings, table: Table) -> TableContents:
    there = open_table(f"{settings.lake}/{table.name}")
    return TableContents() if there is None else contents_of(there)


def _of(report: Report, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(report.schema.names()).cast(report.schema)
