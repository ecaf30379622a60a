"""What a run of the project had Spark do for each table, by Spark's own event log.

Jobs have no name of their table, so they are counted for the table whose load ended next by the
lines that the run printed: with an embedded Spark, tables load one after the other.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import Row, Table
from incremental_assets_tests.event_log import records_read

Event = dict[str, Any]
COLUMNS = (
    *("table", "jobs", "stages", "tasks", "records read", "MiB of files read"),
    *("MiB written", "MiB shuffled"),
)
WRITTEN, SHUFFLED = (
    ("Output Metrics", "Bytes Written"),
    ("Shuffle Write Metrics", "Shuffle Bytes Written"),
)
SQL_START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
OF_DRIVER = "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates"


@dataclass
class Work:
    """What was done for one table."""

    counts: Counter[str] = field(default_factory=Counter)
    sizes: dict[int, int] = field(default_factory=dict)
    tasks: list[Event] = field(default_factory=list)


def logging_to(folder: Path) -> dict[str, str]:
    """The environment in which a Spark that is started writes its event log into the folder."""
    (folder / "log").mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "log").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(lines)
    return {"SPARK_CONF_DIR": str(folder)}


def work_by_table(folder: Path, ends: Sequence[tuple[float, str]]) -> Table:
    """The work of each table; `ends` are when their loads ended, in seconds since 1970."""
    (log,) = (folder / "log").iterdir()
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").split("\n") if line]
    found = _by_table(events, ends)
    plans = [event for event in events if "sparkPlanInfo" in event]
    table = Table("What Spark did in a further run, with its event log on", COLUMNS)
    for name in (*(name for _, name in ends), *sorted(found.keys() - {n for _, n in ends})):
        table.rows.append(Row([name, *_cells(found[name], plans)]))
    return table


def _by_table(events: Iterable[Event], ends: Sequence[tuple[float, str]]) -> Mapping[str, Work]:
    found: dict[str, Work] = defaultdict(Work)
    table_of: dict[int, str] = {}
    table_of_query: dict[int, str] = {}
    for event in events:
        match event["Event"]:
            case "SparkListenerJobStart":
                name = _next_end(event["Submission Time"] / 1000, ends)
                found[name].counts["jobs"] += 1
                for stage in event["Stage IDs"]:
                    table_of.setdefault(stage, name)
            case "SparkListenerStageCompleted":
                found[table_of[event["Stage Info"]["Stage ID"]]].counts["stages"] += 1
            case "SparkListenerTaskEnd":
                found[table_of[event["Stage ID"]]].tasks.append(event)
            case kind if kind == SQL_START:
                table_of_query[event["executionId"]] = _next_end(event["time"] / 1000, ends)
            case kind if kind == OF_DRIVER:
                found[table_of_query[event["executionId"]]].sizes |= dict(event["accumUpdates"])
    return found


def _next_end(moment: float, ends: Sequence[tuple[float, str]]) -> str:
    at = bisect_left([end for end, _ in ends], moment)
    return ends[at][1] if at < len(ends) else "after the last table"


def _cells(work: Work, plans: Sequence[Event]) -> Iterator[str]:
    yield f"{work.counts['jobs']:,}"
    yield f"{work.counts['stages']:,}"
    yield f"{len(work.tasks):,}"
    yield f"{records_read([*plans, *work.tasks]):,}"
    # Not what tasks count as read: Parquet reads in threads of its own, which they do not see.
    scans = {at for event in plans for at in _sizes_of_scans(event["sparkPlanInfo"])}
    yield f"{sum(size for at, size in work.sizes.items() if at in scans) / 2**20:,.1f}"
    for group, name in (WRITTEN, SHUFFLED):
        measured = (task.get("Task Metrics") or {} for task in work.tasks)
        total = sum(metrics.get(group, {}).get(name, 0) for metrics in measured)
        yield f"{total / 2**20:,.1f}"


def _sizes_of_scans(plan: Event) -> Iterator[int]:
    """The accumulators in which the scans of a plan count the bytes of their files."""
    for metric in plan["metrics"]:
        if metric["name"] == "size of files read":
            yield metric["accumulatorId"]
    for child in plan["children"]:
        yield from _sizes_of_scans(child)
