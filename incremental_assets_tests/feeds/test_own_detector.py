"""A detector of somebody's own, of which nothing but its name is defined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from incremental_assets.changes.detector import Detector
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_timestamp import orders

TODAY = "2017-01-10"
FIRST = (("a", "paid", "05 10:00"), ("b", "paid", "05 11:00"))


@dataclass(frozen=True)
class Everything(Detector):
    name: ClassVar[str] = "everything"


def test_a_detector_without_anything_of_its_own_loads_each_row_once(lake: Lakes) -> None:
    table = Table(
        name="bronze/orders",
        description="All that the source has.",
        reads=(Stored("orders"),),
        changes=Everything(),
        write=Append(),
    )
    shop = lake(table)
    shop.put_parquet("orders", "all.parquet", orders(*FIRST))
    shop.load(TODAY)
    shop.put_parquet("orders", "all.parquet", orders(*FIRST, ("c", "paid", "06 09:00")))

    assert shop.pending_days(table.name) == [TODAY]
    shop.load(TODAY)

    loaded = [(TODAY, "a"), (TODAY, "b"), (TODAY, "c")]
    assert shop.bronze(table.name, "order_id") == loaded
    assert shop.pending_days(table.name) == []
    TableRewind(shop.lakehouse, table).record(0, "to see")
    shop.load(TODAY)
    assert shop.bronze(table.name, "order_id") == loaded
