"""What changes in the catalogue from one day's snapshot to the next."""

from __future__ import annotations

from incremental_assets import (
    Append,
    LandedFiles,
    SnapshotDiff,
    Table,
    fail,
    rows_delivered,
)

PRODUCTS = Table(
    name="bronze/products",
    description="Products that were added, changed or deleted since the snapshot before.",
    reads=(LandedFiles("products"),),
    changes=SnapshotDiff(("product_id",)),
    rules=fail(rows_delivered()),
    write=Append(),
    owners=("team:ingest",),
)
