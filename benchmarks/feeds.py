"""Measure a day of each kind of source: `python -m benchmarks.feeds`.

A first day, then another one of a tenth as many rows that are new or changed (of a snapshot: all
rows again, two in a hundred changed), in one warm session of the embedded Spark, one turn. The
figures go to the terminal and to `benchmarks/results/feeds.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl

from benchmarks.report import Row, machine, show, write
from benchmarks.report import Table as Figures
from incremental_assets.changes import ChangeLog, SnapshotDiff, Timestamp
from incremental_assets.changes import Sequence as Numbers
from incremental_assets.changes.unchanged import DEBEZIUM
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.loaders import local_session
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Integer, Text
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table, TableInput
from incremental_assets.writes import SCD2, Append, Merge

DAYS = (date(2024, 5, 1), date(2024, 5, 2))
SCHEMA = Contract(id=Integer(wide=True), name=Text(), amount=Decimal(), at=Instant())


@dataclass(frozen=True)
class Feed:
    """A bronze and a silver table, and how a day of so many rows is delivered."""

    name: str
    tables: tuple[Table, Table]
    deliver: Callable[[Path, int, int], None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a day of each kind of source.")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--only", default="", help="a part of the names of the feeds to measure")
    asked = parser.parse_args()
    rows, only = asked.rows, asked.only
    figures = Figures(
        f"Seconds for {rows:,} rows, then {rows // 10:,}",
        ["source and write", "bronze", "silver", "bronze, then", "silver, then"],
    )
    spark = local_session()
    for feed in (feed for feed in _feeds() if only in feed.name):
        with tempfile.TemporaryDirectory(prefix="bench-feeds-") as folder:
            settings = Settings.from_environment(
                {
                    "INCREMENTAL_ASSETS_LAKE": f"{folder}/lake",
                    "INCREMENTAL_ASSETS_LANDING": f"{folder}/landing",
                    "INCREMENTAL_ASSETS_START_DATE": "2024-05-01",
                }
            )
            lakehouse = Lakehouse(settings, feed.tables, lambda: spark, lambda: datetime.now(UTC))
            cells = [feed.name]
            for index, day in enumerate(DAYS):
                feed.deliver(Path(settings.landing), index, rows)
                for table in feed.tables:
                    started = time.monotonic()
                    lakehouse.load(table, [day])
                    cells.append(f"{time.monotonic() - started:.1f}")
            figures.rows.append(Row(cells))
            show([figures])
    spark.stop()
    if only:
        return
    write("feeds", "Feeds", "`make bench-feeds`; one warm session, one turn", [figures], machine())


def _feeds() -> list[Feed]:
    return [
        Feed("by timestamp, merge", _tables("orders", _AT), _parquet),
        Feed("by sequence, append", _tables("movements", _BY_NUMBER, Append(), ()), _parquet),
        Feed("Debezium log, merge", _tables("users", _LOG), _envelopes),
        Feed("Debezium log, SCD2", _tables("people", _LOG, SCD2()), _envelopes),
        Feed("Debezium log, a column unchanged, merge", _tables("marked", _LOG), _marked),
        Feed("Debezium log, a column unchanged, SCD2", _tables("past", _LOG, SCD2()), _marked),
        Feed("snapshot, merge", _tables("products", _COPY), _copies),
    ]


_AT = Timestamp("at")
_BY_NUMBER = Numbers("number")
_LOG = ChangeLog.debezium()
_COPY = SnapshotDiff(("id",))


def _tables(
    name: str,
    changes: Timestamp | Numbers | ChangeLog | SnapshotDiff,
    write: Merge | SCD2 | Append | None = None,
    key: tuple[str, ...] = ("id",),
) -> tuple[Table, Table]:
    stored = isinstance(changes, Timestamp | Numbers)
    read: TableInput = Stored("feed", day="at") if stored else LandedFiles("feed")
    bronze = Table(f"bronze/{name}", "", reads=(read,), changes=changes, write=Append())
    silver = Table(
        f"silver/{name}",
        "",
        reads=(SameDay(bronze),),
        key=key,
        version_by=("at",) if isinstance(changes, Timestamp) else (),
        schema=SCHEMA,
        write=write or Merge(),
    )
    return bronze, silver


def _rows(index: int, rows: int) -> pl.DataFrame:
    """A day's rows: all of them at first, then a tenth, half of which change what was there."""
    first = 0 if index == 0 else rows - rows // 20
    many = rows if index == 0 else rows // 10
    start = datetime(2024, 5, 1 + index, tzinfo=UTC)
    ids = pl.int_range(first, first + many, eager=True)
    return pl.DataFrame(
        {
            "id": ids,
            "number": pl.int_range(index * rows, index * rows + many, eager=True),
            "name": pl.Series([f"name {index} {n % 1000}" for n in range(many)]),
            "amount": (ids % 10_000) / 100,
            "at": [start + timedelta(milliseconds=100 * n) for n in range(many)],
        }
    )


def _parquet(landing: Path, index: int, rows: int) -> None:
    (landing / "feed").mkdir(parents=True, exist_ok=True)
    _rows(index, rows).write_parquet(landing / "feed" / f"{index}.parquet")


def _marked(landing: Path, index: int, rows: int) -> None:
    """The same; of rows that change, the name does not."""
    is_there = pl.lit(index > 0) & (pl.col("id") < rows)
    name = pl.when(is_there).then(pl.lit(DEBEZIUM)).otherwise("name").alias("name")
    _land_envelopes(landing, index, _rows(index, rows).with_columns(name))


def _envelopes(landing: Path, index: int, rows: int) -> None:
    _land_envelopes(landing, index, _rows(index, rows))


def _land_envelopes(landing: Path, index: int, frame: pl.DataFrame) -> None:
    row = pl.struct("id", "name", "amount", pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
    lsn = pl.col("number") + 1
    events = frame.select(
        op=pl.lit("c"), after=row, source=pl.struct(lsn.alias("lsn"), (lsn * 10).alias("ts_ms"))
    )
    _land(landing, index, events)


def _copies(landing: Path, index: int, rows: int) -> None:
    frame = _rows(0, rows)
    if index:
        changed = pl.when(pl.col("id") % 50 == 0).then(pl.lit("changed")).otherwise("name")
        frame = frame.with_columns(name=changed)
    _land(landing, index, frame.drop("number", "at"))


def _land(landing: Path, index: int, rows: pl.DataFrame) -> None:
    folder = landing / "feed" / str(DAYS[index])
    folder.mkdir(parents=True, exist_ok=True)
    rows.write_ndjson(folder / "1.jsonl")


if __name__ == "__main__":
    main()
