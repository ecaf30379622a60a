"""kill -9 of the whole process group at any moment, then a run: the tables of an undisturbed run."""

from __future__ import annotations

import random
import time
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets_tests.end_to_end.shop import Shop, kill_group
from incremental_assets_tests.retail_truth import assert_tables_are_the_truth, retail_truth
from incremental_assets_tests.scenarios.test_order_free import land_week
from incremental_assets_tests.scenarios.world import World

KILLS = 3


def batches_claimed(world: World) -> int:
    return sum(len(t.entries) for t in world.house.ledger.view().tables.values())


@pytest.mark.parametrize("seed", [20170105])
def test_run_after_kills_at_random_moments_gives_the_tables_of_an_undisturbed_one(
    shop: Shop, spark: SparkSession, seed: int
) -> None:
    world = shop.world(spark)
    land_week(world)
    whole = world.another("undisturbed")
    whole.load("2017-01-02...2017-01-06")
    whole.load_stale()

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
    versions = world.versions()
    assert shop.command("run").returncode == 0
    assert world.versions() == versions


def test_kills_amid_all_feeds_leave_the_tables_that_the_feeds_say(shop: Shop) -> None:
    days = ("2017-01-02", "2017-01-03")
    shares = ("--late", "0.1", "--duplicate", "0.05", "--sample", "0.1")
    landed = shop.command("demo", "land", "--from", days[0], "--to", days[1], *shares)
    assert landed.returncode == 0, landed.stderr
    ledger = Ledger(ledger_path(shop.settings.lake))
    moments = random.Random(20170102)

    for reached, within in (("silver/users", 2), ("gold/inventory_levels", 0.2)):
        process = shop.start("run")
        deadline = time.monotonic() + 240
        while not ledger.view().table(reached).entries:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(moments.uniform(0, within))  # the run ends soon after the second one
        assert process.poll() is None
        kill_group(process)
    finished = shop.command("run")

    assert finished.returncode == 0, finished.stdout + finished.stderr
    landing, start = Path(shop.settings.landing), shop.settings.start_date
    truth = retail_truth(landing, start, [date.fromisoformat(day) for day in days])
    assert_tables_are_the_truth(shop.settings.lake, truth)


def _bronze_lines(world: World, name: str) -> int:
    return world.house._spark().read.format("delta").load(world.path(name)).count()


def _landed_lines(world: World, name: str) -> int:
    feed = Path(world.settings.landing) / name.partition("/")[2]
    texts = [path.read_text() for path in feed.rglob("*.jsonl")]
    return sum(1 for text in texts for line in text.splitlines() if line.strip())
