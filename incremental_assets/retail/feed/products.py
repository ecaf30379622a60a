"""The catalogue: a snapshot each day, in which products are added, changed and deleted. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from typing import Final

import polars as pl

from incremental_assets.retail.feed.draws import Shares, chosen, draw

LISTED_SHARE: Final = 0.03
"""The share of the products that are not in the catalogue from the start."""

DELISTED_SHARE: Final = 0.02
"""The share that is deleted; every other one of these is added again 30 days later."""

CHANGED_SHARE: Final = 0.15
"""The share that changes once in the year: its brand, its package size or its type."""

_ATTRIBUTES: Final = (
    "product_id",
    "manufacturer_id",
    "department",
    "brand",
    "product_category",
    "product_type",
    "package_size",
)
_BEGIN: Final = date(2017, 1, 1)
_DAYS: Final = 365
_AWAY_DAYS: Final = 30
_DAMAGED_OF_A_THOUSAND: Final = 20


def catalogue(products: pl.DataFrame) -> pl.DataFrame:
    """Add to each product the days on which it is listed, deleted, added again and changed.

    They count from the start of the year; null is never.

    Takes `product_id: int` and its attributes; adds `_listed`, `_delisted`, `_back`, `_changed:
    int` and `_kind: int`, which is what changes.
    """
    products = products.sort("product_id")
    plans = [_plan(product) for product in products["product_id"]]
    names = ("_listed", "_delisted", "_back", "_changed", "_kind")
    return products.hstack(pl.DataFrame(plans, dict.fromkeys(names, pl.Int32), orient="row"))


def _plan(product: int) -> Sequence[int | None]:
    to_list, to_go, to_change, listed, delisted, back, changed, kind = draw(f"product-{product}")
    leaves = 1 + delisted % _DAYS if chosen(to_go, DELISTED_SHARE) else None
    returns = leaves + _AWAY_DAYS if leaves is not None and back % 2 else None
    return (
        1 + listed % _DAYS if chosen(to_list, LISTED_SHARE) else 0,
        leaves,
        returns,
        1 + changed % _DAYS if chosen(to_change, CHANGED_SHARE) else None,
        kind % 3,
    )


def catalogue_on(products: pl.DataFrame, day: date, shares: Shares) -> tuple[bytes, int, int]:
    """Return a day's snapshot as JSON lines, with the number of its lines and of the bad ones.

    Takes a `catalogue`. A product that is new to the catalogue is listed on its day or later. Of
    a few snapshots, more with more bad rows, one line is cut in half.
    """
    at = (day - _BEGIN).days
    away = (pl.col("_delisted") <= at) & (pl.col("_back").is_null() | (pl.col("_back") > at))
    here = (pl.col("_listed") <= at) & ~away.fill_null(value=False)
    other = pl.when(pl.col("brand") == "National").then(pl.lit("Private"))
    changes = {
        "brand": other.otherwise(pl.lit("National")),
        "product_type": pl.coalesce(pl.format("{} - NEW", "product_type"), pl.lit("NEW")),
        "package_size": pl.coalesce(pl.format("{} PACK OF 2", "package_size"), pl.lit("PACK OF 2")),
    }
    changed = (pl.col("_changed") <= at).fill_null(value=False)
    now = [
        pl.when(changed & (pl.col("_kind") == kind)).then(new).otherwise(pl.col(name)).alias(name)
        for kind, (name, new) in enumerate(changes.items())
    ]
    ids = pl.col("product_id", "manufacturer_id").cast(pl.String)
    lines = products.filter(here).with_columns(*now, ids).select(*_ATTRIBUTES)
    target = io.BytesIO()
    lines.write_ndjson(target)
    content = target.getvalue()
    to_bad, which, *_ = draw(f"copy-{day}")
    if lines.is_empty() or not chosen(to_bad, shares.bad * _DAMAGED_OF_A_THOUSAND):
        return content, len(lines), 0
    every = content.splitlines(keepends=True)
    line = every[which % len(every)]
    every[which % len(every)] = line[: len(line) // 2] + b"\n"
    return b"".join(every), len(lines), 1
