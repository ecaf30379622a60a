"""Movements of the stock as they were numbered at their source, each once."""

from __future__ import annotations

from incremental_assets import Append, Sequence, Stored, Table

INVENTORY_MOVEMENTS = Table(
    name="bronze/inventory_movements",
    description="Movements of the stock, each number once, on the day on which it moved.",
    reads=(Stored("inventory_movements", day="moved_at"),),
    changes=Sequence("movement_id"),
    write=Append(),
    owners=("team:ingest",),
)
