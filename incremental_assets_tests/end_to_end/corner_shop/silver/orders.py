from __future__ import annotations

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Text
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Merge
from incremental_assets_tests.end_to_end.corner_shop.bronze.orders import ORDERS as LANDED

ORDERS = Table(
    name="silver/orders",
    description="The latest state of each order, on the day of its last change.",
    reads=(SameDay(LANDED),),
    key=("order_id",),
    version_by=("updated_at",),
    schema=Contract(
        order_id=Text(required=True), status=Text(), amount=Decimal(), updated_at=Instant()
    ),
    write=Merge(),
)
