"""A backfill from the UI, through the webserver and daemon of a real `dagster dev`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.dagster_dev import Web, dagster_dev
from incremental_assets_tests.end_to_end.shop import SILVER_SALES, Shop
from incremental_assets_tests.scenarios.world import TABLES, sales


@pytest.fixture
def web(shop: Shop) -> Iterator[Web]:
    with dagster_dev(shop, "-w", str(PROJECT_ROOT / "workspace.yaml")) as web:
        yield web


def test_backfill_of_days_loads_them_in_one_run_and_shows_them_green(
    shop: Shop, web: Web, spark: SparkSession
) -> None:
    world = shop.world(spark)
    for day in ("2017-01-05", "2017-01-06"):
        world.land("events", day, "a.jsonl", sales(day, day, 10))

    backfill = web.backfill(list(TABLES), "2017-01-05", "2017-01-06")
    seen = web.ended(backfill, 400)

    assert seen["status"] == "COMPLETED_SUCCESS", seen
    assert [run["status"] for run in seen["runs"]] == ["SUCCESS"]
    assert len(world.orders("gold/sales_mart")) == 20
    with shop.instance() as instance:
        found = instance.get_materialized_partitions(SILVER_SALES)
    assert found == {"2017-01-05", "2017-01-06"}
