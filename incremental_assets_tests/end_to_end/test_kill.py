"""kill -9 of the whole process group at any moment, or Ctrl-C, then a run: the tables of an
undisturbed run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables
from incremental_assets.errors import INTERRUPTED, STOPPED
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import daily
from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.shop import BIN, Shop, kill_group
from incremental_assets_tests.retail_truth import assert_tables_are_the_truth, retail_truth
from incremental_assets_tests.scenarios.test_order_free import land_week
from incremental_assets_tests.scenarios.world import World
from incremental_assets_tests.thorough import thorough

KILLS = 2
SOON = 20
LONG = 200

pytestmark = thorough(
    "scenarios/test_interrupted.py, feeds/test_interrupted.py, orchestration/test_executor.py, "
    "end_to_end/test_sensors.py: a run that was stopped, and a backfill that was killed"
)


def batches_claimed(world: World) -> int:
    return sum(len(t.entries) for t in world.lakehouse.ledger.view().tables.values())


def an_interrupt_ends_a_run_soon(shop: Shop, world: World) -> None:
    """Ctrl-C amid its loads: one sentence, and a run that Dagster shows as failed."""
    process = subprocess.Popen(
        [str(BIN / "incremental-assets"), "run"],
        env=shop.env,
        cwd=shop.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until(lambda: bool(world.lakehouse.ledger.view().table("silver/sales").entries), LONG)

    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=SOON)

    assert process.returncode == INTERRUPTED, output
    assert output.rstrip().endswith(STOPPED)
    assert "Traceback" not in output
    assert "Stack Trace" not in output
    (run,) = shop.instance().get_runs(limit=1)
    assert run.status is dg.DagsterRunStatus.FAILURE


@pytest.mark.parametrize("seed", [20170105])
def test_run_after_an_interrupt_and_kills_gives_the_tables_of_an_undisturbed_one(
    shop: Shop, spark: SparkSession, seed: int
) -> None:
    world = shop.world(spark)
    land_week(world)
    whole = world.another("undisturbed")
    whole.load("2017-01-02...2017-01-06")
    whole.load_stale()

    an_interrupt_ends_a_run_soon(shop, world)
    moments = random.Random(seed)
    killed = 0
    for _ in range(KILLS):
        before = batches_claimed(world)
        process = shop.start("run")
        deadline = time.monotonic() + 120
        while batches_claimed(world) == before and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(moments.uniform(0, 6))
        if process.poll() is None:
            kill_group(process)
            killed += 1
    assert killed

    finished = shop.command("run")

    assert finished.returncode == 0, finished.stdout + finished.stderr
    world.same_tables_as(whole)
    bronze = {name: _bronze_lines(world, name) for name in ("bronze/events", "bronze/users")}
    assert bronze == {name: _landed_lines(world, name) for name in bronze}
    assert not_shown_as_loaded(shop) == {}
    versions = world.versions()
    assert shop.command("run").returncode == 0
    assert world.versions() == versions


def not_shown_as_loaded(shop: Shop) -> dict[str, list[str]]:
    """The days of the week that Dagster shows as failed or in progress, by table."""
    instance, partitions = shop.instance(), daily(shop.settings)
    days = [str(date(2017, 1, day)) for day in range(2, 7)]
    found = {}
    for table in tables():
        shown = instance.get_status_by_partition(ALONE.key(table), days, partitions) or {}
        found[table.name] = [d for d, s in shown.items() if s and s.value != "MATERIALIZED"]
    return {name: wrong for name, wrong in found.items() if wrong}


def test_tables_equal_what_all_feeds_say_though_a_run_was_killed_again_and_again(
    shop: Shop,
) -> None:
    # What is late lands when the days that it belongs to are loaded already.
    days = ("2017-01-01", "2017-01-02", "2017-01-03")
    demo_lands(shop, days[0], days[1])
    ledger = Ledger(ledger_path(shop.settings.lake))
    moments = random.Random(20170102)

    for reached, within in (("silver/users", 2), ("gold/inventory_levels", 0.2)):
        before = len(ledger.view().table(reached).entries)
        process = shop.start("run")
        deadline = time.monotonic() + 240
        while len(ledger.view().table(reached).entries) == before:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(moments.uniform(0, within))  # the run ends soon after the second one
        assert process.poll() is None
        kill_group(process)
    demo_lands(shop, days[2], days[2])
    finished = shop.command("run")

    assert finished.returncode == 0, finished.stdout + finished.stderr
    landing, start = Path(shop.settings.landing), shop.settings.start_date
    truth = retail_truth(landing, start, [date.fromisoformat(day) for day in days])
    assert len(truth["silver/sales"]) > 350
    assert_tables_are_the_truth(shop.settings.lake, truth)

    shown = shop.ask("demo", "show", COLUMNS="160")
    assert shown.returncode == 0, shown.stderr
    assert "gold/daily_product_sales" in shown.stdout
    assert "products with the most revenue" in shown.stdout


def demo_lands(shop: Shop, first: str, last: str) -> None:
    shares = ("--late", "0.05", "--duplicate", "0.05", "--bad", "0.008", "--sample", "0.05")
    landed = shop.ask("demo", "land", "--from", first, "--to", last, *shares)
    assert landed.returncode == 0, landed.stderr


def _bronze_lines(world: World, name: str) -> int:
    return world.lakehouse.spark().read.format("delta").load(world.path(name)).count()


def _landed_lines(world: World, name: str) -> int:
    feed = Path(world.settings.landing) / name.partition("/")[2]
    texts = [path.read_text() for path in feed.rglob("*.jsonl")]
    return sum(1 for text in texts for line in text.splitlines() if line.strip())
