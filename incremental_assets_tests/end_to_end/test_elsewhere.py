"""The same code on a Spark Connect server and on a cluster: the same tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.cluster import cluster
from incremental_assets_tests.end_to_end.shop import TILL, Shop
from incremental_assets_tests.scenarios.world import World, sale, sales
from incremental_assets_tests.thorough import thorough


def land_two_days(world: World) -> None:
    bad = sale(None, "2017-01-05")
    coloured = sale("red", "2017-01-05", colour="red")
    world.land("events", "2017-01-05", "a.jsonl", [*sales("a", "2017-01-05", 30), bad, coloured])
    world.land("events", "2017-01-06", "b.jsonl", sales("b", "2017-01-06", 20))
    world.land("users", "2017-01-05", "u.jsonl", [{"user_id": "u1", "updated_at": "2017-01-01"}])


def land_what_came_later(world: World) -> None:
    """A late row, a newer version of one, a new version of the user, and a repaired file."""
    newer = sale("a7", "2017-01-05", qty=3, arrival_ts="2017-01-07T00:00:00Z")
    world.land("events", "2017-01-07", "late.jsonl", [sale("late", "2017-01-05"), newer])
    world.land("users", "2017-01-07", "u.jsonl", [{"user_id": "u1", "updated_at": "2017-01-05"}])
    world.land("events", "2017-01-06", "b.jsonl", sales("c", "2017-01-06", 10))


def runs_like_an_embedded_spark(shop: Shop, spark: SparkSession, **where: str) -> None:
    world = shop.world(spark)
    land_two_days(world)
    first = shop.command("run", **where)
    land_what_came_later(world)
    second = shop.command("run", **where)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    embedded = world.another("embedded")
    embedded.load("2017-01-05...2017-01-07")
    embedded.load_stale()
    world.same_tables_as(embedded)
    assert shop.command("run", **where).stdout.strip() == "Nothing is new or stale."


@thorough("end_to_end/test_own_tables.py: all kinds of tables, on a Connect server")
def test_a_run_on_a_connect_server_makes_the_same_tables(
    shop: Shop, spark: SparkSession, server: str
) -> None:
    runs_like_an_embedded_spark(shop, spark, SPARK_REMOTE=server)


@thorough("end_to_end/test_elsewhere.py: the loaders, on a Connect server")
def test_a_run_on_a_cluster_makes_the_same_tables(
    shop: Shop, spark: SparkSession, tmp_path: Path
) -> None:
    with cluster(tmp_path) as url:
        runs_like_an_embedded_spark(shop, spark, SPARK_MASTER=url, SPARK_LOCAL_IP="127.0.0.1")


def test_a_server_that_is_not_there_is_reported_at_once(shop: Shop, spark: SparkSession) -> None:
    land_two_days(shop.world(spark))

    done = shop.of(TILL).over("sc://127.0.0.1:1").ask("run", "bronze/events")

    assert done.returncode == 1
    assert "Spark cannot be reached at sc://127.0.0.1:1" in done.stderr


SMOKE = {
    "counts": [[2, 2, 2, 2, 2], [2, 0, 0], [2, 2, 2, 3, 3], [1, 1, 1]],
    "by time": [[1, "n1"], [2, "n2"], [9, "x2"]],
    "by number": [[1, "n1"], [2, "n2"], [9, "x1"], [9, "x2"]],
    "log": [[1, "n1"], [2, "n2"], [9, "x2"]],
    "versions": [[1, "n1"], [2, "n2"], [9, "x1"], [9, "x2"]],
    "copy": [[2, "n2"], [9, "x2"]],
    "watermarks": 4,
}


@thorough("end_to_end/test_own_tables.py: tables on a Connect server, by the same engine")
def test_the_loaders_do_the_same_on_a_connect_server(server: str, tmp_path: Path) -> None:
    smoke = "incremental_assets_tests.end_to_end.loaders_smoke"
    done = subprocess.run(
        [sys.executable, "-m", smoke, str(tmp_path)],
        env={**os.environ, "SPARK_REMOTE": server},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == SMOKE
    assert "deprecated" not in done.stderr
