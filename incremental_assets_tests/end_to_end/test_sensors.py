"""Runs, backfills and sensors of a real `dagster dev` that is stopped in part or killed as a whole."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets.days import DayRange
from incremental_assets.orchestration.requests import ASKED_FOR, MOST_ATTEMPTS
from incremental_assets.plan import why_pending
from incremental_assets.plan.due import stale_tables
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.dagster_dev import Dev, Web, until
from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, SILVER_SALES, TILL, Shop
from incremental_assets_tests.scenarios.test_order_free import land_day
from incremental_assets_tests.scenarios.world import TABLES, World, sales
from incremental_assets_tests.thorough import thorough

LOCATION = "incremental_assets"
SENSORS = [
    "new_in_events",
    "new_in_inventory_movements",
    "new_in_orders",
    "new_in_products",
    "new_in_users",
    "stale_days",
]
DAYS = [f"2017-01-{day:02d}" for day in range(2, 6)]
RUN_KEY = "dagster/run_key"
USERS_COME = 2  # after sales that they belong to, and before others; each delivery is a run more
SOON, LONG, PATIENCE = 20, 200, 900  # seconds
TERMINATE = """
mutation($id: String!) { terminateRun(runId: $id) {
  __typename ... on TerminateRunFailure { message } ... on PythonError { message } } }
"""


@pytest.fixture
def dev(shop: Shop) -> Iterator[Dev]:
    """Not started yet."""
    dev = Dev(shop, "-w", str(PROJECT_ROOT / "workspace.yaml"))
    try:
        yield dev
    finally:
        dev.kill()


def deliver(world: World, position: int) -> None:
    """Make a day's files elsewhere and rename them in, as whoever delivers should."""
    delivery = world.another("delivery", own_landing=True)
    land_day(delivery, position, DAYS)
    made = Path(delivery.settings.landing)
    for file in sorted(made.rglob("*.jsonl")):
        if file.parts[-3] == "users" and position != USERS_COME:
            continue
        place = Path(world.settings.landing) / file.relative_to(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)


def strike(dev: Dev, what: str, instance: dg.DagsterInstance, moments: random.Random) -> None:
    """Kill a part of it while a run has its Spark; start again what ended by that.

    No run that is tried for the last time: after that it would be up to a person.
    """

    def may_be_struck() -> bool:
        runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        last = [run for run in runs if attempt(run) == MOST_ATTEMPTS]
        return bool(dev.sparks()) and not last

    until(may_be_struck, PATIENCE)
    time.sleep(moments.uniform(0, 6))
    until(may_be_struck, PATIENCE)
    if what in ("run", "spark"):
        spark, run = dev.sparks()[0]
        for pid in [run, spark] if what == "run" else [spark]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return
    if what == "daemon":
        dev.kill_daemon()
    else:
        dev.kill()
    dev.start()


def attempt(run: dg.DagsterRun) -> int:
    """Which attempt a run is, of those that a sensor asked for."""
    return int(run.tags.get(RUN_KEY, ":1").rpartition(":")[2])


def nothing_is_left(world: World, instance: dg.DagsterInstance) -> bool:
    """Whether nothing is new, nothing is stale and no run is under way."""
    if any(not run.is_finished for run in instance.get_runs()):
        return False
    view, start, today = world.lakehouse.ledger.view(), world.settings.start_date, datetime.now(UTC)
    span, tables = DayRange(start, today.date()), tuple(world.tables.values())
    news = (
        why_pending(table, view, world.settings, start, span.last)
        for table in tables
        if table.layer == "bronze"
    )
    return not any(news) and not any(stale_tables(tables, view, start, span.last, span))


@thorough(
    "orchestration/test_sensors.py, orchestration/test_source_sensors.py, "
    "end_to_end/test_sensors.py: a run that was stopped, and a backfill that was killed"
)
@pytest.mark.parametrize("seed", [20170102])
def test_days_of_deliveries_reach_gold_through_kills_of_the_daemon_its_runs_and_spark(
    shop: Shop, dev: Dev, spark: SparkSession, seed: int
) -> None:
    world = shop.world(spark)
    moments = random.Random(seed)
    strikes = ["run", "spark", "daemon", "everything"]
    moments.shuffle(strikes)
    web = dev.start()
    for name in SENSORS:
        web.start_sensor(LOCATION, name)

    with shop.instance() as instance:
        for position, struck in enumerate(strikes):
            deliver(world, position)
            strike(dev, struck, instance, moments)
        until(lambda: nothing_is_left(world, instance), PATIENCE)
        runs = [run for run in instance.get_runs() if ASKED_FOR in run.tags]

    whole = world.another("undisturbed")
    whole.load(f"{DAYS[0]}...{DAYS[-1]}")
    whole.load_stale()
    world.same_tables_as(whole)
    assert not world.stale()
    keys = [run.tags[RUN_KEY] for run in runs]
    assert len(set(keys)) == len(keys)
    assert any(run.status == dg.DagsterRunStatus.FAILURE for run in runs)
    assert max(attempt(run) for run in runs) <= MOST_ATTEMPTS


def test_a_run_that_was_stopped_and_a_backfill_that_was_killed_end_green_in_one_run(
    shop: Shop, dev: Dev, spark: SparkSession, server: str
) -> None:
    world = shop.of(TILL).world(spark, *OF_THE_TILL)
    for day in DAYS[:2]:
        world.land("events", day, "a.jsonl", sales(day, day, 10))
    web = dev.start()
    assert web.freshness("bronze/events") != "HEALTHY"

    with shop.instance() as instance:
        a_run_that_is_stopped_as_its_spark_starts_is_cancelled_soon(web, world, instance)
        backfill = web.backfill(OF_THE_TILL, DAYS[0], DAYS[1])
        dev.kill()
        shop.over(server)
        again = dev.start()
        seen = again.ended(backfill, PATIENCE)

        assert seen["status"] == "COMPLETED_SUCCESS", seen
        assert [run["status"] for run in seen["runs"]] == ["SUCCESS"]
        counts = seen["assetBackfillData"]["assetBackfillStatuses"]
        targeted = {"/".join(c["assetKey"]["path"]): c["numPartitionsTargeted"] for c in counts}
        assert targeted == dict.fromkeys(OF_THE_TILL, 2)
        assert len(world.orders()) == 20
        assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS[:2])
        a_day_beyond_those_that_dagster_knows_is_loaded(again, world, instance)
    # It is the moment of the load that is fresh, and not its day.
    until(lambda: again.freshness("bronze/events") == "HEALTHY", LONG)


def a_run_that_is_stopped_as_its_spark_starts_is_cancelled_soon(
    web: Web, world: World, instance: dg.DagsterInstance
) -> None:
    run_id = web.materialize(LOCATION, ["bronze/events"], DAYS[0])
    until(lambda: bool(world.lakehouse.ledger.view_if_any().table("bronze/events").unsettled), LONG)

    answer = web.ask(TERMINATE, id=run_id)["terminateRun"]
    assert answer["__typename"] == "TerminateRunSuccess", answer

    def cancelled() -> bool:
        run = instance.get_run_by_id(run_id)
        return run is not None and run.status is dg.DagsterRunStatus.CANCELED

    until(cancelled, SOON)


def a_day_beyond_those_that_dagster_knows_is_loaded(
    web: Web, world: World, instance: dg.DagsterInstance
) -> None:
    """Its code location was loaded when the partitions ended with the day before."""
    assert web.partitions("silver/sales")[-1] == DAYS[1]
    world.land("events", DAYS[2], "a.jsonl", sales(DAYS[2], DAYS[2], 10))
    web.start_sensor(LOCATION, "new_in_events")
    until(lambda: len(world.orders(OF_THE_TILL[-1])) == 3, PATIENCE)
    until(lambda: nothing_is_left(world, instance), PATIENCE)

    found = [run.status for run in instance.get_runs()]
    assert found == [dg.DagsterRunStatus.SUCCESS] * 2 + [dg.DagsterRunStatus.CANCELED]
    assert instance.get_materialized_partitions(SILVER_SALES) == set(DAYS[:3])


@thorough("end_to_end/test_sensors.py: a backfill that was killed before it had a run")
def test_what_a_backfill_did_not_load_before_it_was_killed_is_asked_for_by_the_sensors(
    shop: Shop, dev: Dev, spark: SparkSession
) -> None:
    world = shop.world(spark)
    for day in DAYS[:2]:
        world.land("events", day, "a.jsonl", sales(day, day, 10))
    web = dev.start()
    backfill = web.backfill(list(TABLES), DAYS[0], DAYS[1])
    until(lambda: bool(dev.sparks()), PATIENCE)
    dev.kill()

    again = dev.start()
    for name in ("new_in_events", "stale_days"):
        again.start_sensor(LOCATION, name)
    with shop.instance() as instance:
        until(lambda: nothing_is_left(world, instance), PATIENCE)

    assert again.ended(backfill, PATIENCE)["status"] == "COMPLETED_FAILED"
    assert len(world.orders("gold/sales_mart")) == 20
    assert {e.state for e in world.lakehouse.ledger.view().table("silver/sales").loads} <= {
        "committed",
        "abandoned",
    }
