"""What Spark's own event log says of a load: how many jobs it took, how many records it read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


class EventLog:
    """Reads what Spark has logged since it was last asked, and nothing of what it said before."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        (self._file,) = folder.iterdir()
        self._seen = self._file.stat().st_size
        self._lines()  # the first of them may be half a line

    def new(self) -> list[dict[str, Any]]:
        """The events since the last call, up to a marker that this call itself runs."""
        return [json.loads(line) for line in self._lines()]

    def _lines(self) -> list[bytes]:
        marker = f"marker {time.monotonic_ns()}"
        self._spark.sql(f"EXPLAIN SELECT '{marker}'").collect()
        deadline = time.monotonic() + 30
        while marker.encode() not in (text := self._unread()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # Not splitlines(): a query may name a character that Unicode takes for an end of line.
        *whole, unfinished = text.split(b"\n")
        self._seen += len(text) - len(unfinished)
        return whole

    def _unread(self) -> bytes:
        with self._file.open("rb") as log:
            log.seek(self._seen)
            return log.read()


def jobs(events: list[dict[str, Any]]) -> int:
    return sum(1 for event in events if event["Event"] == "SparkListenerJobStart")


def records_read(events: list[dict[str, Any]]) -> int:
    """How many rows the scans of files gave; rows that come from a cache are not read again."""
    scans = {at for event in events for at in _rows_of_scans(event.get("sparkPlanInfo") or {})}
    ends = (event for event in events if event["Event"] == "SparkListenerTaskEnd")
    counts = (count for event in ends for count in event["Task Info"]["Accumulables"])
    return sum(int(count["Update"]) for count in counts if count["ID"] in scans)


def _rows_of_scans(plan: dict[str, Any]) -> Iterator[int]:
    """The accumulators in which the scans of a plan count their rows."""
    name = plan.get("nodeName", "")
    if name.startswith("Scan ") and "ExistingRDD" not in name:
        metrics = plan["metrics"]
        yield from (m["accumulatorId"] for m in metrics if m["name"] == "number of output rows")
    for child in plan.get("children", ()):
        yield from _rows_of_scans(child)


def operators(events: list[dict[str, Any]]) -> int:
    """How many operators the plans of the queries had, as they were first planned."""
    plans = (e.get("physicalPlanDescription", "") for e in events if "executionId" in e)
    return sum(plan.count("\n") for plan in plans)
