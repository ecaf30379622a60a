from __future__ import annotations

from incremental_assets.changes import Sequence
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append

MOVEMENTS = Table(
    name="bronze/movements",
    description="Movements of the stock.",
    reads=(Stored("movements", day="moved_at"),),
    changes=Sequence("id"),
    write=Append(),
)
