"""A lake whose tables a test declares, over sources that it writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import parse_days
from incremental_assets.delta.read import read_version
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.plan import stale_days, why_pending
from incremental_assets.settings import Settings
from incremental_assets.table import Table

NOON = datetime(2017, 1, 10, 12, tzinfo=UTC)


class Lake:
    """Loads declared tables; the clock stands still until a test moves it."""

    def __init__(self, spark: SparkSession, settings: Settings, *tables: Table) -> None:
        self.spark = spark
        self.settings = settings
        self.tables = {table.name: table for table in tables}
        self.now = NOON
        self.logged: list[str] = []
        self.lakehouse = Lakehouse(
            settings, tables, lambda: spark, lambda: self.now, self.logged.append
        )

    def another(self, name: str) -> Lake:
        """A lake of its own over the same sources."""
        settings = self.settings.replace(lake=f"{self.settings.lake}_{name}")
        other = Lake(self.spark, settings, *self.tables.values())
        other.now = self.now
        return other

    def with_tables(self, *tables: Table) -> Lake:
        """The same lake with tables declared otherwise."""
        other = Lake(self.spark, self.settings, *tables)
        other.now = self.now
        return other

    def source(self, name: str) -> Path:
        return Path(self.settings.landing) / name

    def put_delta(self, name: str, rows: pl.DataFrame, mode: str = "overwrite") -> None:
        rows.write_delta(str(self.source(name)), mode=mode)  # type: ignore[call-overload]

    def put_parquet(self, name: str, file: str, rows: pl.DataFrame) -> None:
        path = self.source(name) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(path)

    def land(
        self, name: str, day: str, file: str, rows: Iterable[Mapping[str, Any] | str | None]
    ) -> Path:
        """JSON lines in a folder; of a day, if one is named."""
        path = self.source(name) / day / file
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    def load(self, days: str, *names: str) -> dict[str, TableLoadResult]:
        wanted = list(parse_days(days))
        return {
            name: self.lakehouse.load(table, wanted)
            for name, table in self.tables.items()
            if not names or name in names
        }

    def load_stale(self) -> None:
        while stale := self.stale():
            name, days = next(iter(stale.items()))
            self.lakehouse.load(self.tables[name], [date.fromisoformat(day) for day in days])

    def stale(self) -> dict[str, list[str]]:
        view, last = self.lakehouse.ledger.view(), self.now.date()
        found = {
            name: [str(d) for d in stale_days(t, view, self.settings.start_date, last)]
            for name, t in self.tables.items()
            if t.upstreams
        }
        return {name: days for name, days in found.items() if days}

    def pending_days(self, name: str) -> list[str]:
        view = self.lakehouse.ledger.view()
        table, start = self.tables[name], self.settings.start_date
        found = why_pending(table, view, self.settings, start, self.now.date())
        return [str(day) for day in found]

    def path(self, name: str) -> str:
        return f"{self.settings.lake}/{name}"

    def bronze(self, name: str, *fields: str) -> list[tuple[Any, ...]]:
        """Landing day and fields of the payloads, sorted."""
        if not DeltaTable.is_deltatable(self.path(name)):
            return []
        rows = read_version(
            self.spark, self.path(name), DeltaTable(self.path(name)).version()
        ).select(
            F.col("_landing_day").cast("string"),
            *(F.try_variant_get("payload", f"$.{f}", "string") for f in fields),
        )
        return sorted(map(tuple, rows.collect()), key=repr)

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a table that any Delta reader can read, sorted."""
        if not DeltaTable.is_deltatable(self.path(name)):
            return []
        frame = pl.read_delta(self.path(name))
        if frame.is_empty():
            return []  # its columns come with the first rows
        frame = frame.select(columns)
        return sorted((tuple(map(_plain, row)) for row in frame.iter_rows()), key=repr)

    def frame(self, name: str) -> pl.DataFrame:
        return pl.read_delta(self.path(name))

    def reasons(self, name: str) -> list[tuple[str, ...]]:
        place = f"{self.settings.lake}/quarantine/{name.replace('/', '_')}"
        if not DeltaTable.is_deltatable(place):
            return []
        return sorted(tuple(reasons) for reasons in pl.read_delta(place)["reasons"].to_list())

    def versions(self) -> dict[str, int]:
        """The versions of all tables that are there."""
        names = [n for n in self.tables if DeltaTable.is_deltatable(self.path(n))]
        return {name: DeltaTable(self.path(name)).version() for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%m-%d %H:%M")
    return str(value) if isinstance(value, date) else value


def states(results: Mapping[str, TableLoadResult], name: str) -> Sequence[str]:
    return [day.state for day in results[name].days.values()]


def at(text: str | None) -> datetime | None:
    """`05 10:30` is that time of January 2017, in UTC."""
    return datetime.fromisoformat(f"2017-01-{text[:2]}T{text[3:]}:00+00:00") if text else None
