"""What a load costs, counted: Spark jobs, input records and Delta commits."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets_tests.scenarios.world import World, sale, sales

# The Spark jobs of a day's first load, and of a later one that merges into what is there.
FIRST = {
    "bronze/events": 1,
    "bronze/users": 1,
    "silver/sales": 2,
    "silver/users": 2,
    "gold/sales_mart": 3,
    "gold/daily_product_sales": 2,
}
LATER = FIRST | {"silver/sales": 5, "silver/users": 6}


class EventLog:
    """Reads what Spark has logged since it was last asked."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._seen = 0
        self.new()

    def new(self) -> list[dict[str, Any]]:
        """The events since the last call, up to a marker that this call itself runs."""
        marker = f"marker {time.monotonic_ns()}"
        self._spark.sql(f"EXPLAIN SELECT '{marker}'").collect()
        (file,) = self._folder.iterdir()
        deadline = time.monotonic() + 30
        while marker not in (text := file.read_text(encoding="utf-8")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        lines = text.splitlines()
        events = [json.loads(line) for line in lines[self._seen :] if line.endswith("}")]
        self._seen = len(lines)
        return events


def jobs(events: list[dict[str, Any]]) -> int:
    return sum(1 for event in events if event["Event"] == "SparkListenerJobStart")


def records_read(events: list[dict[str, Any]]) -> int:
    ends = (event for event in events if event["Event"] == "SparkListenerTaskEnd")
    metrics = (event.get("Task Metrics") or {} for event in ends)
    return sum(m.get("Input Metrics", {}).get("Records Read", 0) for m in metrics)


@pytest.fixture
def counted(world: World, spark: SparkSession, event_log: Path) -> EventLog:
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 200))
    version = {"user_id": "u1", "updated_at": "2017-01-05"}
    world.land("users", "2017-01-05", "u.jsonl", [version])
    return EventLog(spark, event_log)


def loaded_one_by_one(world: World, counted: EventLog) -> dict[str, int]:
    """Load each table; the Spark jobs that it took."""
    found = {}
    for name in FIRST:
        world.load("2017-01-05", name)
        found[name] = jobs(counted.new())
    return found


def test_a_load_takes_this_many_jobs_and_one_commit(world: World, counted: EventLog) -> None:
    first = loaded_one_by_one(world, counted)
    before = world.versions()
    late = [sale("late", "2017-01-05"), sale("a7", "2017-01-05", arrival_ts="2017-01-06")]
    world.land("events", "2017-01-05", "b.jsonl", late)
    world.land("users", "2017-01-05", "v.jsonl", [{"user_id": "u2", "updated_at": "2017-01-05"}])

    later = loaded_one_by_one(world, counted)

    assert (first, later) == (FIRST, LATER)
    # Version 0 is the empty table that a fence needs; a first load may add its columns in another.
    assert set(before.values()) <= {1, 2}
    assert world.versions() == {name: version + 1 for name, version in before.items()}


def test_bronze_reads_each_line_once(world: World, counted: EventLog) -> None:
    world.load("2017-01-05", "bronze/events")

    assert records_read(counted.new()) == 200


def test_nothing_new_takes_no_job(world: World, counted: EventLog) -> None:
    world.load("2017-01-05")
    counted.new()

    world.load("2017-01-05")

    assert jobs(counted.new()) == 0


def test_late_row_does_not_make_silver_read_the_other_rows_of_bronze(
    world: World, counted: EventLog
) -> None:
    world.load("2017-01-05")
    world.land("events", "2017-01-06", "late.jsonl", [sale("late", "2017-01-05")])
    world.load("2017-01-06")

    result = world.load("2017-01-05", "silver/sales")["silver/sales"]

    (entry,) = next(iter(result.days.values())).entries
    assert (entry.mode, entry.rows_read, entry.rows_inserted) == ("merge", 1, 1)
