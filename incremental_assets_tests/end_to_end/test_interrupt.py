"""A run that is stopped amid its loads ends soon, and the next run does what was left."""

from __future__ import annotations

import os
import signal
import subprocess

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets.errors import INTERRUPTED, STOPPED
from incremental_assets_tests.end_to_end.dagster_dev import dagster_dev, until
from incremental_assets_tests.end_to_end.shop import BIN, Shop
from incremental_assets_tests.scenarios.test_order_free import land_week
from incremental_assets_tests.scenarios.world import sales

SOON = 20
LONG = 200
TERMINATE = """
mutation($id: String!) { terminateRun(runId: $id) {
  __typename ... on TerminateRunFailure { message } ... on PythonError { message } } }
"""


def test_an_interrupted_run_ends_soon_and_the_next_one_does_what_was_left(
    shop: Shop, spark: SparkSession
) -> None:
    world = shop.world(spark)
    land_week(world)
    whole = world.another("undisturbed")
    whole.load("2017-01-02...2017-01-06")
    whole.load_stale()
    process = subprocess.Popen(
        [str(BIN / "incremental-assets"), "run"],
        env=shop.env,
        cwd=shop.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until(lambda: bool(world.house.ledger.view().table("silver/sales").entries), LONG)

    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=SOON)

    assert process.returncode == INTERRUPTED, said
    assert said.rstrip().endswith(STOPPED)
    assert "Traceback" not in said
    assert "Stack Trace" not in said
    (run,) = shop.instance().get_runs(limit=1)
    assert run.status is dg.DagsterRunStatus.FAILURE
    finished = shop.command("run")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    world.same_tables_as(whole)


def test_a_run_that_is_stopped_from_the_ui_is_cancelled_and_can_be_run_again(
    shop: Shop, spark: SparkSession
) -> None:
    world = shop.world(spark)
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 10))
    ledger = world.house.ledger
    with dagster_dev(shop, "-m", "incremental_assets") as web, shop.instance() as instance:
        run_id = web.materialize("incremental_assets", ["bronze/events"], "2017-01-05")
        until(lambda: bool(ledger.view_if_any().table("bronze/events").unsettled), LONG)

        answer = web.ask(TERMINATE, id=run_id)["terminateRun"]

        assert answer["__typename"] == "TerminateRunSuccess", answer

        def cancelled() -> bool:
            run = instance.get_run_by_id(run_id)
            return run is not None and run.status is dg.DagsterRunStatus.CANCELED

        until(cancelled, SOON)
    assert shop.command("run").returncode == 0
    assert len(world.orders("gold/sales_mart")) == 10
