"""Movements of the stock: sales go out, deliveries come in, each with the next number. Pure.

A number is given when something moves, so what lands late leaves a gap until it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl

from incremental_assets.retail.feed.deliveries import MAX_DELAY_DAYS, Delivery, delayed
from incremental_assets.retail.feed.draws import Shares, chosen, draw

SCHEMA: Final[dict[str, Any]] = {
    "movement_id": pl.Int64,
    "product_id": pl.String,
    "store_id": pl.String,
    "delta": pl.Int64,
    "moved_at": pl.Datetime("us", "UTC"),
}


@dataclass(frozen=True, slots=True)
class Movement:
    """So many pieces of a product that came into a store (positive) or went out of it."""

    movement_id: int
    product_id: int
    store_id: int
    delta: int
    moved_at: datetime


def movement_deliveries(movement: Movement, shares: Shares) -> Iterator[Delivery]:
    """Yield the row of a movement, and its duplicate on the next day if it has one.

    A late row lands 1 to 3 days after it moved; a bad one has no `delta`.
    """
    key = f"movement-{movement.movement_id}"
    to_late, to_duplicate, to_bad, delay_by, at_by, *_ = draw(key)
    late, bad = chosen(to_late, shares.late), chosen(to_bad, shares.bad)
    lands_at = delayed(movement.moved_at, late=late, days=delay_by, at=at_by)
    row = (
        movement.movement_id,
        str(movement.product_id),
        str(movement.store_id),
        None if bad else movement.delta,
        movement.moved_at,
    )
    yield Delivery(lands_at, row, late=late, bad=bad)
    delay = lands_at.date() - movement.moved_at.date()
    if chosen(to_duplicate, shares.duplicate) and not bad and delay.days < MAX_DELAY_DAYS:
        yield Delivery(lands_at + timedelta(days=1), row, again=True)
