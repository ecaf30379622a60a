"""What changes in the catalogue from one day's full copy to the next."""

from __future__ import annotations

from incremental_assets.changes import SnapshotDiff
from incremental_assets.lake.strategy import Append
from incremental_assets.quality.rules import fail, rows_delivered
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Table

PRODUCTS = Table(
    name="bronze/products",
    description="Products that came, changed or went, told by each day's copy of the catalogue.",
    reads=(LandedFiles("products"),),
    changes=SnapshotDiff(("product_id",)),
    rules=fail(rows_delivered()),
    write=Append(),
    owners=("team:ingest",),
)
