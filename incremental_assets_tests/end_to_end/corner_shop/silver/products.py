from __future__ import annotations

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Text
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Merge
from incremental_assets_tests.end_to_end.corner_shop.bronze.products import PRODUCTS as LANDED

PRODUCTS = Table(
    name="silver/products",
    description="The catalogue as it is now.",
    reads=(SameDay(LANDED),),
    key=("sku",),
    schema=Contract(sku=Text(required=True), name=Text(), price=Decimal()),
    write=Merge(),
)
