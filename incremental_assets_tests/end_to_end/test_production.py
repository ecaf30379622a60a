"""A code server and a daemon in processes of their own, over PostgreSQL, load what has landed."""

from __future__ import annotations

import dagster as dg
from click.testing import CliRunner
from dagster._cli.sensor import sensor_cli
from pyspark.sql import SparkSession

from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.production import CODE, DAEMON, production
from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, SILVER_SALES, TILL, Shop
from incremental_assets_tests.scenarios.world import sales

DAYS = ["2017-01-02", "2017-01-03"]
LONG = 200


def test_days_that_land_are_loaded_by_a_daemon_that_cannot_see_their_run(
    shop: Shop, database: Database, spark: SparkSession, server: str
) -> None:
    world = shop.of(TILL).over(server).world(spark, *OF_THE_TILL)
    for day in DAYS:
        world.land("events", day, "a.jsonl", sales(day, day, 10))
    with production(shop, database) as made, made.instance() as instance:
        made.start(CODE, DAEMON)
        words = ["start", "new_in_events", "-w", str(made.workspace)]
        started = CliRunner(catch_exceptions=False).invoke(sensor_cli, words)
        assert started.exit_code == 0, started.output

        until(lambda: any(run.is_finished for run in instance.get_runs()), LONG)

        (run,) = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS
        assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS)
        assert len(world.orders()) == 20
        made.cannot_be_seen(run)
