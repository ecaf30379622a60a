"""Movements of the stock: each number once, typed, on the day on which it moved."""

from __future__ import annotations

from incremental_assets import (
    Contract,
    Instant,
    Integer,
    Merge,
    SameDay,
    Table,
    Text,
    fail,
    not_null,
    quarantine,
    quarantined_share,
)
from incremental_assets.retail.bronze.inventory_movements import (
    INVENTORY_MOVEMENTS as LANDED_MOVEMENTS,
)

INVENTORY_MOVEMENTS = Table(
    name="silver/inventory_movements",
    description="What came into a store (positive) and went out of it (negative), per product.",
    reads=(SameDay(LANDED_MOVEMENTS),),
    key=("movement_id",),
    schema=Contract(
        on_new_column="evolve",
        movement_id=Integer(required=True, wide=True, description="Its number at the source."),
        product_id=Text(),
        store_id=Text(),
        delta=Integer(wide=True, description="Pieces that came (positive) or went (negative)."),
        moved_at=Instant(description="When it moved (UTC)."),
    ),
    rules=(
        *quarantine(
            not_null("movement_id"),
            not_null("product_id"),
            not_null("store_id"),
            not_null("delta"),
            not_null("moved_at"),
        ),
        *fail(quarantined_share(at_most=0.05)),
    ),
    write=Merge(),
    owners=("team:supply",),
)
