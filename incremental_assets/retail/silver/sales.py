"""Sales: one row per line of a basket, on the day it was sold."""

from __future__ import annotations

from incremental_assets import (
    Contract,
    Decimal,
    Instant,
    Integer,
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
from incremental_assets.retail.bronze.events import EVENTS

SALES = Table(
    name="silver/sales",
    description="One row per line of a basket, typed, the latest version of each.",
    reads=(SameDay(EVENTS),),
    key=("order_id",),
    version_by=("arrival_ts",),
    day="event_ts",
    allowed_lateness="default",
    schema=Contract(
        on_new_column="evolve",
        order_id=Text(required=True, description="One line of a basket."),
        user_id=Text(),
        store_id=Text(),
        product_id=Text(),
        qty=Integer(description="Pieces."),
        unit_price=Decimal(precision=18, scale=4, description="Of one piece."),
        event_ts=Instant(description="When it was sold (UTC); its date is the business day."),
        arrival_ts=Instant(description="When it was sent (UTC); of two versions the later wins."),
    ),
    rules=(
        *quarantine(
            not_null("order_id"),
            not_null("event_ts"),
            not_null("qty"),
            at_least("qty", 0),
            not_null("unit_price"),
            at_least("unit_price", 0),
        ),
        *fail(quarantined_share(at_most=0.05)),
    ),
    write=Merge(),
    owners=("team:sales",),
)
