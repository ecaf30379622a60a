"""Measure how long Dagster's own record of a long run takes: `python -m benchmarks.dagster_events`.

The job `load_days` runs over a range of days of one table of each layer with nothing landed: no
Spark starts, and each table is done at once. What takes time is Dagster's events, for each day and
table one when it is planned and one when it is loaded. They go to the storage of the instance in
`--home` (its dagster.yaml), or to SQLite in a new one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import dagster as dg

from incremental_assets.catalog import tables_named
from incremental_assets.days import DayRange
from incremental_assets.orchestration.instance import open_instance
from incremental_assets.orchestration.jobs import load_days
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import tags_of
from incremental_assets.orchestration.runs import run_here
from incremental_assets.settings import Settings

TABLES = ("bronze/events", "silver/sales", "gold/latest_user_events")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Dagster's events of a long range.")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--home", type=Path, help="an instance's folder (default: a new one)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-events-") as folder:
        home = asked.home or Path(folder, "home")
        os.environ |= {
            "DAGSTER_HOME": str(home),
            "INCREMENTAL_ASSETS_LAKE": f"{folder}/lake",
            "INCREMENTAL_ASSETS_LANDING": f"{folder}/landing",
        }
        Path(folder, "landing").mkdir()
        settings = Settings.from_environment()
        first = settings.start_date
        with open_instance(settings) as instance:
            _measure(instance, DayRange(first, first))  # what a run takes by itself
            _measure(instance, DayRange(first, first + timedelta(days=asked.days - 1)))


def _measure(instance: dg.DagsterInstance, days: DayRange) -> None:
    keys = [ALONE.key(table) for table in tables_named(TABLES)]
    began, used = time.time(), time.process_time()
    done = run_here(load_days, instance, asset_selection=keys, tags=tags_of(days))
    ended, used = time.time(), time.process_time() - used
    assert done.success
    (started,) = instance.get_records_for_run(
        done.run_id, of_type=dg.DagsterEventType.RUN_START
    ).records
    planned = started.event_log_entry.timestamp - began
    print(
        f"{len(days)} days of {len(keys)} tables: {ended - began:.1f} s, of which planning "
        f"{planned:.1f} s, of processor {used:.1f} s"
    )


if __name__ == "__main__":
    main()
