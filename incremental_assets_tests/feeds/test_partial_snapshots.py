"""Snapshots of parts of a table, such as a region: rows of other parts are not deleted."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.changes import SnapshotDiff
from incremental_assets.engine import snapshot_base
from incremental_assets.errors import DefinitionError, SnapshotError, SourceError
from incremental_assets.loaders import DeltaDiffLoader
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table, TableInput
from incremental_assets.verifying.verify import verify
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, states

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


def stock(shop: Lake) -> list[tuple[Any, ...]]:
    return shop.rows("silver/stock", "sku", "region", "pieces")


def test_a_snapshot_of_a_region_ends_its_own_rows_alone(lake: Lakes) -> None:
    shop = lake(*tables(Merge()))
    land(shop, 1, "north", a=1, b=2)
    land(shop, 1, "south", c=3)
    land(shop, 2, "north", a=5)
    land(shop, 3, "south", d=4, a=7)  # c is gone, and a has moved
    land(shop, 4, "north", e=1)
    shop.load(DAYS)

    assert stock(shop) == [("a", "south", 7), ("d", "south", 4), ("e", "north", 1)]
    land(shop, 5, None, f=1)
    land(shop, 6, None, g=1)
    shop.load(DAYS)
    assert stock(shop)[3:] == [("g", None, 1)]
    assert all(verify(shop.lakehouse, table).equal for table in shop.tables.values())


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


def test_the_share_of_deletes_is_of_the_region(lake: Lakes) -> None:
    shop = lake(*tables(Merge(), share=0.5))
    land(shop, 1, "north", a=1, b=2, c=3)
    land(shop, 1, "south", **{f"s{n}": n for n in range(9)})
    land(shop, 2, "north", a=1)

    found = shop.load(DAYS)

    assert states(found, "bronze/stock")[:2] == ["committed", "held"]


def test_the_loader_ends_rows_of_the_regions_that_a_snapshot_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "stock").mkdir()

    def load(*rows: tuple[str, str | None, int], **options: Any) -> tuple[int, int, int]:
        frame = pl.DataFrame(rows, schema=["sku", "region", "pieces"], orient="row")
        frame = frame.with_columns(pl.col("region").cast(pl.String))
        frame.write_parquet(tmp_path / "stock" / "1.parquet")
        done = DeltaDiffLoader(spark).detect_changes(
            tmp_path / "stock",
            tmp_path / "target",
            tmp_path / "snapshot",
            "sku",
            "stock",
            scope="region",
            **{"max_deleted_share": 0.5} | options,
        )["result"]
        return done.records_inserted, done.records_updated, done.records_deleted

    assert load(("a", "north", 1), ("b", "north", 2), ("c", "south", 3), ("n", None, 1)) == (
        4,
        0,
        0,
    )
    assert load(("a", "north", 5)) == (0, 1, 1)
    assert load(("a", "south", 5), ("d", "south", 1), max_deleted_share=1) == (1, 1, 1)
    assert load(("m", None, 1), max_deleted_share=1) == (1, 0, 1)
    target = pl.read_delta(str(tmp_path / "target")).select("sku", "region")
    assert sorted(target.rows()) == [("a", "south"), ("d", "south"), ("m", None)]
    with pytest.raises(SnapshotError, match="would delete 2 of 2 rows"):
        load(("x", "south", 5))


def test_a_scope_is_a_tuple_of_columns() -> None:
    with pytest.raises(DefinitionError, match=r"scope is 'region'; expected a tuple"):
        SnapshotDiff(("sku",), scope="region")  # type: ignore[arg-type]


def test_a_scope_that_is_ignored_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"\['region'\] are in scope and in ignore"):
        SnapshotDiff(("sku",), ignore=("region", "note"), scope=("region",))


def test_a_snapshot_without_a_column_of_the_scope_is_an_error(lake: Lakes) -> None:
    shop = lake(*tables(Merge()))
    land(shop, 1, "north", a=1)
    land(shop, 1, "south", b=2, c=3)
    shop.load("2017-01-01")
    for day, sku in ((2, "b"), (3, "a")):  # taken for one region, the second ends the first
        row = {"sku": sku, "area": "a", "pieces": 1}
        shop.land("stock", f"2017-01-0{day}", "1.jsonl", [row])

        with pytest.raises(SourceError, match="no row of the snapshot has 'region'"):
            shop.load(f"2017-01-0{day}")

    shop.land("stock", "2017-01-04", "1.jsonl", [{"sku": "d"}, {"sku": "e", "region": None}])
    shop.load("2017-01-04")
    assert [row[0] for row in stock(shop)] == ["a", "b", "c", "d", "e"]


def test_regions_that_come_one_after_the_other_on_a_day_are_all_there(lake: Lakes) -> None:
    shop = lake(*tables(Merge(), read=Stored("stock", format="json")))

    def put(day: int, *rows: tuple[str, str, int] | str) -> list[tuple[Any, ...]]:
        names = ("sku", "region", "pieces")
        lines = [r if isinstance(r, str) else dict(zip(names, r, strict=True)) for r in rows]
        shop.land("stock", "", "1.jsonl", lines)
        shop.now = datetime(2017, 1, day, 12, tzinfo=UTC)
        shop.load(f"2017-01-{day:02}")
        return stock(shop)

    put(1, ("a", "north", 1), ("b", "north", 2))
    assert put(1, ("c", "south", 3)) == [("a", "north", 1), ("b", "north", 2), ("c", "south", 3)]
    put(2, ("a", "north", 5))
    assert put(2, ("d", "south", 4)) == [("a", "north", 5), ("d", "south", 4)]
    assert put(2, ("a", "south", 7)) == [("a", "south", 7)]
    put(3, ("e", "north", 1), "no JSON")  # which may be any row of the north
    put(3, ("f", "south", 1))
    assert put(3, ("f", "south", 2)) == [("a", "south", 7), ("e", "north", 1), ("f", "south", 2)]
    assert len(shop.bronze("bronze/stock")) == 10
    assert verify(shop.lakehouse, shop.tables["silver/stock"]).equal


def test_a_region_that_cannot_be_read_is_none(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "stock").mkdir()

    def load(lines: str) -> list[tuple[Any, ...]]:
        (tmp_path / "stock" / "1.json").write_text(lines)
        DeltaDiffLoader(spark).detect_changes(
            tmp_path / "stock",
            tmp_path / "target",
            tmp_path / "snapshot",
            "sku",
            "stock",
            scope="region",
            source_format="json",
            max_deleted_share=1,
        )
        return sorted(pl.read_delta(str(tmp_path / "target")).select("sku", "region").rows())

    load('{"sku": "a", "region": 1}\n{"sku": "b", "region": 2}\n{"sku": "n", "region": null}\n')

    found = load('{"sku": "a", "region": "?"}\n{"sku": "c", "region": 2}\n')

    assert found == [("a", 1), ("c", 2), ("n", None)]


def test_a_snapshot_of_a_small_part_does_not_write_the_base_of_the_whole_again(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_base, "FEW_ROWS", 0)
    shop = lake(*tables(Merge()))
    land(shop, 1, "north", **{f"n{n}": n for n in range(30)})
    for day in range(2, 7):
        land(shop, day, "south", s=day)
    shop.load("2017-01-01...2017-01-06", "bronze/stock")

    assert DeltaTable(snapshot_base.base_path(shop.path("bronze/stock"))).version() == 1


def test_a_target_of_parts_is_verified_by_the_part_that_came_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "stock").mkdir()
    paths = (tmp_path / name for name in ("stock", "target", "snapshot"))
    target = DeltaDiffLoader(spark).target(*paths, "sku", "stock", scope="region")
    for rows in ([("a", "north"), ("b", None)], [("c", "south"), ("d", "south")]):
        frame = pl.DataFrame(rows, schema=["sku", "region"], orient="row")
        frame.write_parquet(tmp_path / "stock" / "1.parquet")
        target.load()

    found = target.verify()

    assert found.equal
    assert [day.compared for day in found.rows.days] == [2]
    assert found.notes == (
        "not compared: 2 rows of parts of the table that the last snapshot does not have",
    )


def test_snapshots_of_parts_after_one_that_is_gone_are_not_compared(lake: Lakes) -> None:
    shop = lake(*tables(Merge()))
    land(shop, 1, "north", a=1, b=1)
    land(shop, 2, "north", a=2)
    land(shop, 3, "south", c=3)
    land(shop, 4, "north", a=2, d=4)
    shop.load("2017-01-01...2017-01-04", "bronze/stock")
    (shop.source("stock") / "2017-01-02" / "north.jsonl").unlink()

    found = verify(shop.lakehouse, shop.tables["bronze/stock"])

    assert found.equal
    assert [str(day) for day in found.left_out] == ["2017-01-02", "2017-01-03", "2017-01-04"]
