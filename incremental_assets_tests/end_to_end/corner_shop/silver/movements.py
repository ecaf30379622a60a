from __future__ import annotations

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Merge
from incremental_assets_tests.end_to_end.corner_shop.bronze.movements import MOVEMENTS as LANDED

MOVEMENTS = Table(
    name="silver/movements",
    description="Each movement once.",
    reads=(SameDay(LANDED),),
    key=("id",),
    schema=Contract(id=Integer(wide=True), product=Text(), moved_at=Instant()),
    write=Merge(),
)
