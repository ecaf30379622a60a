"""A shop's database, the connector that sends its changes, and a lake over the topics."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Integer, Text
from incremental_assets.sources.kafka import Kafka
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge, RecomputeKeys
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.debezium.connector import Worker
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.kafka.broker import Broker

SECONDS = 60
TABLES = (
    "CREATE TABLE users (id int PRIMARY KEY, name text, bio text, joined timestamptz)",
    "CREATE TABLE orders (id int PRIMARY KEY, user_id int, amount numeric(18,4))",
    "CREATE TABLE marks (id int PRIMARY KEY)",
)
USERS = ("id", "name", "bio")
LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series({}, {} + 400) i)"
"""A text so long that PostgreSQL keeps it apart, and leaves it out of the log where it stays."""


class Shop:
    """A database, `name`d in its topics, and the lake that is loaded from these."""

    def __init__(
        self, lakes: Lakes, database: Database, broker: Broker, worker: Worker, name: str
    ) -> None:
        self.database = database
        self.broker = broker
        self.worker = worker
        self.name = name
        self._marks = 0
        self._began = datetime.now(UTC)
        start = (self._began - timedelta(days=1)).date()
        settings = lakes.settings.replace(start_date=start)
        self.lake = Lake(lakes.spark, settings, *self._tables())
        for statement in TABLES:
            self.sql(statement)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement in a transaction of its own."""
        return self.database.execute(statement, *values)

    def transaction(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.database.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def connect(self, **options: str) -> None:
        """Start the connector: a snapshot first, then what changes."""
        self.worker.connect(self.name, self.database, **options)

    def arrive(self) -> None:
        """Wait until all that was committed is in the topics.

        The broker has each topic in order, not one after the other, so the connector must have
        heard from it that all of the log is there.
        """
        ((position,),) = self.sql("SELECT pg_current_wal_lsn()")
        for _ in range(2):  # of a transaction the connector confirms the one before it
            self._marks += 1
            self.sql("INSERT INTO marks VALUES (%s)", self._marks)
        topic, latest = f"{self.name}.public.marks", time.monotonic() + SECONDS
        while True:
            there = self.broker.admin.list_topics(timeout=SECONDS).topics
            if topic in there and self._is_last() and self._is_confirmed(position):
                return
            assert time.monotonic() < latest, f"{self.name} sends nothing"
            time.sleep(0.05)

    def _is_last(self) -> bool:
        topic = f"{self.name}.public.marks"
        # A connector that was killed may send again what it had sent.
        if self.broker.ends(topic)[0] < self._marks:
            return False
        return bool(self.broker.last_value(topic)["after"]["id"] == self._marks)

    def _is_confirmed(self, position: str) -> bool:
        slot = f"slot_of_{self.database.name}"
        asked = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots"
        return self.sql(f"{asked} WHERE slot_name = %s", position, slot) == [(True,)]

    def load(self) -> None:
        """Load all tables, as of now."""
        self.lake.now = datetime.now(UTC)
        self.lake.load(f"{self._began.date()}...{self.lake.now.date()}")

    def users(self) -> list[tuple[Any, ...]]:
        """The users as PostgreSQL has them."""
        return sorted(self.sql(f"SELECT {', '.join(USERS)} FROM users"), key=repr)

    def require_equal(self) -> None:
        """Assert that silver, the current versions and gold have what PostgreSQL has."""
        lake = self.lake
        assert lake.reasons("silver/users") == lake.reasons("silver/people") == []
        assert lake.rows("silver/users", *USERS) == self.users()
        current = lake.rows("silver/people", *USERS, "is_current")
        assert [row[:-1] for row in current if row[-1]] == self.users()
        sums = "SELECT user_id, sum(amount) FROM orders GROUP BY user_id"
        assert lake.rows("gold/spent", "user_id", "amount") == sorted(self.sql(sums), key=repr)

    def _tables(self) -> list[Table]:
        users, orders = self._bronze("users"), self._bronze("orders")
        schema = Contract(id=Integer(required=True), name=Text(), bio=Text(), joined=Instant())
        order = Contract(id=Integer(required=True), user_id=Integer(), amount=Decimal())
        kept = {"users": Merge(), "people": SCD2()}
        silver = [
            Table(f"silver/{name}", "", (SameDay(users),), write, ("id",), schema=schema)
            for name, write in kept.items()
        ]
        facts = Table("silver/orders", "", (SameDay(orders),), Merge(), ("id",), schema=order)
        spent = Table(
            name="gold/spent",
            description="What each user spent.",
            reads=(SameDay(facts),),
            key=("user_id",),
            write=RecomputeKeys(),
            transform=_spent,
        )
        return [users, *silver, orders, facts, spent]

    def _bronze(self, table: str) -> Table:
        return Table(
            name=f"bronze/{table}",
            description=f"Changes of {table}.",
            reads=(Kafka(self.broker.url, f"{self.name}.public.{table}"),),
            changes=ChangeLog.debezium(),
            write=Append(),
        )


def _spent(orders: DataFrame) -> DataFrame:
    amount = F.sum("amount").cast("decimal(18,4)").alias("amount")
    return orders.groupBy("user_id").agg(amount, F.max("dt").alias("dt"))
