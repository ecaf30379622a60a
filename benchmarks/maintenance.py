"""Measure what compacting the files of a day is worth: `python -m benchmarks.maintenance`.

Thirty deliveries of a day are loaded one after the other into bronze and silver. The day is then
read, the lake maintained, and the day read again: by Spark, as a load reads it, and by polars. Each
figure of reading is the median of seven turns in one warm session. The figures go to the terminal
and to `benchmarks/results/maintenance.md`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median

import polars as pl
from deltalake import DeltaTable

from benchmarks.events import event
from benchmarks.report import Row, machine, show, write
from benchmarks.report import Table as Figures
from incremental_assets.catalog import tables
from incremental_assets.delta.read import read_version
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.loaders import local_session
from incremental_assets.maintenance import maintain
from incremental_assets.settings import Settings
from incremental_assets.spark.load_session import own_session

DAY = date(2024, 5, 2)
BRONZE, SILVER = "bronze/events", "silver/sales"
DELIVERIES, TURNS = 30, 7


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure compacting the files of a day.")
    parser.add_argument("--rows", type=int, default=2_000, help="rows of a delivery")
    rows = parser.parse_args().rows
    figures = Figures(
        f"{DELIVERIES} deliveries of {rows:,} rows, a day", ["table", "", "before", "after"]
    )
    with tempfile.TemporaryDirectory(prefix="bench-maintenance-") as folder:
        settings = Settings.from_environment(
            {
                "INCREMENTAL_ASSETS_LAKE": f"{folder}/lake",
                "INCREMENTAL_ASSETS_LANDING": f"{folder}/landing",
                "INCREMENTAL_ASSETS_START_DATE": "2024-05-01",
            }
        )
        spark = local_session()
        every = {table.name: table for table in tables()}
        lakehouse = Lakehouse(settings, tables(), lambda: spark, lambda: datetime.now(UTC))
        for number in range(DELIVERIES):
            place = Path(settings.landing) / "events" / str(DAY)
            place.mkdir(parents=True, exist_ok=True)
            lines = (json.dumps(event(f"{number}-{n}", n, DAY)) for n in range(rows))
            (place / f"{number}.jsonl").write_text("\n".join(lines))
            for name in (BRONZE, SILVER):
                lakehouse.load(every[name], [DAY])

        def measured() -> dict[str, list[float]]:
            found = {}
            for name in (BRONZE, SILVER):
                path = f"{settings.lake}/{name}"
                files = DeltaTable(path).get_add_actions(flatten=True)["size_bytes"].to_pylist()
                found[name] = [float(len(files)), sum(files) / 1e6, _spark_seconds(path)]
            found[SILVER].append(_median(lambda: pl.read_delta(f"{settings.lake}/{SILVER}")))
            return found

        def _spark_seconds(path: str) -> float:
            with own_session(spark, "small") as session:
                return _median(
                    lambda: (
                        read_version(session, path, DeltaTable(path).version())
                        .agg({"_batch": "max", "*": "count"})
                        .collect()
                    )
                )

        before = measured()
        report = maintain(settings, tables(), lambda: spark, datetime.now(UTC))
        after = measured()
    for name in (BRONZE, SILVER):
        whats = ("files", "MB", "s, read by Spark", "s, read by polars")
        for what, old, new in zip(whats, before[name], after[name], strict=False):
            figures.rows.append(Row([name, what, f"{old:,.3g}", f"{new:,.3g}"]))
    took = sum(kept.seconds for kept in report.tables)
    figures.rows.append(Row(["both", "s, maintained", "", f"{took:.1f}"]))
    show([figures])
    how = "`python -m benchmarks.maintenance`; one warm session, the median of seven turns"
    write("maintenance", "The files of a day, compacted", how, [figures], machine())


def _median(read: Callable[[], object]) -> float:
    took = []
    for _ in range(TURNS):
        started = time.perf_counter()
        read()
        took.append(time.perf_counter() - started)
    return median(took)


if __name__ == "__main__":
    main()
