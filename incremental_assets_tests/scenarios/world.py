"""A small world: a landing folder, a lake, and what a test asks of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables
from incremental_assets.days import parse_days
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.plan import stale_days
from incremental_assets.settings import Settings
from incremental_assets_tests.made_once import MadeOnce

TABLES = {table.name: table for table in tables()}
LAST = date(2017, 3, 1)
OF_SALES = ("bronze/events", "silver/sales", "gold/sales_mart")
WITH_USERS = ("bronze/events", "bronze/users", "silver/sales", "silver/users", "gold/sales_mart")


def sale(order_id: str | None, day: str, **fields: Any) -> dict[str, Any]:
    """An event of the contract: one piece at 2.50, at ten o'clock, arrived five minutes later."""
    return {
        "order_id": order_id,
        "user_id": "u1",
        "store_id": "s1",
        "product_id": "p1",
        "qty": 1,
        "unit_price": 2.5,
        "event_ts": f"{day}T10:00:00Z",
        "arrival_ts": f"{day}T10:05:00Z",
        **fields,
    }


def sales(prefix: str, day: str, number: int) -> list[dict[str, Any]]:
    return [sale(f"{prefix}{i}", day) for i in range(number)]


class World:
    """Lands rows, loads days, and reads what came of it; of all tables, or of those named."""

    def __init__(self, spark: SparkSession, settings: Settings, *names: str) -> None:
        self.settings = settings
        self.tables = {name: t for name, t in TABLES.items() if not names or name in names}
        self.logged: list[str] = []
        self.lakehouse = Lakehouse(
            settings, tables(), lambda: spark, lambda: datetime.now(UTC), self.logged.append
        )
        Path(settings.landing).mkdir(parents=True, exist_ok=True)

    def another(self, name: str, *, own_landing: bool = False) -> World:
        """A world with a lake of its own, over the same landing unless it has its own, too."""
        landing = f"{self.settings.landing}_{name}" if own_landing else self.settings.landing
        settings = self.settings.replace(lake=f"{self.settings.lake}_{name}", landing=landing)
        return World(self.lakehouse.spark(), settings, *self.tables)

    def of(self, *names: str) -> World:
        """The same world with these tables alone."""
        return World(self.lakehouse.spark(), self.settings, *names)

    def as_after(self, make: Callable[[World], None], made_once: MadeOnce) -> World:
        """This world after `make`, which is done for the first test and copied for each."""

        def of_its_own(settings: Settings) -> None:
            make(World(self.lakehouse.spark(), settings, *self.tables))

        made_once.copied(make, self.settings, of_its_own)
        return self

    def land(self, feed: str, day: str, name: str, rows: Iterable[dict[str, Any] | str]) -> Path:
        path = Path(self.settings.landing) / feed / day / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    def load(self, days: str, *names: str) -> dict[str, TableLoadResult]:
        """Load these days of these tables, all of them where none is named, in order."""
        wanted = list(parse_days(days))
        return {
            name: self.lakehouse.load(table, wanted)
            for name, table in self.tables.items()
            if not names or name in names
        }

    def stale(self) -> dict[str, list[str]]:
        view = self.lakehouse.ledger.view()
        found = {
            name: [str(d) for d in stale_days(t, view, self.settings.start_date, LAST)]
            for name, t in self.tables.items()
            if t.upstreams
        }
        return {name: days for name, days in found.items() if days}

    def load_stale(self) -> None:
        """What a stale-day run does: upstreams first, until nothing is stale."""
        while stale := self.stale():
            name, days = next(iter(stale.items()))
            self.lakehouse.load(TABLES[name], [date.fromisoformat(day) for day in days])

    def path(self, name: str) -> str:
        return f"{self.settings.lake}/{name}"

    def exists(self, name: str) -> bool:
        return DeltaTable.is_deltatable(self.path(name))

    def version(self, name: str) -> int:
        return DeltaTable(self.path(name)).version()

    def versions(self) -> dict[str, int]:
        places = [*TABLES, "quarantine/silver_sales", "quarantine/silver_users"]
        return {name: self.version(name) for name in places if self.exists(name)}

    def rows(self, name: str) -> pl.DataFrame:
        """A table without the columns about the load, in a settled order; empty if missing."""
        if not self.exists(name):
            return pl.DataFrame()
        frame = pl.read_delta(self.path(name))
        own = sorted(c for c in frame.columns if not c.startswith("_"))
        key = [c for c in ("dt", "order_id", "user_id", "updated_at", "product_id") if c in own]
        return frame.select(own).sort(key)

    def frame(self, name: str) -> pl.DataFrame:
        return pl.read_delta(self.path(name))

    def orders(self, name: str = "silver/sales") -> set[str]:
        rows = self.rows(name)
        return set(rows["order_id"]) if len(rows) else set()

    def quarantine(self) -> list[tuple[str, tuple[str, ...]]]:
        """Day and reasons of the rows in the quarantine of sales."""
        if not self.exists("quarantine/silver_sales"):
            return []
        frame = pl.read_delta(self.path("quarantine/silver_sales"))
        return sorted((str(r["_day"]), tuple(r["reasons"])) for r in frame.iter_rows(named=True))

    def same_tables_as(self, other: World) -> None:
        """Fail unless silver, gold and quarantine hold the same rows."""
        for name in ("silver/sales", "silver/users", "gold/sales_mart", "gold/daily_product_sales"):
            mine, theirs = self.rows(name), other.rows(name)
            assert mine.columns == theirs.columns, name
            assert mine.equals(theirs), f"{name}: {len(mine)} and {len(theirs)} rows differ"
        assert self.quarantine() == other.quarantine()

    def day_files(self, name: str) -> dict[str, set[str]]:
        """The live data files of a table, by partition."""
        found: dict[str, set[str]] = {}
        for uri in DeltaTable(self.path(name)).file_uris():
            folder, _, file = uri.rpartition("/")
            found.setdefault(folder.rpartition("/")[2], set()).add(file)
        return found
