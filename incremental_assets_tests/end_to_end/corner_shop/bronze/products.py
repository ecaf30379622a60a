from __future__ import annotations

from incremental_assets.changes import SnapshotDiff
from incremental_assets.quality.rules import fail, rows_delivered
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Table
from incremental_assets.writes import Append

PRODUCTS = Table(
    name="bronze/products",
    description="What changes in the catalogue from copy to copy.",
    reads=(LandedFiles("products"),),
    changes=SnapshotDiff(("sku",), max_deleted_share=0.5),
    rules=fail(rows_delivered()),
    write=Append(),
)
