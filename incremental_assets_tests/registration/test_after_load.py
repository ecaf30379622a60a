"""Loads with a catalog: they publish what they would without one, whatever becomes of it there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.delta.writable import fields_of
from incremental_assets.errors import CatalogError, SettingsError, SparkUnavailableError
from incremental_assets.registration import Registration, planned
from incremental_assets.settings import Settings
from incremental_assets.warm_up import load_and_archive
from incremental_assets_tests.scenarios.world import TABLES, World, sale, sales


def test_loads_write_comments_and_publish_all_though_nothing_can_be_registered(
    spark: SparkSession, named: Settings
) -> None:
    shop = World(spark, named, "bronze/events", "silver/sales")
    shop.land("events", "2017-01-05", "1.jsonl", sales("a", "2017-01-05", 2))
    first = shop.load("2017-01-05")
    shop.land("events", "2017-01-06", "1.jsonl", [sale("b", "2017-01-06", channel="app")])
    shop.land("events", "2017-01-06", "2.jsonl", [sale("late", "2017-01-05")])
    second = shop.load("2017-01-06")
    shop.load_stale()

    assert not any(done.failed for done in (*first.values(), *second.values()))
    told = [line for line in shop.logged if "not registered" in line]
    assert len(told) == 1  # the catalog is not asked again for each table
    assert told[0].startswith(
        "bronze/events: it is loaded, and not registered. INCREMENTAL_ASSETS_CATALOG is "
        "spark_catalog, which this Spark keeps in its memory, and it ends with this process."
    )
    rows = shop.rows("silver/sales")
    assert shop.orders() == {"a0", "a1", "b", "late"}
    assert dict(zip(rows["order_id"], rows["channel"], strict=True))["b"] == "app"
    for name in shop.tables:
        fields = {f["name"]: f["metadata"] for f in fields_of(DeltaTable(shop.path(name)))}
        assert fields["_batch"] == {"comment": "The batch that last wrote the row."}
    assert fields["qty"] == {"comment": "Pieces."}


def test_a_lake_that_is_thrown_away_is_registered_nowhere(
    spark: SparkSession, named: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Settings] = []

    def start(settings: Settings, _: object) -> SparkSession:
        started.append(settings)
        raise SparkUnavailableError

    monkeypatch.setattr("incremental_assets.warm_up.start_session", start)

    scratch = World(spark, named).lakehouse.in_lake(f"{named.lake}/_scratch", datetime.now(UTC))
    with pytest.raises(SparkUnavailableError):
        load_and_archive(named, tmp_path / "archive")

    assert [scratch.settings.catalog, started[0].catalog] == ["", ""]


def test_nothing_is_asked_of_the_catalog_for_a_table_that_is_not_loaded_yet(
    named: Settings,
) -> None:
    def none() -> SparkSession:
        raise AssertionError("Spark is asked for")

    table = TABLES["gold/sales_mart"]

    assert Registration(named, none).register(table).state == "not loaded yet"
    assert planned(named, table).sql == ()
    with pytest.raises(SettingsError, match="INCREMENTAL_ASSETS_CATALOG is not set"):
        Registration(named.replace(catalog=""), none).register(table)


def test_a_catalog_that_is_not_there_is_told_with_the_setting_that_names_it(
    spark: SparkSession, named: Settings
) -> None:
    events = pl.DataFrame({"_batch": [1]})
    events.write_delta(f"{named.lake}/bronze/events")

    with pytest.raises(CatalogError) as refused:
        Registration(named.replace(catalog="unity"), lambda: spark).register(
            TABLES["bronze/events"]
        )

    assert "cannot be registered as unity.shop_bronze.events: [" in str(refused.value)
    assert "This Spark has no setting spark.sql.catalog.unity, by" in str(refused.value)
    assert "then run `incremental-assets register bronze/events`" in str(refused.value)
