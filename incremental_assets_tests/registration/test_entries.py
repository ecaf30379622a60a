"""Entries of a catalog: made once, never over another one, and without a commit of Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.errors import EntryError
from incremental_assets.registration.entries import enter, entry, is_same_location, parsed
from incremental_assets.registration.statements import catalog_name
from incremental_assets.settings import Settings
from incremental_assets_tests.scenarios.world import TABLES

SALES = TABLES["silver/sales"]
NAME = "spark_catalog.shop_silver.sales"


@pytest.fixture
def sales(named: Settings) -> str:
    """The path of a Delta table where silver's sales are."""
    path = f"{named.lake}/{SALES.name}"
    rows = pl.DataFrame({"order_id": ["a"], "qty": [1], "dt": [date(2017, 1, 5)]})
    rows.write_delta(path, delta_write_options={"partition_by": ["dt"]})
    return path


def test_a_table_is_entered_once_and_spark_commits_nothing(
    spark: SparkSession, named: Settings, sales: str
) -> None:
    spark.range(1).createOrReplaceTempView("sales")  # which is listed with every schema's tables
    first, second = enter(spark, named, SALES), enter(spark, named, SALES)
    spark.catalog.dropTempView("sales")

    found = entry(spark, catalog_name(named, SALES)) or {}
    assert (first, second) == (True, False)
    assert (found["Type"], found["Comment"]) == ("EXTERNAL", SALES.description)
    assert spark.table(NAME).count() == 1
    assert DeltaTable(sales).version() == 0


def test_a_description_that_looks_like_an_entry_and_a_path_of_odd_signs_are_taken_as_they_are(
    spark: SparkSession, named: Settings
) -> None:
    odd = named.replace(lake=f"{named.lake} a b#ü")
    pl.DataFrame({"qty": [1]}).write_delta(f"{odd.lake}/{SALES.name}")
    text = "One row.\nType: VIEW\nProvider: parquet\nLocation: /there"
    table = replace(SALES, description=text)

    assert [enter(spark, odd, table), enter(spark, odd, table)] == [True, False]
    found = entry(spark, catalog_name(odd, table)) or {}
    assert (found["Type"], found["Provider"]) == ("EXTERNAL", "delta")
    assert found["Comment"] == "One row. Type: VIEW Provider: parquet Location: /there"
    assert spark.table(NAME).count() == 1


def test_a_comment_of_several_lines_hides_nothing_of_an_entry() -> None:
    found = parsed(
        "Type: EXTERNAL\nProvider: delta\nComment: a\nType: VIEW\nProvider: csv\n"
        "Location: /there\nLocation: file:/here\nSchema: root\n |-- qty: long"
    )

    assert [found[name] for name in ("Type", "Provider", "Location")] == [
        "EXTERNAL",
        "delta",
        "file:/here",
    ]


@pytest.mark.parametrize(
    ("in_catalog", "ours", "is_same"),
    [
        ("file:/data/lake/t", "/data/lake/t", True),
        ("file:/data/a%20b/t", "/data/a b/t", True),
        ("file:/data/a%2520b/t", "/data/a%20b/t", True),
        ("file:/data/a%20b/t", "/data/a%20b/t", False),
        ("hdfs://nn:8020/lake/t", "hdfs:///lake/t", True),
        ("hdfs://nn:8020/lake/t", "hdfs://other:8020/lake/t", False),
        ("hdfs://nn:8020/data/lake/t", "/data/lake/t", False),
        ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@a.dfs.core.windows.net/t/", True),
        ("s3a://shop/lake/t", "s3://shop/lake/t", True),
        ("s3a://shop/lake/t", "gs://shop/lake/t", False),
    ],
)
def test_a_place_is_the_same_however_a_client_of_the_store_spells_it(
    in_catalog: str, ours: str, is_same: bool
) -> None:
    assert is_same_location(in_catalog, ours) is is_same


def test_a_table_that_spark_does_not_find_is_not_created(
    spark: SparkSession, named: Settings
) -> None:
    with pytest.raises(EntryError, match="Spark does not find the table"):
        enter(spark, named, SALES)

    assert not Path(f"{named.lake}/{SALES.name}").exists()


def test_a_refusal_of_one_table_is_no_outage(
    spark: SparkSession, named: Settings, sales: str
) -> None:
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    in_the_way = warehouse / "shop_silver.db"
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.touch()

    try:
        with pytest.raises(EntryError, match=f"cannot be registered as {NAME}: "):
            enter(spark, named, SALES)
    finally:
        in_the_way.unlink()


def test_a_column_and_a_row_that_a_load_adds_are_there_at_once(
    spark: SparkSession, named: Settings, sales: str
) -> None:
    enter(spark, named, SALES)
    before = spark.table(NAME).columns

    more = pl.DataFrame({"order_id": ["b"], "dt": [date(2017, 1, 6)], "channel": ["app"]})
    more.write_delta(sales, mode="append", delta_write_options={"schema_mode": "merge"})

    assert spark.table(NAME).columns == [*before, "channel"]
    assert spark.table(NAME).count() == 2


def test_a_table_that_was_dropped_from_the_catalog_keeps_its_files_and_is_entered_again(
    spark: SparkSession, named: Settings, sales: str
) -> None:
    enter(spark, named, SALES)
    spark.sql(f"DROP TABLE {NAME}").collect()

    assert DeltaTable(sales).version() == 0
    assert enter(spark, named, SALES)
    assert spark.table(NAME).count() == 1


@pytest.mark.parametrize("is_gone", [False, True], ids=["a copy", "moved"])
def test_a_lake_that_was_moved_is_refused_with_the_remedy(
    spark: SparkSession, named: Settings, sales: str, is_gone: bool
) -> None:
    enter(spark, named, SALES)
    moved = named.replace(lake=f"{named.lake}_2")
    shutil.copytree(named.lake, moved.lake)
    if is_gone:
        shutil.rmtree(named.lake)

    with pytest.raises(EntryError) as refused:
        enter(spark, moved, SALES)

    assert str(refused.value).startswith(
        f"{NAME} is an external table at file:{sales}, and {SALES.name} is at {moved.lake}/{SALES.name}: it "
        "was not registered. If the lake was moved, remove its old entry (DROP TABLE "
        "`spark_catalog`.`shop_silver`.`sales`: that leaves the files of an external table where "
        "they are)"
    )
    spark.sql("DROP TABLE `spark_catalog`.`shop_silver`.`sales`").collect()
    assert enter(spark, moved, SALES)
    assert spark.table(NAME).count() == 1


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("VIEW {} AS SELECT 1 AS a", "is a view, and not the Delta table"),
        ("TABLE {} (a INT) USING PARQUET", "is a managed table of PARQUET, and not"),
        ("TABLE {} (a INT) USING DELTA", "is a managed table at file:"),
    ],
    ids=["a view", "parquet", "Delta"],
)
def test_something_else_under_the_name_is_left_as_it_is_and_named(
    spark: SparkSession, named: Settings, sales: str, made: str, what: str
) -> None:
    spark.sql("CREATE SCHEMA spark_catalog.shop_silver").collect()
    spark.sql("CREATE " + made.format(NAME)).collect()

    with pytest.raises(EntryError) as refused:
        enter(spark, named, SALES)

    assert f"{NAME} {what}" in str(refused.value)
    assert "DROP TABLE" not in str(refused.value)
    assert "set INCREMENTAL_ASSETS_CATALOG_SCHEMA to" in str(refused.value)
    assert spark.table(NAME).columns == ["a"]
    kind = "VIEW" if "VIEW" in made else "TABLE"
    spark.sql(f"DROP {kind} {NAME}").collect()


def test_a_managed_entry_of_the_same_files_is_refused_for_dropping_it_deletes_them(
    spark: SparkSession, named: Settings, tmp_path: Path
) -> None:
    lake = named.replace(lake=str(tmp_path / "warehouse"))
    spark.sql(f"CREATE SCHEMA spark_catalog.shop_silver LOCATION '{lake.lake}/silver'").collect()
    spark.sql(f"CREATE TABLE {NAME} (a INT) USING DELTA").collect()

    with pytest.raises(EntryError, match=r"is a managed table at .*: whoever drops it deletes"):
        enter(spark, lake, SALES)
