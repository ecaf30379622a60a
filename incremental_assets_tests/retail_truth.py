"""What the retailer's tables must contain, computed from all feeds.

An oracle for tests: it reads everything that has landed at once, in plain Python and polars, and
has no code in common with the package. The feeds are those of the demo: whole and well-formed,
but for what their shares of late, repeated and bad rows do.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

from incremental_assets_tests.truth import truth_of

FAR = datetime(9999, 1, 1, tzinfo=UTC)
_INSTANT = pl.Datetime("us", "UTC")
Row = Mapping[str, Any]
KEYS = {
    "silver/sales": ["order_id"],
    "silver/orders": ["order_id"],
    "silver/inventory_movements": ["movement_id"],
    "silver/users": ["user_id", "valid_from"],
    "silver/products": ["product_id", "valid_from"],
    "gold/sales_mart": ["order_id"],
    "gold/daily_product_sales": ["dt", "product_id", "store_id"],
    "gold/customer_orders": ["user_id"],
    "gold/inventory_levels": ["dt", "product_id", "store_id"],
    "gold/latest_user_events": ["dt", "user_id"],
}


@dataclass(frozen=True)
class Version:
    """A row of a dimension and when it held, from the first instant up to the second."""

    row: Row
    since: datetime
    until: datetime | None


Versions = Mapping[str, Sequence[Version]]


def retail_truth(landing: Path, start: date, days: Sequence[date]) -> dict[str, pl.DataFrame]:
    """Each table by its name, from what has landed on these days, without columns of the load."""
    sales_truth = truth_of(landing, start, days)
    assert not sales_truth.ties
    assert not sales_truth.moved
    assert not sales_truth.held
    sales = sales_truth.sales
    users, products = _users(landing, days), _products(landing, days)
    orders, moved = _orders(landing, start, days), _movements(landing, start, days)
    return {
        "silver/sales": sales,
        "silver/orders": orders,
        "silver/inventory_movements": moved,
        "silver/users": _table(users, "user_id"),
        "silver/products": _table(products, "product_id"),
        "gold/sales_mart": _mart(sales, users, products),
        "gold/daily_product_sales": sales_truth.daily_product_sales,
        "gold/customer_orders": _customer_orders(orders),
        "gold/inventory_levels": _levels(moved),
        "gold/latest_user_events": sales.filter(pl.col("user_id").is_not_null())
        .sort("event_ts", "order_id")
        .group_by("dt", "user_id")
        .last()
        .drop("arrival_ts"),
    }


def assert_tables_are_the_truth(
    lake: str, truth: dict[str, pl.DataFrame], names: Sequence[str] = tuple(KEYS)
) -> None:
    """Compare tables of a lake, but for the columns of the load, and name the first apart."""
    assert truth.keys() == KEYS.keys()
    for name in names:
        key = KEYS[name]
        expected = truth[name].sort(key)
        mine = pl.read_delta(f"{lake}/{name}").select(expected.columns).sort(key)
        try:
            assert_frame_equal(mine, expected, check_dtypes=False)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def _lines(folder: Path) -> Iterator[dict[str, Any] | None]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                yield None


def _users(landing: Path, days: Sequence[date]) -> Versions:
    events: dict[str, dict[int, tuple[datetime, Row | None]]] = defaultdict(dict)
    for day in days:
        for event in _lines(landing / "users" / f"{day}"):
            if event is None:
                continue
            user = (event["after"] or event["before"])["user_id"]
            at = datetime.fromtimestamp(event["source"]["ts_ms"] / 1000, UTC)
            events[user][event["source"]["lsn"]] = (at, event["after"])
    return {user: _intervals([log[n] for n in sorted(log)]) for user, log in events.items()}


def _products(landing: Path, days: Sequence[date]) -> Versions:
    changes: dict[str, list[tuple[datetime, Row | None]]] = defaultdict(list)
    known: dict[str, Row] = {}
    for day in sorted(days):
        lines = list(_lines(landing / "products" / f"{day}"))
        copy = {row["product_id"]: row for row in lines if row is not None}
        at = datetime(day.year, day.month, day.day, tzinfo=UTC)
        for product, row in copy.items():
            if known.get(product) != row:
                changes[product].append((at, row))
                known[product] = row
        if lines and None not in lines:  # a copy with a damaged line deletes nothing
            for product in known.keys() - copy.keys():
                changes[product].append((at, None))
                del known[product]
    return {product: _intervals(some) for product, some in changes.items()}


def _intervals(changes: Sequence[tuple[datetime, Row | None]]) -> list[Version]:
    """The versions in their order; a change of `updated_at` alone makes none."""
    found: list[Version] = []
    for at, row in changes:
        last = found[-1] if found and found[-1].until is None else None
        if last is not None and row is not None and _shown(last.row) == _shown(row):
            found[-1] = Version(row, last.since, None)
            continue
        if last is not None:
            found[-1] = Version(last.row, last.since, at)
        if row is not None:
            found.append(Version(row, at, None))
    return found


def _shown(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "updated_at"}


def _table(versions: Versions, key: str) -> pl.DataFrame:
    rows = [
        {**v.row, "valid_from": v.since, "valid_to": v.until, "is_current": v.until is None}
        for some in versions.values()
        for v in some
    ]
    names = [name for name in rows[0] if name not in ("valid_from", "valid_to", "is_current")]
    texts = dict.fromkeys(names, pl.String)
    own = {"valid_from": _INSTANT, "valid_to": _INSTANT, "is_current": pl.Boolean}
    table = pl.DataFrame(rows, {**texts, **own}).sort(key, "valid_from")
    if "updated_at" in names:
        at = pl.col("updated_at").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
        table = table.with_columns(at)
    return table


def _at(versions: Sequence[Version], moment: datetime) -> Row | None:
    """The row that held then; before the first version, the first."""
    count = bisect_right(versions, moment, key=lambda version: version.since)
    found = versions[max(count - 1, 0)] if versions else None
    return None if found is None or moment >= (found.until or FAR) else found.row


def _mart(sales: pl.DataFrame, users: Versions, products: Versions) -> pl.DataFrame:
    looked_up = []
    for sale in sales.iter_rows(named=True):
        user = _at(users.get(sale["user_id"], ()), sale["event_ts"]) or {}
        product = _at(products.get(sale["product_id"], ()), sale["event_ts"]) or {}
        looked_up.append(
            {
                "user_income": user.get("income"),
                "user_household_size": user.get("household_size"),
                "product_brand": product.get("brand"),
                "product_package_size": product.get("package_size"),
                "product_product_type": product.get("product_type"),
            }
        )
    attributes = pl.DataFrame(looked_up, dict.fromkeys(looked_up[0], pl.String))
    total = (pl.col("qty") * pl.col("unit_price")).cast(pl.Decimal(38, 4)).alias("total_price")
    return sales.hstack(attributes).with_columns(total)


def _landed(landing: Path, feed: str, days: Sequence[date]) -> pl.DataFrame:
    files = [landing / feed / f"{day}.parquet" for day in days]
    return pl.concat([pl.read_parquet(file) for file in files if file.exists()])


def _orders(landing: Path, start: date, days: Sequence[date]) -> pl.DataFrame:
    rows = _landed(landing, "orders", days).filter(pl.col("amount") >= 0)
    loaded = pl.col("updated_at").dt.date() >= start
    return rows.filter(loaded).sort("updated_at").group_by("order_id").last().sort("order_id")


def _movements(landing: Path, start: date, days: Sequence[date]) -> pl.DataFrame:
    rows = _landed(landing, "inventory_movements", days).drop_nulls("delta")
    loaded = pl.col("moved_at").dt.date() >= start
    return rows.filter(loaded).unique("movement_id").sort("movement_id")


def _customer_orders(orders: pl.DataFrame) -> pl.DataFrame:
    counted = orders.filter(pl.col("status") != "cancelled")
    return counted.group_by("user_id").agg(
        first_order_at=pl.col("created_at").min(),
        last_order_at=pl.col("created_at").max(),
        orders=pl.len().cast(pl.Int64),
        value=pl.col("amount").sum(),
    )


def _levels(moved: pl.DataFrame) -> pl.DataFrame:
    place = ("product_id", "store_id")
    days = moved.group_by(*place, dt=pl.col("moved_at").dt.date()).agg(pl.col("delta").sum())
    days = days.sort(*place, "dt")
    return days.with_columns(level=pl.col("delta").cum_sum().over(place))
