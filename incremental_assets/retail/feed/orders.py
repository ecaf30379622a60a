"""The shop's table of orders: a basket is created, paid and shipped, or cancelled. Pure.

Each landing day adds the rows that changed, as they were then, to the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import polars as pl

from incremental_assets.retail.feed.deliveries import MAX_DELAY_DAYS, SECOND, Delivery, delayed
from incremental_assets.retail.feed.draws import Shares, chosen, draw

CANCELLED_SHARE: Final = 0.04
"""The share of the orders that are cancelled, most of them before they are shipped."""

_LONGEST_LIFE_DAYS: Final = 11
LONGEST_DAYS: Final = _LONGEST_LIFE_DAYS + MAX_DELAY_DAYS
"""No row of an order lands later than this many days after the order was created."""

SCHEMA: Final[dict[str, Any]] = {
    "order_id": pl.String,
    "user_id": pl.String,
    "store_id": pl.String,
    "status": pl.String,
    "amount": pl.Decimal(18, 4),
    "created_at": pl.Datetime("us", "UTC"),
    "updated_at": pl.Datetime("us", "UTC"),
}


@dataclass(frozen=True, slots=True)
class Basket:
    """All lines of one basket: who bought where, for how much (US dollars), and when (UTC)."""

    basket_id: int
    household_id: int
    store_id: int
    amount: Decimal
    created_at: datetime


def order_deliveries(basket: Basket, shares: Shares) -> Iterator[Delivery]:
    """Yield the row of an order after each change of its status.

    A late row lands 1 to 3 days after its change, a second one is a duplicate that lands a day
    later, and a bad one, always the first, has a negative amount, which the next change corrects.
    """
    to_cancel, paid_by, shipped_by, cancelled_by, when, *_ = draw(f"order-{basket.basket_id}")
    created = basket.created_at
    paid = created + (60 + paid_by % 3600) * SECOND
    shipped = paid + timedelta(days=1 + shipped_by % 3, seconds=when % 40_000)
    states = [("created", created), ("paid", paid), ("shipped", shipped)]
    if chosen(to_cancel, CANCELLED_SHARE):
        at = paid + timedelta(days=cancelled_by % 10, seconds=1 + when % 80_000)
        states = [state for state in states if state[1] < at]
        states.append(("cancelled", at))
    for status, at in states:
        yield from _row(basket, status, at, shares)


def _row(basket: Basket, status: str, at: datetime, shares: Shares) -> Iterator[Delivery]:
    key = f"order-{basket.basket_id}-{status}"
    to_late, to_duplicate, to_bad, delay_by, at_by, *_ = draw(key)
    late = chosen(to_late, shares.late)
    lands_at = delayed(at, late=late, days=delay_by, at=at_by)
    bad = status == "created" and chosen(to_bad, shares.bad)
    amount = -basket.amount - Decimal("0.01") if bad else basket.amount
    row = (
        str(basket.basket_id),
        str(basket.household_id),
        str(basket.store_id),
        status,
        amount,
        basket.created_at,
        at,
    )
    yield Delivery(lands_at, row, late=late, bad=bad)
    delay = lands_at.date() - at.date()
    if chosen(to_duplicate, shares.duplicate) and not bad and delay.days < MAX_DELAY_DAYS:
        yield Delivery(lands_at + timedelta(days=1), row, again=True)
