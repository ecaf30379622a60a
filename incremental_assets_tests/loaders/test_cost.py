"""What a load by a loader costs, counted: Spark jobs, and how often it reads its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from incremental_assets.writes import SCD2
from incremental_assets_tests.event_log import EventLog, jobs, records_read
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.thorough import thorough

SCHEMA = {
    "id": pl.Int64,
    "seq": pl.Int64,
    "operation": pl.String,
    "at": pl.Datetime("us", "UTC"),
}
ROWS = 300


def rows(first: int, last: int) -> Sequence[Mapping[str, Any]]:
    start = NOON - timedelta(days=1)
    return [
        {"id": n % 250, "seq": n, "operation": "UPDATE", "at": start + timedelta(minutes=n)}
        for n in range(first, last)
    ]


def append(place: Place) -> object:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, timestamp_column="at", table_name="orders"
    )


def merge(place: Place) -> object:
    return SequenceBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, sequence_column="seq", table_name="orders", primary_key="id"
    )


def log(place: Place) -> object:
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source, place.target, place.watermarks, "id", "orders", sequence_column="seq"
    )


def history(place: Place) -> object:
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source,
        place.target,
        place.watermarks,
        "id",
        "orders",
        sequence_column="seq",
        write=SCD2(),
    )


def diff(place: Place) -> object:
    for older in sorted(place.source.iterdir())[:-1]:
        older.unlink()
    return DeltaDiffLoader(place.spark, place.clock).detect_changes(
        place.source, place.target, place.snapshot, "seq", "orders", max_deleted_share=1.0
    )


# The Spark jobs of a first load, of one with new rows, and of one in which nothing is new.
JOBS: Mapping[str, tuple[Callable[[Place], object], tuple[int, int, int]]] = {
    "append": (append, (3, 3, 2)),
    "merge": (merge, (4, 5, 3)),
    "change log": (log, (3, 4, 0)),
    "history": (history, (4, 4, 0)),
    "snapshot diff": (diff, (8, 11, 4)),
}


HELD = "loaders/test_cost.py: history, merge and snapshot diff, which do more"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=thorough(HELD) if name in ("append", "change log") else ())
        for name in JOBS
    ],
)
def test_a_load_takes_this_many_jobs_and_reads_its_source_once(
    place: Place, spark: SparkSession, event_log: Path, name: str
) -> None:
    load, expected = JOBS[name]
    counted = EventLog(spark, event_log)
    found = []
    for step in range(3):
        if step < 2:
            place.land(rows(step * ROWS, (step + 1) * ROWS), SCHEMA)
        load(place)
        events = counted.new()
        found.append(jobs(events))
        if step == 0:
            assert records_read(events) == ROWS

    assert tuple(found) == expected
