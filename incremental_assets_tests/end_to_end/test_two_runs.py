"""Two runs want the same tables at once: one waits, and says for whom; both end well."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import dagster as dg
from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.dagster_dev import started_by, until
from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, TILL, Shop, over
from incremental_assets_tests.scenarios.world import sales

DAY = "2017-01-05"
LONG = 300  # seconds


def test_a_run_from_dagster_waits_for_one_of_the_command_line_and_names_it(
    shop: Shop, spark: SparkSession, server: str
) -> None:
    world = shop.of(TILL).world(spark, *OF_THE_TILL)
    world.land("events", DAY, "a.jsonl", sales("a", DAY, 10))
    lock = Path(shop.settings.lake) / "_locks" / "bronze_events.lock"
    ended: list[CompletedProcess[str]] = []

    first = shop.start("run", "bronze/events")
    # While Java starts, and nothing else happens: stopped amid a write, it would keep SQLite's lock.
    until(lambda: any("java" in words for words in started_by(first.pid).values()), LONG)
    os.killpg(first.pid, signal.SIGSTOP)  # as it is, with the lock of bronze in its hand
    owner = json.loads(lock.read_text())
    assert owner["pid"] == first.pid
    words = ("--select", "bronze/events", "--partition", DAY)
    second = threading.Thread(target=lambda: ended.append(shop.materialize(*words, **over(server))))
    second.start()
    waits = f"bronze/events: waiting for {owner['owner']} (process {first.pid}) to finish"
    try:
        with shop.instance() as instance:
            until(lambda: any(waits in line for line in logged(instance)), LONG)
    finally:
        os.killpg(first.pid, signal.SIGCONT)
        second.join(LONG)

    assert first.wait(LONG) == 0
    assert ended[0].returncode == 0
    assert spark.read.format("delta").load(world.path("bronze/events")).count() == 10
    assert world.lakehouse.ledger.view().table("bronze/events").last_batch == 1


def logged(instance: dg.DagsterInstance) -> Iterator[str]:
    """All that the runs said so far."""
    for run in instance.get_runs():
        for entry in instance.all_logs(run.run_id):
            yield entry.user_message
