"""Tables of the lake over tables of MariaDB: each detector, each type, open transactions."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact
from itertools import count

import pymysql
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import Sequence, SnapshotDiff, Timestamp
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.jdbc import Jdbc
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.databases.mariadb import Database, MariaDB
from incremental_assets_tests.databases.server import HOST, LOADER, PASSWORD, PLAIN
from incremental_assets_tests.feeds.conftest import Lakes

_numbers = count(1)


@pytest.fixture
def shop(mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database of MariaDB that no other test uses; loads read it as `loader`."""
    monkeypatch.setenv("DATABASE_USER", LOADER)
    monkeypatch.setenv("DATABASE_PASSWORD", PASSWORD)
    return mariadb.database(f"shop_{next(_numbers)}")


def orders(source: Jdbc, **changes: timedelta) -> Table:
    return Table(
        name="bronze/orders",
        description="Orders as the shop's table has them.",
        reads=(source,),
        changes=Timestamp("updated_at", **changes),
        write=Append(),
    )


@pytest.mark.parametrize("kind", ["timestamp(6)", "datetime", "date"])
def test_a_timestamp_reads_each_change_once(lake: Lakes, shop: Database, kind: str) -> None:
    shop.execute(f"CREATE TABLE orders (id int, status text, updated_at {kind} NULL)")
    shop.execute(
        "SET time_zone = '+00:00'; INSERT INTO orders VALUES (1, 'new', '2017-01-05 10:00:00')"
    )
    made = lake(orders(Jdbc(shop.url, "orders")))
    days = "2017-01-05...2017-01-07"

    def landed() -> list[tuple[str, str, str]]:
        return made.bronze("bronze/orders", "id", "status")

    made.load(days)
    assert landed() == [("2017-01-05", "1", "new")]
    assert made.pending_days("bronze/orders") == []
    shop.execute(
        "SET time_zone = '+00:00'; INSERT INTO orders VALUES (2, 'new', '2017-01-05 10:00:00'), "
        "(3, 'new', '2017-01-07 09:00:00'); UPDATE orders SET status = 'paid' WHERE id = 1"
    )

    assert made.pending_days("bronze/orders") == ["2017-01-05", "2017-01-07"]
    made.load(days)
    made.load(days)

    assert landed() == [
        ("2017-01-05", "1", "new"),
        ("2017-01-05", "1", "paid"),
        ("2017-01-05", "2", "new"),
        ("2017-01-07", "3", "new"),
    ]


def test_a_sequence_and_a_snapshot_read_what_is_new(lake: Lakes, shop: Database) -> None:
    shop.execute("CREATE TABLE moves (number bigint unsigned, what varchar(9))")
    shop.execute("INSERT INTO moves VALUES (1, 'a'), (3, 'c')")

    def bronze(name: str, changes: Sequence | SnapshotDiff) -> Table:
        source = Jdbc(shop.url, "moves", partition_by="number", partitions=2)
        return Table(
            name=f"bronze/{name}",
            description="Movements of stock.",
            reads=(source,),
            changes=changes,
            write=Append(),
        )

    by_number = bronze("moves", Sequence("number"))
    copies = bronze("copies", SnapshotDiff(("number",), max_deleted_share=1))
    made = lake(by_number, copies)
    made.load("2017-01-10")
    shop.execute("INSERT INTO moves VALUES (2, 'b'), (4, 'd'); DELETE FROM moves WHERE number = 1")
    made.load("2017-01-10", "bronze/moves")
    made.now = datetime(2017, 1, 11, 12, tzinfo=UTC)

    made.load("2017-01-11", "bronze/copies")

    assert [n for _, n in made.bronze("bronze/moves", "number")] == ["1", "2", "3", "4"]
    assert made.bronze("bronze/copies", "number", "what") == [
        ("2017-01-10", "1", "a"),
        ("2017-01-10", "3", "c"),
        ("2017-01-11", "1", "a"),  # deleted
        ("2017-01-11", "2", "b"),
        ("2017-01-11", "4", "d"),
    ]


VALUES = {
    "tiny tinyint(1)": ("2", "2"),
    "big bigint unsigned": ("18446744073709551615", "18446744073709551615"),
    "exact decimal(10, 2)": ("12.50", "12.5"),
    "long_exact decimal(60, 25)": ("1." + "3" * 25, "1." + "3" * 25),
    "a_text text": ("'007 ü 😀'", "007 ü 😀"),
    "a_date date": ("'2017-01-05'", "2017-01-05"),
    "moment timestamp(6)": ("'2017-01-05 10:00:00.123456'", "2017-01-05 10:00:00.123456"),
    "plain datetime(6)": ("'2017-01-05 10:00:00.123456'", "2017-01-05 10:00:00.123456"),
    "span time": ("'100:00:01'", "100:00:01"),
    "a_year year": ("2017", "2017"),
    "flags bit(4)": ("b'1010'", "10"),
    "mood enum('sad', 'ok')": ("'sad'", "sad"),
    "kinds set('a', 'b')": ("'a,b'", "a,b"),
    "doc json": ("'{\"a\": [1]}'", '{"a": [1]}'),
    "place point": ("POINT(1, 2)", "POINT(1 2)"),
}


def test_each_type_of_value_is_read_without_loss(spark: SparkSession, shop: Database) -> None:
    shop.execute(f"CREATE TABLE kinds (n int, {', '.join(f'{c} NULL' for c in VALUES)})")
    values = ", ".join(value for value, _ in VALUES.values())
    shop.execute(f"SET time_zone = '+00:00'; INSERT INTO kinds VALUES (1, {values})")
    shop.execute("INSERT INTO kinds (n) VALUES (2)")
    names = [column.split()[0] for column in VALUES]

    with Frames.over(spark) as frames:
        payloads = Jdbc(shop.url, "kinds").fix().objects(frames)
        fields = F.col("payload").try_cast("map<string,variant>")
        texts = [F.try_element_at(fields, F.lit(n)).try_cast("string").alias(n) for n in names]
        found = payloads.select(*texts).orderBy(names[0]).collect()
        typed = Jdbc(shop.url, "kinds").fix().rows(frames).where("n = 1").collect()[0]

    assert [dict(zip(names, row, strict=True)) for row in found] == [
        dict.fromkeys(names),
        dict(zip(names, (text for _, text in VALUES.values()), strict=True)),
    ]
    assert (typed["exact"], typed["a_date"]) == (Exact("12.50"), date(2017, 1, 5))


def test_rows_wait_for_transactions_that_are_open(lake: Lakes, shop: Database) -> None:
    shop.execute("CREATE TABLE orders (id int, status text, updated_at timestamp(6) NULL)")
    add = "INSERT INTO orders VALUES (%s, 'new', now(6))"
    early = _connected(shop, PLAIN)
    early.cursor().execute(add, (1,))  # the transaction stays open
    shop.execute(add.replace("%s", "2"))
    made = lake(orders(Jdbc(shop.url, "orders")))
    made.now = datetime.now(UTC) + timedelta(seconds=1)
    today = str(made.now.date())

    made.load(today)
    assert made.bronze("bronze/orders", "id") == []
    early.commit()
    made.load(today)
    assert [n for _, n in made.bronze("bronze/orders", "id")] == ["1", "2"]


def test_a_user_without_the_right_to_see_transactions_is_told(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("CREATE TABLE orders (id int, updated_at datetime)")
    monkeypatch.setenv("DATABASE_USER", PLAIN)

    with pytest.raises(SourceError, match=r"GRANT PROCESS ON \*\.\*"):
        Jdbc(shop.url, "orders").read_by("updated_at").fix()
    lagging = Jdbc(shop.url, "orders", lag=timedelta(minutes=5)).read_by("updated_at")
    assert lagging.fix().fingerprint == lagging.fix().fingerprint


def _connected(shop: Database, user: str) -> pymysql.connections.Connection:
    return pymysql.connect(
        host=HOST, port=shop.port, user=user, password=PASSWORD, database=shop.name
    )
