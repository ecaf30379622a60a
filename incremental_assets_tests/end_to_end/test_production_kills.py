"""Parts of a deployment are killed, or there are several of them: each day ends loaded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets.orchestration.requests import ASKED_FOR
from incremental_assets_tests.databases.postgresql import Database, PostgreSQL
from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.production import (
    CODE,
    CODE_SERVER,
    DAEMON,
    WEBSERVER,
    Production,
    package,
    production,
)
from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, SILVER_SALES, TILL, Shop
from incremental_assets_tests.scenarios.world import World, sales
from incremental_assets_tests.thorough import thorough

DAYS = [f"2017-01-{day:02d}" for day in range(2, 7)]
SENSORS = ("new_in_events", "stale_days")
LONG, PATIENCE = 120, 200
FAILURE = dg.DagsterRunStatus.FAILURE

pytestmark = thorough(
    "end_to_end/test_production.py, orchestration/test_heartbeats.py, "
    "orchestration/test_launcher.py, orchestration/test_sensors.py: processes of their own over "
    "PostgreSQL, runs that die unseen, and who retries them"
)


def land(world: World, *days: str) -> None:
    for day in days:
        world.land("events", day, "a.jsonl", sales(day, day, 10))


def loading(instance: dg.DagsterInstance, world: World) -> dg.DagsterRun | None:
    """The run in progress, once it has claimed a batch of bronze."""
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    claimed = world.lakehouse.ledger.view_if_any().table("bronze/events").unsettled
    return started[0] if started and claimed else None


def loading_run(instance: dg.DagsterInstance, world: World) -> dg.DagsterRun:
    until(lambda: loading(instance, world) is not None, LONG)
    run = loading(instance, world)
    assert run is not None, "it was over too soon to be killed"
    return run


def nothing_is_left(world: World, instance: dg.DagsterInstance, days: Sequence[str]) -> bool:
    ended = all(run.is_finished for run in instance.get_runs())
    return ended and len(world.orders()) == 10 * len(days) and not world.stale()


def rows_of_days(world: World, name: str) -> Counter[str]:
    """How many batches brought rows of a day."""
    loads = world.lakehouse.ledger.view().table(name).loads
    return Counter(str(e.day) for e in loads if e.state == "committed" and e.rows_inserted)


def test_days_are_loaded_once_though_the_daemon_runs_and_containers_with_runs_are_killed(
    shop: Shop, database: Database, spark: SparkSession, server: str
) -> None:
    world = shop.of(TILL).over(server).world(spark, *OF_THE_TILL)
    land(world, *DAYS[:3])
    servers = production(shop, database, program=CODE_SERVER)
    with servers as made, made.instance() as instance:
        made.start(CODE)
        web = made.start(DAEMON, WEBSERVER)
        backfill = web.backfill(OF_THE_TILL, DAYS[0], DAYS[2])
        a_run_and_the_daemon_are_killed_and_the_run_is_retried(made, world, instance)
        seen = web.ended(backfill, PATIENCE)

        assert seen["status"] == "COMPLETED_SUCCESS", seen
        assert sorted(run["status"] for run in seen["runs"]) == ["FAILURE", "SUCCESS"]
        assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS[:3])

        land(world, *DAYS[3:])
        for name in SENSORS:
            web.start_sensor(CODE, name)
        a_container_is_killed_with_its_run_which_is_requested_again(made, world, instance)
        until(lambda: nothing_is_left(world, instance, DAYS), PATIENCE)

        assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS)
    assert rows_of_days(world, "silver/sales") == dict.fromkeys(DAYS, 1)
    undisturbed = world.another("undisturbed")
    undisturbed.load(f"{DAYS[0]}...{DAYS[-1]}")
    world.same_tables_as(undisturbed)


def a_run_and_the_daemon_are_killed_and_the_run_is_retried(
    made: Production, world: World, instance: dg.DagsterInstance
) -> None:
    run = loading_run(instance, world)
    made.parts[DAEMON].kill()
    made.kill_process(run)
    made.start(DAEMON)
    until(lambda: any(each.parent_run_id == run.run_id for each in instance.get_runs()), LONG)
    assert instance.get_run_by_id(run.run_id).status is FAILURE


def a_container_is_killed_with_its_run_which_is_requested_again(
    made: Production, world: World, instance: dg.DagsterInstance
) -> None:
    run = loading_run(instance, world)
    made.cannot_be_seen(run)
    made.parts[CODE].kill()
    made.start(CODE)
    until(lambda: instance.get_run_by_id(run.run_id).status is FAILURE, LONG)

    def again() -> list[dg.DagsterRun]:
        return [
            each
            for each in instance.get_runs()
            if ASKED_FOR in each.tags and each.run_id != run.run_id
        ]

    until(lambda: bool(again()), LONG)
    assert not any(each.parent_run_id for each in again())


def test_code_servers_of_one_lake_load_each_day_once_though_postgresql_restarts_and_cron_joins(
    shop: Shop, postgresql: PostgreSQL, database: Database, spark: SparkSession, server: str
) -> None:
    world = shop.over(server).world(spark, *OF_THE_TILL)
    land(world, *DAYS[:2])
    tables = {
        "front": package(shop.home, "front", bronze="EVENTS", silver="SALES"),
        "front_next": {"INCREMENTAL_ASSETS_TABLES": "front"},
        "back": package(shop.home, "back", gold="LATEST_USER_EVENTS"),
    }
    with ExitStack() as stack:
        made = stack.enter_context(production(shop, database, tables))
        made.start(*tables)
        web = made.start(DAEMON, WEBSERVER)  # both find an empty database
        instance = stack.enter_context(made.instance())
        for location in ("front", "front_next"):
            for name in SENSORS:
                web.start_sensor(location, name)
        web.start_sensor("back", "stale_days")

        loading_run(instance, world)
        postgresql.restart()
        until(lambda: nothing_is_left(world, instance, DAYS[:2]), PATIENCE)
        made.kill()

        land(world, DAYS[2])
        by_cron = shop.command("run", INCREMENTAL_ASSETS_TABLES=TILL)
        assert by_cron.returncode == 0, by_cron.stdout + by_cron.stderr
        assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS[:3])
    for name in OF_THE_TILL:
        assert rows_of_days(world, name) == dict.fromkeys(DAYS[:3], 1)
