"""Tables of MariaDB: by timestamp, sequence and snapshot diff, and every type of value."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Exact
from typing import Any

import pytest

from incremental_assets.changes import Sequence, SnapshotDiff
from incremental_assets.engine.stored_new_rows import new_rows
from incremental_assets.errors import SourceError
from incremental_assets.sources.database import Settled, utc
from incremental_assets.sources.jdbc import FixedJdbc, Jdbc
from incremental_assets.sources.mariadb_transactions import in_utc
from incremental_assets.table import Table
from incremental_assets.testing import Killed
from incremental_assets.writes import Append
from incremental_assets_tests.databases.mariadb import Database, MariaDB
from incremental_assets_tests.databases.test_timestamp import die, tables
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

DAYS = "2017-01-05...2017-01-07"


def landed(source: Jdbc, changes: Any) -> Table:
    return Table(
        name="bronze/orders",
        description="Orders as the shop's table has them.",
        reads=(source,),
        changes=changes,
        write=Append(),
    )


def orders_of(lake: Lakes, maria: Database) -> Lake:
    """A table `orders`, and a lake over it."""
    maria.execute(
        "CREATE TABLE orders (order_id varchar(9) PRIMARY KEY, status text, amount decimal(10, 2), "
        "updated_at timestamp(6) NULL)"
    )
    return lake(*tables(Jdbc(maria.url, "orders")))


def put(maria: Database, order: str, status: str, at: str) -> None:
    """Insert an order, or update it; `at` such as "05 10:00", a day and time of January."""
    maria.execute("REPLACE INTO orders VALUES (%s, %s, 12.5, %s)", order, status, f"2017-01-{at}")


def test_what_is_new_late_or_equal_by_a_timestamp_of_mariadb_is_loaded_once_onto_its_day(
    lake: Lakes, maria: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = orders_of(lake, maria)
    for row in (("a", "paid", "05 23:30"), ("b", "paid", "05 11:00"), ("c", "paid", "06 00:30")):
        put(maria, *row)
    shop.load(DAYS, "bronze/orders")
    first = [("2017-01-05", "a"), ("2017-01-05", "b"), ("2017-01-06", "c")]
    assert shop.bronze("bronze/orders", "order_id") == first
    assert states(shop.load(DAYS, "bronze/orders"), "bronze/orders") == ["idle"] * 3
    assert shop.pending_days("bronze/orders") == []

    put(maria, "a", "shipped", "07 08:00")  # an update
    put(maria, "d", "paid", "06 00:30")  # at the watermark's own instant
    assert shop.pending_days("bronze/orders") == ["2017-01-05", "2017-01-06", "2017-01-07"]
    with monkeypatch.context() as broken, pytest.raises(Killed):
        broken.setattr("incremental_assets.engine.table_load.publish", die)
        shop.load(DAYS, "bronze/orders")
    put(maria, "e", "paid", "06 00:10")  # below the watermark
    shop.load(DAYS)

    amount = Exact("12.50")
    assert shop.rows("silver/orders", "order_id", "status", "amount", "dt") == [
        ("a", "shipped", amount, "2017-01-07"),
        ("b", "paid", amount, "2017-01-05"),
        ("c", "paid", amount, "2017-01-06"),
        ("d", "paid", amount, "2017-01-06"),
    ]
    assert any("1 row of 2017-01-06 came again, or late" in line for line in shop.logged)
    assert shop.pending_days("bronze/orders") == []


def test_no_row_is_lost_whose_transaction_in_mariadb_ends_after_a_later_one(
    lake: Lakes, maria: Database
) -> None:
    shop = orders_of(lake, maria)
    add = "INSERT INTO orders VALUES (%s, 'paid', 1, now(6))"
    with closing(maria.connect("plain")) as early:
        early.cursor().execute(add, ["early"])
        maria.execute(add, "late")
        shop.now = datetime.now(UTC) + timedelta(seconds=1)
        today = str(shop.now.date())

        shop.load(today, "bronze/orders")
        assert shop.bronze("bronze/orders", "order_id") == []
        assert any("1 row from" in line and "has ended" in line for line in shop.logged)

        early.commit()
    assert shop.pending_days("bronze/orders") == [today]
    shop.load(today, "bronze/orders")

    assert shop.bronze("bronze/orders", "order_id") == [(today, "early"), (today, "late")]
    assert shop.pending_days("bronze/orders") == []


def test_mariadb_tells_since_when_statements_and_transactions_are_open(
    mariadb: MariaDB, maria: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    maria.execute("CREATE TABLE moves (number bigint, at timestamp(6))")
    maria.execute("INSERT INTO moves VALUES (1, now(6))")
    source = Jdbc(maria.url, "moves")

    def settled() -> Settled:
        fixed = source.read_by("at").fix()
        assert isinstance(fixed, FixedJdbc)
        assert fixed.settled is not None
        assert bool(fixed.settled.why) == (fixed.settled.until < fixed.settled.clock)
        return fixed.settled

    def waits() -> timedelta:
        """For how long something is open, in the eyes of a load."""
        found = settled()
        return found.clock - found.until

    def require_nothing_open() -> None:
        """Sessions that were closed may take a moment to end."""
        latest = time.monotonic() + 5
        while waits() and time.monotonic() < latest:
            time.sleep(0.1)
        assert waits() == timedelta(0)

    require_nothing_open()
    with closing(maria.connect()) as report, closing(maria.connect()) as another:
        report.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        another.autocommit(True)
        query = "SELECT sleep(1.5) FROM moves"
        select = threading.Thread(target=another.cursor().execute, args=(query,))
        select.start()
        time.sleep(1.1)
        assert waits() == timedelta(0)  # what only reads brings no row
        select.join()
    with closing(maria.connect()) as writer:
        slow = "INSERT INTO moves SELECT 2, now(6) FROM (SELECT sleep(1.5)) waiting"
        insert = threading.Thread(target=writer.cursor().execute, args=(slow,))
        insert.start()
        time.sleep(1.1)
        assert waits() > timedelta(seconds=1)  # it has its timestamp, and no transaction yet
        insert.join()
        until = settled().until
        cursor = writer.cursor()
        cursor.execute("SELECT at FROM moves WHERE number = 2")
        assert until <= utc(cursor.fetchone()[0])  # its transaction began after its timestamp
        assert waits() < timedelta(minutes=2)
    require_nothing_open()

    with closing(mariadb.database("scheduled").connect("admin")) as admin:
        admin.cursor().execute("SET GLOBAL event_scheduler = on")
        try:
            maria.execute(f"CREATE EVENT later ON SCHEDULE AT now() DO {slow}")
            latest = time.monotonic() + 3
            while not (open_for := waits()) and time.monotonic() < latest:
                time.sleep(0.1)
            assert open_for > timedelta(0)
        finally:
            admin.cursor().execute("SET GLOBAL event_scheduler = off")

    for local, expected in (  # the first and the last hour of summer time in the server's system
        ("2026-03-08 03:30:00", "2026-03-08 07:30:00"),
        ("2026-11-01 01:30:00", "2026-11-01 05:30:00"),
    ):
        ((found,),) = maria.execute(f"SELECT {in_utc(f'TIMESTAMP {local!r}')}")
        assert str(found) == expected

    with closing(mariadb.database("elsewhere").connect("admin")) as admin:
        admin.cursor().execute("SET GLOBAL read_only = on")
        try:
            with pytest.raises(SourceError, match=r"the server is read-only or in a cluster.*lag="):
                source.read_by("at").fix()
        finally:
            admin.cursor().execute("SET GLOBAL read_only = off")
    monkeypatch.setenv("DATABASE_USER", "plain")
    with pytest.raises(SourceError, match=r"GRANT PROCESS ON \*\.\* to it, or name a time"):
        source.read_by("at").fix()
    lagging = replace(source, lag=timedelta(minutes=5)).read_by("at").fix()
    assert lagging.highest("at") is None  # the rows there are, are too new


def test_engines_whose_transactions_mariadb_does_not_show_need_a_lag(maria: Database) -> None:
    maria.execute("CREATE TABLE fleeting (at timestamp(6)) ENGINE = MEMORY")
    source = Jdbc(maria.url, "fleeting")
    with pytest.raises(SourceError, match=r"the engine MEMORY.*lag=timedelta"):
        source.read_by("at").fix()
    replace(source, lag=timedelta(minutes=5)).read_by("at").fix()


def test_nobody_knows_since_when_a_transaction_is_open_that_outlived_the_server(
    mariadb: MariaDB, maria: Database
) -> None:
    maria.execute("CREATE TABLE moves (number bigint, at timestamp(6))")
    source = Jdbc(maria.url, "moves").read_by("at")

    def run(*statements: str) -> None:
        with closing(maria.connect("admin")) as connection:
            connection.autocommit(True)
            for statement in statements:
                connection.cursor().execute(statement)

    insert = "INSERT INTO moves VALUES (1, now(6))"
    run("XA START 'a'", insert, "XA END 'a'", "XA PREPARE 'a'")
    mariadb.restart()
    try:
        with pytest.raises(SourceError, match=r"\(XA RECOVER\) has outlived .* end it, or name"):
            source.fix()
    finally:
        run("XA ROLLBACK 'a'")
    source.fix()


def test_a_sequence_of_mariadb_reads_what_is_above_it_and_what_fills_its_gaps(
    lake: Lakes, maria: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    maria.execute("CREATE TABLE moves (number bigint unsigned, what text)")
    add = "INSERT INTO moves VALUES (%s, %s)"
    maria.execute(add, 1, "a")
    maria.execute(add, 3, "c")
    today = "2017-01-10"
    stock = lake(landed(Jdbc(maria.url, "moves"), Sequence("number")))
    stock.load(today)
    maria.execute(add, 2, "b")
    maria.execute(add, 4, "d")
    assert stock.pending_days("bronze/orders") == [today]

    def with_one_more(*given: Any) -> Any:
        maria.execute(add, 5, "e")
        return new_rows(*given)

    with monkeypatch.context() as amid:  # after the numbers were read, before the rows are
        amid.setattr("incremental_assets.engine.stored.new_rows", with_one_more)
        stock.load(today)
    assert [number for _, number in stock.bronze("bronze/orders", "number")] == [*"1234"]
    assert stock.pending_days("bronze/orders") == [today]
    stock.load(today)

    assert stock.pending_days("bronze/orders") == []
    assert stock.bronze("bronze/orders", "number", "what") == [
        (today, str(number), what) for number, what in enumerate("abcde", 1)
    ]


@thorough(
    "databases/test_tables.py, databases/test_mariadb_values.py: snapshots of PostgreSQL, and that "
    "each change in a table of MariaDB is seen, and each row read once"
)
def test_snapshots_of_mariadb_find_inserts_updates_and_deletes(
    lake: Lakes, maria: Database
) -> None:
    maria.execute("CREATE TABLE products (sku char(4) PRIMARY KEY, name text)")
    maria.execute("INSERT INTO products SELECT concat('p', seq), 'x' FROM seq_1_to_9")
    by_key = Jdbc(
        maria.url, query="SELECT sku, name, CAST(right(sku, 1) AS unsigned) AS n FROM products;"
    )
    shop = lake(landed(replace(by_key, partition_by="n", partitions=3), SnapshotDiff(("sku",))))
    shop.load("2017-01-10")
    assert shop.pending_days("bronze/orders") == []
    maria.execute("UPDATE products SET name = 'X' WHERE sku = 'p1'")  # equal to its collation
    maria.execute("DELETE FROM products WHERE sku = 'p2'")
    maria.execute("INSERT INTO products VALUES ('p10', 'y')")
    shop.now = datetime(2017, 1, 11, 12, tzinfo=UTC)

    shop.load("2017-01-11")

    kept = shop.spark.read.format("delta").load(shop.path("bronze/orders"))
    new = kept.where("_landing_day = '2017-01-11'").selectExpr("_operation", "_key")
    assert sorted(map(tuple, new.collect())) == [
        ("delete", '["p2"]'),
        ("insert", '["p10"]'),
        ("update", '["p1"]'),
    ]


def test_a_connection_to_mariadb_that_ends_amid_a_read_loses_nothing(
    lake: Lakes, maria: Database
) -> None:
    maria.execute("CREATE TABLE moves (number bigint, what text)")
    maria.execute("INSERT INTO moves SELECT seq, 'x' FROM seq_1_to_100")
    slow = Jdbc(
        maria.url,
        query="SELECT number, sleep(0.3) AS what FROM moves",
        fingerprint_query="SELECT count(*) FROM moves",
    )
    stock = lake(landed(slow, Sequence("number")))

    def kill() -> None:
        asked = (
            "SELECT id FROM information_schema.processlist "
            "WHERE state = 'User sleep' AND info LIKE '%sleep(0.3)%'"  # amid the rows
        )
        while not (found := maria.execute(asked)):
            time.sleep(0.05)
        maria.execute(f"KILL {found[0][0]}")

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(SourceError, match=r"the database ended the read: .*[Rr]un again"):
        stock.load("2017-01-10")
    killer.join(10)

    other = stock.with_tables(landed(Jdbc(maria.url, "moves"), Sequence("number")))
    other.load("2017-01-10")
    assert len(other.bronze("bronze/orders", "number")) == 100


def test_an_answer_of_mariadb_is_an_error_in_one_line(
    maria: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match=r"answers: Table '.*nowhere' doesn't exist \(error 1146"):
        Jdbc(maria.url, "nowhere").fix()
    with pytest.raises(SourceError, match="Duplicate column name 'a'"):
        Jdbc(maria.url, query="SELECT 1 AS a, 2 AS a").fix()
    monkeypatch.setenv("DATABASE_PASSWORD", "wrong-one-ü-雪")
    with pytest.raises(SourceError, match="Access denied for user 'loader'") as refused:
        Jdbc(maria.url, "nowhere").fix()
    assert "wrong-one" not in str(refused.value)
