"""A lake for one test: land rows, load days, read what the tables hold."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import parse_day, parse_days
from incremental_assets.delta.read import read_version
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.operations.quarantined import QuarantineFilter, quarantined_rows
from incremental_assets.plan.rounds import due_runs
from incremental_assets.query import query
from incremental_assets.settings import Settings
from incremental_assets.table import Table

Days = str | date | Iterable[date]
"""`2017-01-05`, `2017-01-05...2017-01-07`, a date, or dates."""
Tables = Table | Iterable[Table]


class Lake:
    """The lake and the landing below a folder, which are made by the first load.

    `now` is the time of every load, in UTC: the moment at which the lake was made, until a test
    sets another. `settings` may be replaced, too: `lake.settings.replace(start_date=…)`. `log` has
    the lines that the loads logged.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        paths = {"lake": str(folder / "lake"), "landing": str(folder / "landing")}
        self.settings = Settings.from_environment({}).replace(**paths)
        self.now = datetime.now(UTC)
        self.log: list[str] = []
        self._tables: dict[str, Table] = {}
        self._copies = count(1)
        Path(self.settings.landing).mkdir(parents=True, exist_ok=True)

    def land(
        self, feed: str, day: str | date, rows: Iterable[Mapping[str, Any] | str], file: str = ""
    ) -> Path:
        """Write rows as JSON lines into `<landing>/<feed>/<day>/`; the path of their file.

        The file is a new one unless it is named: landing a name again replaces what it held, as
        whoever repairs a delivery does. Text is written as it is, for lines that are broken.
        Times and days are written in ISO 8601, decimals as text. Raises DayError.
        """
        folder = Path(self.settings.landing) / feed / str(parse_day(str(day)))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (file or f"{len(list(folder.iterdir())) + 1:04}.jsonl")
        lines = (row if isinstance(row, str) else json.dumps(row, default=_text) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def load(self, tables: Tables, days: Days) -> dict[str, TableLoadResult]:
        """Load days of tables and of all that they read, upstreams first; the results by name.

        A day whose gate failed is in `results["silver/returns"].failed`, with its reason. Raises an
        IncrementalAssetsError if a load could not be done.
        """
        lakehouse = self.lakehouse(tables)
        wanted = _days(days)
        return {t.name: lakehouse.load(t, wanted) for t in with_upstreams(tables)}

    def run(self, tables: Tables) -> None:
        """Load whatever is new or stale in tables and in what they read: `incremental-assets run`.

        So late rows reach the days that they are about.
        """
        lakehouse, chosen = self.lakehouse(tables), with_upstreams(tables)
        for due in due_runs(chosen, self.settings, None, lakehouse.now, lakehouse.ledger.view):
            for table in due.tables:
                lakehouse.load(table, list(due.days))

    def lakehouse(self, tables: Tables = ()) -> Lakehouse:
        """The loads of this lake, of these tables and of all that were loaded before."""
        self._tables |= {table.name: table for table in with_upstreams(tables)}
        known = tuple(self._tables.values())
        return Lakehouse(
            self.settings, known, lambda: self.spark, lambda: self.now, self.log.append
        )

    def rows(self, table: Table | str, *columns: str) -> pl.DataFrame:
        """These columns of a table, in no particular order; none named: all but those of the load.

        The columns of the load begin with `_`. A bronze table's `payload` is JSON text. A table
        that was never published is a frame without rows and columns.
        """
        found = self._read(_name(table))
        own = [name for name in found.columns if not name.startswith("_")]
        return found if found.is_empty() else found.select(columns or own)

    def quarantined(self, table: Table) -> pl.DataFrame:
        """What a table's gate held back: `reasons` (list of text) and `row` (JSON text).

        Outdated rows are left out, as by each reader of a quarantine.
        """
        shown = ("reasons", "row")
        columns = ("_batch", "_day", *shown)
        return quarantined_rows(self.settings, table, QuarantineFilter(), columns).select(shown)

    def copy(self) -> Lake:
        """Another lake and landing that hold the same."""
        folder = self.folder.with_name(f"{self.folder.name}-{next(self._copies)}")
        shutil.copytree(self.folder, folder)
        other = Lake(self.spark, folder)
        other.settings = self.settings.replace(lake=f"{folder}/lake", landing=f"{folder}/landing")
        other.now, other._tables = self.now, dict(self._tables)
        return other

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that were loaded, upstreams first."""
        return tuple(self._tables.values())

    def _read(self, name: str) -> pl.DataFrame:
        path = f"{self.settings.lake}/{name}"
        if not DeltaTable.is_deltatable(path):
            return pl.DataFrame()
        table = DeltaTable(path)
        if name.startswith("bronze/"):  # only Spark reads a VARIANT
            rows = read_version(self.spark, path, table.version())
            return pl.DataFrame(rows.withColumn("payload", F.to_json("payload")).toArrow())
        return query(table)


def with_upstreams(tables: Tables) -> tuple[Table, ...]:
    """Tables and all that they read, upstreams first."""
    found: dict[str, Table] = {}
    for table in (tables,) if isinstance(tables, Table) else tables:
        above = with_upstreams([read.table for read in table.upstreams])
        found |= {each.name: each for each in (*above, table)}
    return tuple(found.values())


def _name(table: Table | str) -> str:
    return table if isinstance(table, str) else table.name


def _days(days: Days) -> list[date]:
    if isinstance(days, str):
        return list(parse_days(days))
    return [days] if isinstance(days, date) else list(days)


def _text(value: object) -> str:
    """A value that JSON has no form for. Times and days have ISO 8601."""
    return value.isoformat() if isinstance(value, date) else str(value)
