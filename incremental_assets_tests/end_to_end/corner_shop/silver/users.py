from __future__ import annotations

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2
from incremental_assets_tests.end_to_end.corner_shop.bronze.users import USERS as LANDED

USERS = Table(
    name="silver/users",
    description="Every version of each user.",
    reads=(SameDay(LANDED),),
    key=("id",),
    schema=Contract(id=Integer(required=True), name=Text(), age=Integer()),
    write=SCD2(),
)
