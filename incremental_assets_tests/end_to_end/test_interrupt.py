"""A run that is stopped from the UI ends soon, and the next run does what was left."""

from __future__ import annotations

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.dagster_dev import dagster_dev, until
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.scenarios.world import sales

SOON = 20
LONG = 200
TERMINATE = """
mutation($id: String!) { terminateRun(runId: $id) {
  __typename ... on TerminateRunFailure { message } ... on PythonError { message } } }
"""


def test_a_run_that_is_stopped_from_the_ui_is_cancelled_and_can_be_run_again(
    shop: Shop, spark: SparkSession, server: str
) -> None:
    world = shop.world(spark)
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 10))
    ledger = world.lakehouse.ledger
    with dagster_dev(shop, "-m", "incremental_assets") as web, shop.instance() as instance:
        run_id = web.materialize("incremental_assets", ["bronze/events"], "2017-01-05")
        until(lambda: bool(ledger.view_if_any().table("bronze/events").unsettled), LONG)

        answer = web.ask(TERMINATE, id=run_id)["terminateRun"]

        assert answer["__typename"] == "TerminateRunSuccess", answer

        def cancelled() -> bool:
            run = instance.get_run_by_id(run_id)
            return run is not None and run.status is dg.DagsterRunStatus.CANCELED

        until(cancelled, SOON)
    assert shop.over(server).command("run").returncode == 0
    assert len(world.orders("gold/sales_mart")) == 10
