"""Products: every version of each, with the time in which it was valid."""

from __future__ import annotations

from incremental_assets import (
    SCD2,
    Contract,
    SameDay,
    Table,
    Text,
    fail,
    not_null,
    quarantine,
    quarantined_share,
)
from incremental_assets.retail.bronze.products import PRODUCTS as LANDED_PRODUCTS

PRODUCTS = Table(
    name="silver/products",
    description="Every version of each product, from the snapshot that first had it.",
    reads=(SameDay(LANDED_PRODUCTS),),
    key=("product_id",),
    schema=Contract(on_new_column="evolve", product_id=Text(required=True)),
    rules=(*quarantine(not_null("product_id")), *fail(quarantined_share(at_most=0.05, min_rows=5))),
    write=SCD2(),
    owners=("team:catalogue",),
)
