"""What a load costs, counted: Spark jobs, input records and Delta commits."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets_tests.scenarios.world import World, sale, sales

# The most Spark jobs that a load may take. The second load also lists what it merges into; Delta's
# own reading of its log is part of each figure.
FIRST = {
    "bronze/events": 7,
    "bronze/users": 7,
    "silver/sales": 18,
    "silver/users": 14,
    "gold/sales_mart": 24,
    "gold/daily_product_sales": 20,
}


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


def test_load_takes_no_more_jobs_than_this_and_one_commit(world: World, counted: EventLog) -> None:
    found = {}
    for name in FIRST:
        world.load("2017-01-05", name)
        found[name] = jobs(counted.new())

    assert all(found[name] <= most for name, most in FIRST.items()), found
    # Version 0 is the empty table that a fence needs; there is nothing for the quarantine.
    assert world.versions() == dict.fromkeys(FIRST, 1)


def test_bronze_reads_each_line_once(world: World, counted: EventLog) -> None:
    world.load("2017-01-05", "bronze/events")

    # Delta's reading of its own log is a few records more; a second reading would be 400.
    assert 200 <= records_read(counted.new()) < 400


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
