"""What Spark's own event log says of a load: how many jobs it took, how many records it read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


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
        # Not splitlines(): a query may name a character that Unicode takes for an end of line.
        *whole, _unfinished = text.split("\n")
        events = [json.loads(line) for line in whole[self._seen :]]
        self._seen = len(whole)
        return events


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
