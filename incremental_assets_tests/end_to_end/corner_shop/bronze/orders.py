from __future__ import annotations

from incremental_assets.changes import Timestamp
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append

ORDERS = Table(
    name="bronze/orders",
    description="Orders as the shop's table had them.",
    reads=(Stored("orders"),),
    changes=Timestamp("updated_at"),
    write=Append(),
)
