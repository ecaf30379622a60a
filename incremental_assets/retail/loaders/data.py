"""The demo's sources: two deliveries for each loader, small enough to follow row by row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl

DeliveryNumber = Literal[1, 2]
# The moments at which the demo loads; its data is before them.
MOMENTS: dict[DeliveryNumber, datetime] = {
    1: datetime(2024, 5, 10, 10, tzinfo=UTC),
    2: datetime(2024, 5, 10, 11, tzinfo=UTC),
}


def at(clock: str) -> datetime:
    """A time of the demo's day, UTC."""
    return datetime.fromisoformat(f"2024-05-10T{clock}:00+00:00")


_ORDERS: dict[DeliveryNumber, list[tuple[int, str, datetime | None]]] = {
    1: [(1, "placed", at("09:00")), (2, "placed", at("09:30")), (3, "placed", at("09:45"))],
    2: [
        (1, "paid", at("10:20")),
        (4, "placed", at("09:45")),  # the watermark's own instant
        (5, "placed", at("09:20")),  # late, inside the lookback
        (6, "placed", at("08:00")),  # late, below the lookback: never read
        (7, "placed", None),
    ],
}
_PAYMENTS: dict[DeliveryNumber, list[tuple[int, str]]] = {
    1: [(1, "card"), (2, "cash"), (3, "card"), (6, "card")],
    2: [(4, "cash"), (7, "card"), (8, "cash")],
}
_CUSTOMERS: dict[DeliveryNumber, list[tuple[int, str | None, str, int]]] = {
    1: [(1, "Ann", "INSERT", 1), (2, "Bob", "INSERT", 2), (3, "Cleo", "INSERT", 6)],
    2: [
        (1, "Anna", "UPDATE", 7),
        (2, None, "DELETE", 8),
        (3, "Cleopatra", "UPDATE", 5),  # happened before what is loaded, and comes after it
        (4, "Dan", "INSERT", 9),
    ],
}
_PRODUCTS: dict[DeliveryNumber, list[tuple[str, str, int]]] = {
    1: [
        ("a", "apple", 1),
        ("b", "bread", 3),
        ("c", "cheese", 8),
        ("d", "dates", 5),
        ("e", "egg", 1),
    ],
    2: [
        ("a", "apple", 2),
        ("b", "bread", 3),
        ("c", "cheese", 8),
        ("e", "egg", 1),
        ("f", "figs", 6),
    ],
}


def land_orders(source: Path, delivery: DeliveryNumber) -> None:
    """A Parquet file more: `order_id: int64`, `status: string`, `updated_at: timestamp`."""
    schema = {"order_id": pl.Int64, "status": pl.String, "updated_at": pl.Datetime("us", "UTC")}
    _write(source, delivery, _ORDERS[delivery], schema)


def land_payments(source: Path, delivery: DeliveryNumber) -> None:
    """A Parquet file more: `payment_id: int64`, `method: string`."""
    _write(source, delivery, _PAYMENTS[delivery], {"payment_id": pl.Int64, "method": pl.String})


def land_customers(source: Path, delivery: DeliveryNumber) -> None:
    """A file of JSON lines more: `customer_id`, `name`, `operation`, `sequence_num`."""
    names = ("customer_id", "name", "operation", "sequence_num")
    events = [dict(zip(names, event, strict=True)) for event in _CUSTOMERS[delivery]]
    source.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    (source / f"events-{delivery}.json").write_text(lines)


def land_products(source: Path, delivery: DeliveryNumber) -> None:
    """The whole table as one Parquet file, which replaces the one before."""
    schema = {"sku": pl.String, "name": pl.String, "price": pl.Int64}
    for old in source.glob("*"):
        old.unlink()
    _write(source, delivery, _PRODUCTS[delivery], schema)


def _write(source: Path, delivery: DeliveryNumber, rows: list[Any], schema: dict[str, Any]) -> None:
    source.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame.write_parquet(source / f"delivery-{delivery}.parquet")
