"""Loads with a catalog: they publish what they would without one, whatever becomes of it there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.days import parse_days
from incremental_assets.delta.writable import fields_of
from incremental_assets.errors import CatalogError, SettingsError, SparkUnavailableError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.lock import brief_lock, table_lock
from incremental_assets.registration import Registration, planned
from incremental_assets.registration.answers import ASK_AGAIN_SECONDS, Answers
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
    later = World(spark, named, *shop.tables)  # as Dagster has one for each step
    second = later.load("2017-01-06")
    later.load_stale()

    assert not any(done.failed for done in (*first.values(), *second.values()))
    refused = [line for line in shop.logged if "not registered" in line]
    assert [line.partition(":")[0] for line in refused] == ["bronze/events", "silver/sales"]
    for line in refused:
        name = line.partition(":")[0]
        assert line.startswith(
            f"{name}: it is loaded, and not registered. INCREMENTAL_ASSETS_CATALOG is "
            "spark_catalog, which this Spark keeps in its memory, and it ends with this process."
        )
        schema = f"spark_catalog.shop_{name.replace('/', '.')}"
        assert shop.logged.index(line) > shop.logged.index(f"{name}: registering as {schema}")
    # A schema is not asked again so soon, and each table that is left out is named.
    again = [line for line in later.logged if "regist" in line]
    assert {line.partition(":")[0] for line in again} == {"bronze/events", "silver/sales"}
    for line in again:
        name = line.partition(":")[0]
        assert "could not be used less than 5 minutes ago" in line
        assert line.endswith(f"Run `incremental-assets register {name}`.")
    rows = shop.rows("silver/sales")
    assert shop.orders() == {"a0", "a1", "b", "late"}
    assert dict(zip(rows["order_id"], rows["channel"], strict=True))["b"] == "app"
    for name in shop.tables:
        fields = {f["name"]: f["metadata"] for f in fields_of(DeltaTable(shop.path(name)))}
        assert fields["_batch"] == {"comment": "The batch that last wrote the row."}
    assert fields["qty"] == {"comment": "Pieces."}


def test_the_catalog_is_asked_after_the_lock_and_not_for_a_load_that_published_nothing(
    spark: SparkSession, settings: Settings, named: Settings
) -> None:
    shop = World(spark, settings, "bronze/events")
    shop.land("events", "2017-01-05", "1.jsonl", [sale(None, "2017-01-05")])
    shop.load("2017-01-05")
    shop.land("events", "2017-01-06", "1.jsonl", sales("b", "2017-01-06", 1))
    was_free: list[bool] = []
    logged: list[str] = []

    def session() -> SparkSession:
        with brief_lock(named.lake, "bronze/events", "a test", 0) as is_free:
            was_free.append(is_free)
        return spark

    lakehouse = Lakehouse(
        named, shop.lakehouse.tables, session, lambda: datetime.now(UTC), logged.append
    )
    held = lakehouse.load(TABLES["silver/sales"], parse_days("2017-01-05"))
    asked_for_held = [line for line in logged if "registering" in line]
    was_free.clear()
    lakehouse.load(TABLES["bronze/events"], parse_days("2017-01-06"))

    assert held.failed
    assert asked_for_held == []
    assert was_free[0] is False
    assert was_free[-1] is True


def test_no_comment_is_written_while_the_table_is_loaded(
    spark: SparkSession, named: Settings
) -> None:
    path, table, logged = f"{named.lake}/bronze/events", TABLES["bronze/events"], list[str]()
    pl.DataFrame({"_batch": [1]}).write_delta(path)
    registration = Registration(named, lambda: spark, logged.append)

    with table_lock(named.lake, table.name, "a load", logged.append):
        with pytest.raises(CatalogError):
            registration.register(table)
        during = DeltaTable(path).version()
    with pytest.raises(CatalogError):
        registration.register(table)

    assert (during, DeltaTable(path).version()) == (0, 2)
    assert logged == ["bronze/events: no comments were written; the load in progress writes them"]


def test_what_a_catalog_answered_holds_for_some_minutes() -> None:
    answers = Answers()
    answers.answered(0.0, "silver/sales")
    answers.failed(10.0)
    soon, late = ASK_AGAIN_SECONDS - 1, ASK_AGAIN_SECONDS + 10

    assert [answers.has("silver/sales", at) for at in (soon, late)] == [True, False]
    assert [answers.is_down(at) for at in (soon, late)] == [True, False]
    assert not answers.has("silver/users", soon)


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


def test_a_catalog_that_is_not_there_is_named_with_the_setting_that_names_it(
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
