"""Orders: the latest state of each, on the day of its last change."""

from __future__ import annotations

from incremental_assets import (
    Contract,
    Decimal,
    Instant,
    Merge,
    SameDay,
    Table,
    Text,
    at_least,
    fail,
    not_null,
    quarantine,
    quarantined_share,
)
from incremental_assets.retail.bronze.orders import ORDERS as LANDED_ORDERS

ORDERS = Table(
    name="silver/orders",
    description="The latest state of each order. It may change for ever, so none is too late.",
    reads=(SameDay(LANDED_ORDERS),),
    key=("order_id",),
    version_by=("updated_at",),
    schema=Contract(
        on_new_column="evolve",
        order_id=Text(required=True),
        user_id=Text(),
        store_id=Text(),
        status=Text(),
        amount=Decimal(precision=18, scale=4),
        created_at=Instant(description="When it was placed (UTC)."),
        updated_at=Instant(description="When it last changed (UTC); the later version wins."),
    ),
    rules=(
        *quarantine(
            not_null("order_id"),
            not_null("status"),
            not_null("amount"),
            at_least("amount", 0),
            not_null("created_at"),
            not_null("updated_at"),
        ),
        *fail(quarantined_share(at_most=0.05)),
    ),
    write=Merge(),
    owners=("team:sales",),
)
