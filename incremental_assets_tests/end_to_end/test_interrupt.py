"""Ctrl-C amid a run: it ends at once and in words, and the next run does what was left."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.shop import BIN, Shop
from incremental_assets_tests.scenarios.test_order_free import land_week

SOON = 20


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
    deadline = time.monotonic() + 120
    while not world.house.ledger.view().table("silver/sales").entries:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)

    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=SOON)

    assert process.returncode == 1, said
    assert "Aborted!" in said
    (run,) = shop.instance().get_runs(limit=1)
    assert run.status is dg.DagsterRunStatus.FAILURE
    finished = shop.command("run")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    world.same_tables_as(whole)
