"""Events as several benchmarks land them: a line of a basket, made up from its number."""

from __future__ import annotations

from datetime import date
from typing import Any


def event(order_id: str, number: int, day: date) -> dict[str, Any]:
    """An event of a day; 2,000 users, 300 stores and 40,000 products take turns."""
    return {
        "order_id": order_id,
        "user_id": str(number % 2000),
        "store_id": str(number % 300),
        "product_id": str(number % 40_000),
        "qty": number % 5,
        "unit_price": 2.5,
        "event_ts": f"{day}T{number % 24:02}:00:00Z",
        "arrival_ts": f"{day}T23:59:00Z",
    }
