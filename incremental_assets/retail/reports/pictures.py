"""The pictures of both reports: charts of their figures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import date

import polars as pl

from incremental_assets.days import DayRange
from incremental_assets.orchestration.metadata import as_markdown
from incremental_assets.retail.feed.loaded import HeldDay
from incremental_assets.retail.gold.daily_product_sales import DAILY_PRODUCT_SALES
from incremental_assets.retail.gold.sales_mart import SALES_MART
from incremental_assets.retail.reports.charts import (
    SERIES,
    Series,
    columns,
    lines,
    ranking,
    standalone,
)
from incremental_assets.retail.reports.figures import HELD, WAITS
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.table_names import LAYERS

_EVENTS = "bronze/events"
_OTHERS = "other rules"
_TABLES = 8  # of a ranking


def sales_pictures(
    sales: pl.DataFrame, days: DayRange, held: Mapping[date, HeldDay]
) -> Mapping[str, str]:
    """Charts of `DAILY_SALES` over these days, by a name that no column has."""
    labels = [_label(day) for day in days]
    notes = {_label(day): f"{each.table} is held" for day, each in held.items()}
    by_day = {row["dt"]: row for row in sales.iter_rows(named=True)}

    def values(column: str) -> list[float | None]:
        return [float(by_day[day][column]) if day in by_day else None for day in days]

    last = max(by_day, default=None)
    best = by_day[last]["best"] if last is not None else []
    return {
        "revenue_by_day": columns(
            "Revenue by day", labels, [Series("revenue", values("revenue"))], notes=notes
        ),
        "orders_by_day": columns(
            "Orders by day", labels, [Series("orders", values("orders"))], notes=notes
        ),
        "late_rows_by_day": columns(
            "Late rows by day: sales that landed after it",
            labels,
            [Series("late rows", values("rows_late"))],
            notes=notes,
        ),
        "best_products": ranking(
            f"Best products of {last}: revenue" if last else "Best products: revenue",
            [(each["product"], float(each["revenue"])) for each in best],
        ),
    }


def health_pictures(health: pl.DataFrame, days: DayRange) -> Mapping[str, str]:
    """Charts of `PIPELINE_HEALTH` over these days, by a name that no column has."""
    labels = [_label(day) for day in days]
    layers = pl.col("table").str.split("/").list.first()
    seconds = health.group_by("dt", layer=layers).agg(pl.sum("seconds"))
    rows = health.group_by("dt", layer=layers).agg(pl.sum("rows_read"))
    tables = health.group_by("table").agg(pl.sum("rows_out"), pl.sum("seconds"))
    return {
        "quarantine_by_rule": columns("Rows in quarantine by rule", labels, _by_rule(health, days)),
        "sales_on_their_way": lines(
            "Sales on their way: rows by day", labels, _on_their_way(health, days)
        ),
        "load_seconds_by_layer": columns(
            "Load seconds by day and layer",
            labels,
            _by(seconds, "layer", "seconds", LAYERS, days),
            unit=" s",
        ),
        "rows_read_by_layer": columns(
            "Rows read by day and layer", labels, _by(rows, "layer", "rows_read", LAYERS, days)
        ),
        "load_seconds_by_table": ranking(
            "Load seconds by table", _most(tables, "seconds"), unit=" s"
        ),
        "rows_by_table": ranking("Rows by table", _most(tables, "rows_out")),
    }


def picture_in_markdown(title: str, svg: str) -> str:
    """A chart as Markdown that holds the picture itself."""
    data = b64encode(standalone(svg).encode()).decode()
    return f"![{as_markdown(title)}](data:image/svg+xml;base64,{data})"


def _most(tables: pl.DataFrame, value: str) -> list[tuple[str, float]]:
    """The tables with the largest values, the largest first."""
    found = tables.sort([value, "table"], descending=[True, False]).head(_TABLES)
    return list(found.select("table", value).iter_rows())


def _by_rule(health: pl.DataFrame, days: DayRange) -> list[Series]:
    """The rules with the most rows as series of their own, and the others as one."""
    exploded = (
        health.select("dt", "table", "quarantine")
        .explode("quarantine")
        .drop_nulls("quarantine")
        .unnest("quarantine")
        .with_columns(name=pl.col("table") + ": " + pl.col("rule"))
    )
    order = (
        exploded.group_by("name")
        .agg(pl.sum("rows"))
        .sort(["rows", "name"], descending=[True, False])["name"]
        .to_list()
    )
    own = order if len(order) <= SERIES else order[: SERIES - 1]
    named = exploded.with_columns(
        name=pl.when(pl.col("name").is_in(own)).then("name").otherwise(pl.lit(_OTHERS))
    )
    counts = named.group_by("dt", "name").agg(pl.sum("rows"))
    return _by(counts, "name", "rows", own if own == order else [*own, _OTHERS], days)


def _on_their_way(health: pl.DataFrame, days: DayRange) -> list[Series]:
    """How many sales landed, were published, and are counted at the end."""
    steps = (
        ("landed", _EVENTS, "rows"),
        (SALES.name, SALES.name, "rows"),
        (SALES_MART.name, SALES_MART.name, "rows"),
        (f"{DAILY_PRODUCT_SALES.name}, counted", DAILY_PRODUCT_SALES.name, "orders"),
    )
    found = []
    for name, table, column in steps:
        own = health.filter((pl.col("table") == table) & ~pl.col("state").is_in([HELD, WAITS]))
        by_day = dict(own.select("dt", column).iter_rows())
        found.append(Series(name, [by_day.get(day) for day in days]))
    return found


def _by(
    counts: pl.DataFrame, name: str, value: str, names: Sequence[str], days: DayRange
) -> list[Series]:
    found = {
        (day, each): number for day, each, number in counts.select("dt", name, value).iter_rows()
    }
    return [Series(each, [found.get((day, each)) for day in days]) for each in names]


def _label(day: date) -> str:
    return f"{day:%m-%d}"
