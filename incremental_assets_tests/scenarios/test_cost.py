"""What a load costs, counted: Spark jobs, input records and Delta commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets_tests.event_log import EventLog, jobs, records_read
from incremental_assets_tests.scenarios.world import World, sale, sales

# The Spark jobs of a day's first load, and of a later one that merges into what is there.
FIRST = {
    "bronze/events": 1,
    "bronze/users": 1,
    "silver/sales": 2,
    "silver/users": 4,
    "gold/sales_mart": 2,
    "gold/daily_product_sales": 2,
}
# A merge looks the keys up before it writes; so small a day of the mart is rebuilt.
LATER = FIRST | {"silver/sales": 3, "silver/users": 5}


@pytest.fixture
def counted(world: World, spark: SparkSession, event_log: Path) -> EventLog:
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 200))
    version = {"user_id": "u1", "updated_at": "2017-01-05"}
    world.land("users", "2017-01-05", "u.jsonl", [version])
    return EventLog(spark, event_log)


def loaded_one_by_one(world: World, counted: EventLog) -> dict[str, list[dict[str, Any]]]:
    """Load each table; what Spark logged of it."""
    found = {}
    for name in FIRST:
        world.load("2017-01-05", name)
        found[name] = counted.new()
    return found


def jobs_of(logged: dict[str, list[dict[str, Any]]]) -> dict[str, int]:
    return {name: jobs(events) for name, events in logged.items()}


def test_a_load_takes_this_many_jobs_and_one_commit_and_nothing_new_takes_none(
    world: World, counted: EventLog
) -> None:
    first = loaded_one_by_one(world, counted)
    before = world.versions()
    late = [sale("late", "2017-01-05"), sale("a7", "2017-01-05", arrival_ts="2017-01-06")]
    world.land("events", "2017-01-05", "b.jsonl", late)
    world.land("users", "2017-01-05", "v.jsonl", [{"user_id": "u2", "updated_at": "2017-01-05"}])

    later = loaded_one_by_one(world, counted)

    assert (jobs_of(first), jobs_of(later)) == (FIRST, LATER)
    entry = world.lakehouse.ledger.view().table("silver/sales").committed[-1]
    # Of bronze it reads what is new, not the other rows of the day.
    assert (entry.mode, entry.rows_read, entry.rows_inserted) == ("merge", 2, 1)
    assert records_read(first["bronze/events"]) == 200  # it reads each line once
    # Version 0 is the empty table that a fence needs; a first load may add its columns in another.
    assert set(before.values()) <= {1, 2}
    after = world.versions()
    assert after == {name: version + 1 for name, version in before.items()}
    again = world.load("2017-01-05", *FIRST)
    assert {r.state for result in again.values() for r in result.days.values()} == {"idle"}
    assert (jobs(counted.new()), world.versions()) == (0, after)
