"""Parts of a deployment are killed, and each day ends loaded once."""

from __future__ import annotations

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.production import LOCATION, production
from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, SILVER_SALES, TILL, Shop
from incremental_assets_tests.scenarios.world import World, sales

DAYS = [f"2017-01-{day:02d}" for day in range(2, 5)]
LONG, PATIENCE = 200, 600
STARTED = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])


def test_a_backfill_ends_green(
    shop: Shop, database: Database, spark: SparkSession, server: str
) -> None:
    world = shop.of(TILL).over(server).world(spark, *OF_THE_TILL)
    for day in DAYS:
        world.land("events", day, "a.jsonl", sales(day, day, 10))
    with production(shop, database) as made, made.instance() as instance:
        made.start_code()
        made.daemon.start()
        web = made.start_webserver()
        backfill = web.backfill(OF_THE_TILL, DAYS[0], DAYS[-1])

        until(lambda: bool(loading(instance, world)), LONG)
        made.daemon.kill()
        made.daemon.start()
        (run,) = loading(instance, world)
        made.code[LOCATION].kill_process(run)
        seen = web.ended(backfill, PATIENCE)
        print(seen)
        for r in instance.get_runs():
            print(r.run_id, r.status, r.parent_run_id, r.tags)
        assert seen["status"] == "COMPLETED_SUCCESS", seen
        assert len(world.orders()) == 30
        assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS)


def loading(instance: dg.DagsterInstance, world: World) -> list[dg.DagsterRun]:
    """The runs in progress, once one of them has claimed a batch of bronze."""
    claimed = world.lakehouse.ledger.view_if_any().table("bronze/events").unsettled
    return list(instance.get_runs(STARTED)) if claimed else []
