"""Snapshots of parts of a table, such as a region: rows of other parts are not deleted."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.changes import SnapshotDiff
from incremental_assets.engine import snapshot_base
from incremental_assets.errors import DefinitionError, SnapshotError, SourceError
from incremental_assets.loaders import DeltaDiffLoader
from incremental_assets.loaders.target import Target
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table, TableInput
from incremental_assets.verifying.verify import verify
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds import test_snapshots as copies
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

DAYS = "2017-01-01...2017-01-09"


def tables(
    write: Merge | SCD2, share: float = 1.0, read: TableInput | None = None
) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/stock",
        description="What changes in the stock of each region.",
        reads=(read or LandedFiles("stock"),),
        changes=SnapshotDiff(("sku",), scope=("region",), max_deleted_share=share),
        write=Append(),
    )
    silver = Table(
        name="silver/stock",
        description="The stock.",
        reads=(SameDay(bronze),),
        key=("sku",),
        schema=Contract(sku=Text(required=True), region=Text(), pieces=Integer()),
        write=write,
    )
    return bronze, silver


def land(shop: Lake, day: int, region: str | None, **pieces: int) -> None:
    rows = [{"sku": sku, "region": region, "pieces": n} for sku, n in pieces.items()]
    shop.land("stock", f"2017-01-{day:02}", f"{region}.jsonl", rows)


def operations(shop: Lake) -> list[tuple[str, str, str]]:
    """Landing day, operation and SKU of what bronze holds."""
    return [
        (day, kind, key.strip('[]"')) for day, kind, key in copies.operations(shop, "bronze/stock")
    ]


def of_regions(lake: Lakes) -> Lake:
    """Snapshots of regions, of which one comes late."""
    shop = lake(*tables(SCD2()))
    land(shop, 1, "north", a=1, b=2)
    land(shop, 1, "south", c=3)
    land(shop, 3, "south", d=4, a=7)  # c is gone, and a has moved
    land(shop, 4, "north", e=1)
    shop.load("2017-01-01...2017-01-04", "bronze/stock")
    land(shop, 2, "north", a=5)  # late
    land(shop, 5, None, f=1)
    land(shop, 6, None, g=1)
    shop.load(DAYS)
    return shop


def test_a_snapshot_of_a_region_ends_its_own_rows_alone_also_one_that_comes_late(
    lake: Lakes,
) -> None:
    shop = lake.copy_of(of_regions)

    versions = shop.rows("silver/stock", "sku", "region", "pieces", "valid_from", "valid_to")

    assert [(*row, begin[:5], end and end[:5]) for *row, begin, end in versions] == [
        ("a", "north", 1, "01-01", "01-02"),
        ("a", "north", 5, "01-02", "01-03"),
        ("a", "south", 7, "01-03", None),
        ("b", "north", 2, "01-01", "01-02"),
        ("c", "south", 3, "01-01", "01-03"),
        ("d", "south", 4, "01-03", None),
        ("e", "north", 1, "01-04", None),
        ("f", None, 1, "01-05", "01-06"),
        ("g", None, 1, "01-06", None),
    ]
    assert all(verify(shop.lakehouse, table).equal for table in shop.tables.values())


@thorough(
    "verifying/test_kinds.py, feeds/test_partial_snapshots.py: whole snapshots, of which one is gone"
)
def test_snapshots_of_parts_after_one_that_is_gone_are_not_compared(lake: Lakes) -> None:
    shop = lake.copy_of(of_regions)
    (shop.source("stock") / "2017-01-04" / "north.jsonl").unlink()

    found = verify(shop.lakehouse, shop.tables["bronze/stock"])

    assert found.equal
    assert [str(day) for day in found.left_out] == ["2017-01-04", "2017-01-05", "2017-01-06"]


def test_the_share_of_deletes_is_of_the_region(lake: Lakes) -> None:
    shop = lake.copy_of(of_regions)
    shop = shop.with_tables(*tables(SCD2(), share=0.4))
    land(shop, 7, "south", d=4)  # one of two, and one of four of all regions

    found = shop.load("2017-01-07", "bronze/stock")

    assert states(found, "bronze/stock") == ["held"]


@thorough("feeds/test_partial_snapshots.py: one snapshot that comes late")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_snapshots_of_regions_give_one_history_in_any_order(lake: Lakes, seed: int) -> None:
    chance = random.Random(seed)
    shop = lake(*tables(SCD2()))
    other = shop.another("shuffled")
    days = list(range(1, 7))
    for day in days:
        for region in chance.sample(["north", "south"], chance.choice([1, 1, 2])):
            skus = {f"{region}{n}": chance.randrange(3) for n in range(4) if chance.random() < 0.7}
            land(shop, day, region, **(skus or {f"{region}0": 0}))
    shop.load("2017-01-01...2017-01-06")
    chance.shuffle(days)

    for day in days:
        other.load(f"2017-01-{day:02}")
    other.load_stale()

    columns = ("sku", "region", "pieces", "valid_from", "valid_to")
    assert other.rows("silver/stock", *columns) == shop.rows("silver/stock", *columns)


@thorough(
    "feeds/test_partial_snapshots.py, loaders/test_snapshots.py: regions in the lake, whole copies by the loader"
)
def test_the_loader_ends_rows_of_the_regions_that_a_snapshot_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "stock").mkdir()
    paths = [tmp_path / name for name in ("stock", "target", "snapshot")]

    def loader(share: float) -> Target:
        options = {"scope": "region", "source_format": "json", "max_deleted_share": share}
        return DeltaDiffLoader(spark).target(*paths, "sku", "stock", **options)  # type: ignore[arg-type]

    def load(*rows: tuple[str, int | str | None], share: float = 1) -> tuple[int, int, int]:
        lines = [json.dumps({"sku": sku, "region": region}) for sku, region in rows]
        (tmp_path / "stock" / "1.json").write_text("\n".join(lines))
        done = loader(share).load()
        return done.records_inserted, done.records_updated, done.records_deleted

    assert load(("a", 1), ("b", 1), ("c", 2), ("n", None)) == (4, 0, 0)
    assert load(("a", 2), ("d", 2)) == (1, 1, 1)
    found = loader(1).verify()
    assert found.equal
    assert [day.compared for day in found.rows.days] == [2]
    parts = "not compared: 2 rows of parts of the table that the last snapshot does not have"
    assert found.notes == (parts,)
    # A region that cannot be read is none: neither the one without, nor any other.
    assert load(("b", "?"), ("d", 2), ("e", 2)) == (1, 0, 1)
    assert load(("m", None)) == (1, 0, 1)
    target = pl.read_delta(str(tmp_path / "target")).select("sku", "region")
    assert sorted(target.rows()) == [("b", 1), ("d", 2), ("e", 2), ("m", None)]
    with pytest.raises(SnapshotError, match="would delete 2 of 2 rows"):
        load(("x", 2), share=0.5)


def test_a_scope_is_a_tuple_of_columns() -> None:
    with pytest.raises(DefinitionError, match=r"scope is 'region'; expected a tuple"):
        SnapshotDiff(("sku",), scope="region")  # type: ignore[arg-type]


def test_a_scope_that_is_ignored_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"\['region'\] are in scope and in ignore"):
        SnapshotDiff(("sku",), ignore=("region", "note"), scope=("region",))


def test_a_snapshot_without_a_column_of_the_scope_is_an_error(lake: Lakes) -> None:
    shop = lake.copy_of(of_regions)
    before = operations(shop)
    row = {"sku": "e", "area": "a", "pieces": 1}
    shop.land("stock", "2017-01-07", "1.jsonl", [row])

    with pytest.raises(SourceError, match="no row of the snapshot has 'region'"):
        shop.load("2017-01-07", "bronze/stock")

    shop.land("stock", "2017-01-08", "1.jsonl", [{"sku": "h"}, {"sku": "g", "region": None}])
    shop.load("2017-01-08", "bronze/stock")
    found = [each for each in operations(shop) if each not in before]
    assert found == [("08", "insert", "h"), ("08", "update", "g")]


@thorough("feeds/test_partial_snapshots.py: regions of several days, also late ones")
def test_regions_that_come_one_after_the_other_on_a_day_are_all_there(lake: Lakes) -> None:
    shop = lake(tables(Merge(), read=Stored("stock", format="json"))[0])

    def put(day: int, *rows: tuple[str, str, int] | str) -> list[tuple[str, str, str]]:
        names = ("sku", "region", "pieces")
        lines = [r if isinstance(r, str) else dict(zip(names, r, strict=True)) for r in rows]
        shop.land("stock", "", "1.jsonl", lines)
        shop.now = datetime(2017, 1, day, 12, tzinfo=UTC)
        shop.load(f"2017-01-{day:02}")
        return [each for each in operations(shop) if each[0] == f"{day:02}"]

    put(1, ("a", "north", 1), ("b", "north", 2), ("c", "south", 3))
    north = [("02", "delete", "b"), ("02", "update", "a")]
    assert put(2, ("a", "north", 5)) == north
    south = [("02", "delete", "c"), ("02", "insert", "d")]
    assert put(2, ("d", "south", 4)) == sorted([*north, *south])
    assert put(2, ("a", "south", 7)) == sorted([*north, ("02", "delete", "c")])  # a has moved
    bad = [("03", "insert", "None"), ("03", "insert", "e")]
    assert put(3, ("e", "north", 1), "no JSON") == bad
    # What could not be read may be any row of the day before.
    found = put(3, ("f", "south", 1))
    assert found == [("03", "carried", "a"), *bad, ("03", "insert", "f")]


@thorough("feeds/test_snapshot_base.py: the base of whole snapshots")
def test_a_snapshot_of_a_small_part_does_not_write_the_base_of_the_whole_again(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_base, "FEW_ROWS", 0)
    shop = lake(*tables(Merge()))
    land(shop, 1, "north", **{f"n{n}": n for n in range(30)})
    for day in range(2, 5):
        land(shop, day, "south", s=day)
    shop.load("2017-01-01...2017-01-04", "bronze/stock")

    assert DeltaTable(snapshot_base.base_path(shop.path("bronze/stock"))).version() == 1
