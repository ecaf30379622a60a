"""What Spark's own event log says of a load: how many jobs it took, how many records it read."""

from __future__ import annotations

import json
import time
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
    ends = (event for event in events if event["Event"] == "SparkListenerTaskEnd")
    metrics = (event.get("Task Metrics") or {} for event in ends)
    return sum(m.get("Input Metrics", {}).get("Records Read", 0) for m in metrics)


def operators(events: list[dict[str, Any]]) -> int:
    """How many operators the plans of the queries had, as they were first planned."""
    plans = (e.get("physicalPlanDescription", "") for e in events if "executionId" in e)
    return sum(plan.count("\n") for plan in plans)
