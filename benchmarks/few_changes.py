"""Measure few changes to much data: `make bench-few ROWS=1000000`.

Two loads, each in a warm session of the embedded Spark, in turns: a snapshot of a table of which
one row in a thousand changed, against reading that copy once; and one row in a hundred more for a
day, against rebuilding the day. The figures go to the terminal and to
`benchmarks/results/few_changes.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median

import polars as pl
from pyspark.sql import SparkSession

from benchmarks.big import events_of_day
from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.catalog import tables
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.loaders import DeltaDiffLoader, local_session
from incremental_assets.settings import Settings

DAY = date(2017, 1, 5)
COPY_GOAL, DAY_GOAL = 2.0, 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure few changes to much data.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="default a million")
    parser.add_argument("--day-rows", type=int, help="rows of the day (default: as --rows)")
    parser.add_argument("--turns", type=int, default=3, help="default 3")
    asked = parser.parse_args()
    spark = local_session()
    columns = ("what", "load s", "against", "s", "ratio", "goal")
    figures = Table(f"Few changes to {asked.rows:,} rows, medians of {asked.turns} turns", columns)
    with tempfile.TemporaryDirectory(prefix="bench-few-") as folder:
        took = full_copies(spark, Path(folder), asked.rows, asked.turns)
        figures.rows.append(_row("a snapshot, 0.1 % changed", "reading it", took, COPY_GOAL))
    with tempfile.TemporaryDirectory(prefix="bench-few-") as folder:
        in_day = asked.day_rows or asked.rows
        took = later_rows(spark, Path(folder), in_day, asked.turns)
        what = f"1 % more of a day of {in_day:,}"
        figures.rows.append(_row(what, "rebuilding it", took, DAY_GOAL))
    show([figures])
    how = f"`make bench-few ROWS={asked.rows} DAY_ROWS={in_day}`; one warm session, both in turn"
    write("few_changes", "Few changes to much data", how, [figures], machine())


def full_copies(
    spark: SparkSession, folder: Path, rows: int, turns: int
) -> list[tuple[float, float]]:
    """Seconds of loading a copy by snapshot diff, and of reading it, for each turn."""
    source, target, snapshot = (folder / name for name in ("copy", "target", "snapshot"))
    source.mkdir()
    load = DeltaDiffLoader(spark).target(source, target, snapshot, ["id"], "products")
    took = []
    for turn in range(turns + 1):
        _write_copy(source / "part.parquet", rows, turn)
        reading = _seconds(
            lambda: spark.read.parquet(str(source)).write.format("noop").mode("overwrite").save()
        )
        loading = _seconds(load.load)
        if turn:  # the first one only fills the target
            took.append((loading, reading))
    return took


def _write_copy(path: Path, rows: int, turn: int) -> None:
    n = pl.col("id")
    changed = n % 1000 < turn
    pl.select(id=pl.int_range(rows)).with_columns(
        name=pl.format("product {}", n * 7919 % 1_000_003),
        brand=pl.format("brand {}", n % 317),
        department=pl.format("department {}", n % 23),
        price=(n % 10_000) / 100 + changed.cast(pl.Float64) * turn,
        stock=n * 31 % 5000,
        listed_at=pl.datetime(2017, 1, 1) + pl.duration(seconds=n),
    ).write_parquet(path, row_group_size=100_000)


def later_rows(
    spark: SparkSession, folder: Path, rows: int, turns: int
) -> list[tuple[float, float]]:
    """Seconds of merging a hundredth more into a day of silver, and of rebuilding that day."""
    settings = Settings.from_environment(
        {
            "INCREMENTAL_ASSETS_LAKE": f"{folder}/lake",
            "INCREMENTAL_ASSETS_LANDING": f"{folder}/landing",
        }
    )
    by_name = {table.name: table for table in tables()}
    lakehouse = Lakehouse(settings, tables(), lambda: spark, lambda: datetime.now(UTC))
    bronze, silver = by_name["bronze/events"], by_name["silver/sales"]
    landing = folder / "landing" / "events" / str(DAY)
    landing.mkdir(parents=True)

    def land(first: int, count: int) -> None:
        numbers = pl.DataFrame(pl.int_range(first, first + count, eager=True).alias("n"))
        events_of_day(numbers).write_ndjson(landing / f"{first}.jsonl")
        lakehouse.load(bronze, [DAY])

    land(0, rows)
    lakehouse.load(silver, [DAY])
    took = []
    for turn in range(turns):
        land(rows + turn * rows // 100, rows // 100)
        advance = _seconds(lambda: lakehouse.load(silver, [DAY]))
        rebuild = _seconds(lambda: lakehouse.restate(silver, [DAY], "measured"))
        took.append((advance, rebuild))
    return took


def _seconds(what: Callable[[], object]) -> float:
    begun = time.monotonic()
    what()
    return time.monotonic() - begun


def _row(what: str, against: str, took: list[tuple[float, float]], goal: float) -> Row:
    load, other = (median(each[at] for each in took) for at in (0, 1))
    ratio = median(a / b for a, b in took)
    return Row([what, f"{load:.1f}", against, f"{other:.1f}", f"{ratio:.2f}", f"≤ {goal}"])


if __name__ == "__main__":
    main()
