"""Loads with a catalog: they publish what they would without one, whatever becomes of it there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.delta.writable import fields_of
from incremental_assets.errors import CatalogError, SettingsError, SparkUnavailableError
from incremental_assets.registration import Registration, planned
from incremental_assets.settings import Settings
from incremental_assets.warm_up import load_and_archive
from incremental_assets_tests.scenarios.world import OF_SALES, TABLES, World, sale, sales


def test_loads_write_comments_and_publish_the_same_though_nothing_can_be_registered(
    spark: SparkSession, named: Settings
) -> None:
    shop = World(spark, named, *OF_SALES)
    other = World(spark, named.replace(lake=f"{named.lake}_other", catalog=""), *OF_SALES)
    days = {
        "2017-01-05": sales("a", "2017-01-05", 3),
        "2017-01-06": [sale("b", "2017-01-06", channel="app"), sale("late", "2017-01-05")],
    }

    for day, rows in days.items():
        shop.land("events", day, "1.jsonl", rows)
        for world in (shop, other):
            assert not any(done.failed for done in world.load(day).values())
    shop.load_stale()
    other.load_stale()

    told = [line for line in shop.logged if "not registered" in line]
    assert len(told) == 1  # the catalog is not asked again for each table
    assert told[0].startswith(
        "bronze/events: it is loaded, and not registered. INCREMENTAL_ASSETS_CATALOG is "
        "spark_catalog, which this Spark keeps in its memory, and it ends with this process."
    )
    for name in OF_SALES:
        assert shop.rows(name).equals(other.rows(name)), name
    assert "channel" in shop.rows("silver/sales").columns
    qty = {f["name"]: f["metadata"] for f in fields_of(DeltaTable(shop.path("silver/sales")))}[
        "qty"
    ]
    assert qty == {"comment": "Pieces."}


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
    shop = World(spark, named, "bronze/events")
    shop.land("events", "2017-01-05", "1.jsonl", sales("a", "2017-01-05", 1))
    shop.load("2017-01-05")

    with pytest.raises(CatalogError) as refused:
        Registration(named.replace(catalog="unity"), lambda: spark).register(
            TABLES["bronze/events"]
        )

    assert "cannot be registered as unity.shop_bronze.events: [" in str(refused.value)
    assert "This Spark has no setting spark.sql.catalog.unity, by" in str(refused.value)
    assert "then run `incremental-assets register bronze/events`" in str(refused.value)
