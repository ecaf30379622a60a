"""A code server and a daemon in processes of their own, over PostgreSQL, load what has landed."""

from __future__ import annotations

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.production import CODE, DAEMON, package, production
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.scenarios.world import sales

DAYS = ["2017-01-02", "2017-01-03"]
BRONZE = dg.AssetKey(["bronze", "events"])
LONG = 200


def test_days_that_land_are_loaded_by_a_daemon_that_cannot_see_their_run(
    shop: Shop, database: Database, spark: SparkSession, server: str
) -> None:
    world = shop.over(server).world(spark, "bronze/events")
    for day in DAYS:
        world.land("events", day, "a.jsonl", sales(day, day, 10))
    of = {CODE: package(shop.home, "front", bronze="EVENTS")}
    with production(shop, database, of) as made, made.instance() as instance:
        made.start(CODE)
        made.start(DAEMON)
        made.start_sensor("new_in_events")

        until(lambda: any(run.is_finished for run in instance.get_runs()), LONG)

        (run,) = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS
        assert instance.get_materialized_partitions(BRONZE) == set(DAYS)
        made.cannot_be_seen(run)
    assert spark.read.format("delta").load(world.path("bronze/events")).count() == 20
