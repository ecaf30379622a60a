"""The feed of sales: a line for each product of each basket. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from incremental_assets.retail.feed.deliveries import (
    MAX_DELAY_DAYS,
    SECOND,
    Delivery,
    delayed,
    iso,
    line_of,
    within_the_day_of,
)
from incremental_assets.retail.feed.draws import Shares, chosen, draw

_LONGEST_LAG_SECONDS: Final = 300
_FOUR_DECIMALS: Final = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Purchase:
    """One product in one basket; a basket never names a product twice.

    `quantity` counts units (for fuel it is large), the amounts are US dollars for the whole line,
    `event_ts` is aware, in UTC, to the second.
    """

    household_id: int
    store_id: int
    basket_id: int
    product_id: int
    quantity: int
    sales_value: float
    retail_disc: float
    coupon_disc: float
    coupon_match_disc: float
    event_ts: datetime


def event_deliveries(purchase: Purchase, shares: Shares) -> Iterator[Delivery]:
    """Yield the line of one purchase, and its second delivery if it has one.

    A row on time arrives within minutes and never after the end of its own day; a late one 1 to
    3 days later. The second delivery is an exact duplicate (the same day or the next) or, on
    the next day only, a correction: the same `order_id`, a later `arrival_ts`, another `qty`.
    """
    key = f"{purchase.basket_id}-{purchase.product_id}"
    to_late, to_duplicate, to_bad, delay_by, lag_by, copy_by, bad_by, at_by = draw(key)
    late = chosen(to_late, shares.late)
    lag = (1 + lag_by % _LONGEST_LAG_SECONDS) * SECOND
    on_time = within_the_day_of(purchase.event_ts, lag)
    arrives = delayed(on_time, late=late, days=delay_by, at=at_by)

    row = _event(key, purchase, arrives)
    if chosen(to_bad, shares.bad):
        yield Delivery(arrives, _damaged(row, purchase, bad_by % 4), late=late, bad=True)
        return
    yield Delivery(arrives, line_of(row), late=late)
    if not chosen(to_duplicate, shares.duplicate):
        return
    last_day = arrives.date() - purchase.event_ts.date() == timedelta(days=MAX_DELAY_DAYS)
    if copy_by % 2 == 0 or last_day:
        lands_at = within_the_day_of(arrives, lag_by % 21_600 * SECOND)
    else:
        lands_at = arrives + timedelta(days=1)
        if copy_by % 4 == 1:
            row = {**row, "qty": purchase.quantity + 1, "arrival_ts": iso(lands_at)}
    yield Delivery(lands_at, line_of(row), again=True)


def _event(key: str, purchase: Purchase, arrives: datetime) -> dict[str, object]:
    return {
        "order_id": key,
        "user_id": str(purchase.household_id),
        "store_id": str(purchase.store_id),
        "product_id": str(purchase.product_id),
        "basket_id": str(purchase.basket_id),
        "qty": purchase.quantity,
        "unit_price": _unit_price(purchase),
        "retail_disc": round(purchase.retail_disc, 2),
        "coupon_disc": round(purchase.coupon_disc, 2),
        "coupon_match_disc": round(purchase.coupon_match_disc, 2),
        "event_ts": iso(purchase.event_ts),
        "arrival_ts": iso(arrives),
    }


def _unit_price(purchase: Purchase) -> float:
    """Return dollars per unit, to 4 decimals half up; the whole line's where nothing is counted.

    A float of so few digits prints as the very decimal that it was made from.
    """
    value = Decimal(str(round(purchase.sales_value, 2)))
    price = value / purchase.quantity if purchase.quantity else value
    return float(price.quantize(_FOUR_DECIMALS, ROUND_HALF_UP))


def _damaged(row: Mapping[str, object], purchase: Purchase, way: int) -> str:
    match way:
        case 0:
            return line_of({**row, "order_id": None})
        case 1:
            return line_of({**row, "unit_price": -_unit_price(purchase) or -0.01})
        case 2:
            return line_of({**row, "qty": "two"})
        case _:
            line = line_of(row)
            return line[: len(line) // 2]
