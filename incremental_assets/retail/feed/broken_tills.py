"""A day on which the tills of two stores are broken, so that a gate has something to hold. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from incremental_assets.retail.feed.deliveries import Delivery, line_of

_STORES: Final = 2
"""So many of the busiest stores sell 6 to 9 % of a day's lines; 5 % in quarantine hold a day."""


def with_decimal_commas(deliveries: Sequence[Delivery]) -> Iterator[Delivery]:
    """Yield a day's lines, those of the busiest stores with prices such as `"1,99"`.

    It is what a till sends after somebody has set it to another country. Lines that are no JSON
    stay as they are.
    """
    rows = [_row(delivery.what) for delivery in deliveries]
    lines = Counter(row["store_id"] for row in rows if row)
    busiest = sorted(lines, key=lambda store: (-lines[store], store))[:_STORES]
    for delivery, row in zip(deliveries, rows, strict=True):
        if row.get("store_id") in busiest:
            price = str(row["unit_price"]).replace(".", ",")
            yield replace(delivery, what=line_of({**row, "unit_price": price}), bad=True)
        else:
            yield delivery


def _row(line: str) -> dict[str, Any]:
    try:
        row: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}
    return row
