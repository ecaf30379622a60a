"""Tables of a database by sequence and by snapshot diff, by loaders, and every type of value."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog, Sequence, SnapshotDiff
from incremental_assets.changes.snapshot_comparison import DELETED_SHARE
from incremental_assets.errors import DefinitionError, SnapshotError, SourceError
from incremental_assets.frames import Frames
from incremental_assets.loaders import (
    DeltaDiffLoader,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from incremental_assets.sources.java_zone import require_utc
from incremental_assets.sources.jdbc import Jdbc, _waiting
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.thorough import thorough

TODAY = "2017-01-10"
ADD = "INSERT INTO orders VALUES (%s, %s, %s, %s)"


def test_a_sequence_reads_what_is_above_it_and_what_fills_its_gaps(
    lake: Lakes, database: Database
) -> None:
    database.execute("CREATE TABLE moves (number bigint, what text)")
    stock = lake(_moves(Jdbc(database.url, "moves")))

    def numbers() -> list[str]:
        return [number for _, number in stock.bronze("bronze/moves", "number")]

    stock.load(TODAY)
    assert numbers() == []
    database.execute("INSERT INTO moves VALUES (1, 'a'), (2, 'b'), (4, 'd')")
    stock.load(TODAY)
    assert numbers() == ["1", "2", "4"]
    assert stock.load(TODAY)["bronze/moves"].days[date(2017, 1, 10)].state == "idle"
    database.execute("INSERT INTO moves VALUES (3, 'c'), (5, 'e')")

    assert stock.pending_days("bronze/moves") == [TODAY]
    stock.load(TODAY)
    assert stock.pending_days("bronze/moves") == []

    assert numbers() == ["1", "2", "3", "4", "5"]


def test_snapshots_of_a_table_find_inserts_updates_and_deletes(
    lake: Lakes, database: Database
) -> None:
    database.execute("CREATE TABLE products (sku text PRIMARY KEY, name text)")
    database.execute("INSERT INTO products SELECT 'p' || n, 'P' || n FROM generate_series(1, 9) n")
    bronze = Table(
        name="bronze/products",
        description="Products as the shop's table has them.",
        reads=(Jdbc(database.url, query="SELECT sku, name FROM products;"),),
        changes=SnapshotDiff(("sku",)),
        write=Append(),
    )
    shop = lake(bronze)
    shop.load(TODAY)
    database.execute("UPDATE products SET name = 'new' WHERE sku = 'p1'")
    database.execute("DELETE FROM products WHERE sku = 'p2'")
    database.execute("INSERT INTO products VALUES ('p10', 'P10')")
    shop.now = datetime(2017, 1, 11, 12, tzinfo=UTC)

    shop.load("2017-01-11")

    kept = shop.spark.read.format("delta").load(shop.path("bronze/products"))
    new = kept.where("_landing_day = '2017-01-11'").selectExpr("_operation", "_key")
    assert kept.count() == 9 + 3
    assert sorted(map(tuple, new.collect())) == [
        ("delete", '["p2"]'),
        ("insert", '["p10"]'),
        ("update", '["p1"]'),
    ]
    assert ("2017-01-11", "p1", "new") in shop.bronze("bronze/products", "sku", "name")

    database.execute("DELETE FROM products WHERE sku <> 'p1'")
    shop.now = datetime(2017, 1, 12, 12, tzinfo=UTC)
    held = shop.load("2017-01-12", "bronze/products")["bronze/products"]
    assert [day.state for day in held.days.values()] == ["held"]
    assert DELETED_SHARE in str(held.days)


def orders_of(database: Database) -> Jdbc:
    """A table with an order, read by several connections."""
    database.execute("CREATE TABLE orders (id int, status text, at timestamp, tags text[])")
    database.execute(ADD, 1, "new", datetime(2017, 1, 5, 10), ["x", "y"])
    return Jdbc(database.url, "orders", partition_by="id", partitions=3)


def test_a_loader_reads_a_table_of_a_database_by_timestamp(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    orders = orders_of(database)

    def load() -> tuple[int, int]:
        done = TimestampBasedLoader(spark).load_incremental(
            orders,
            tmp_path / "merged",
            tmp_path / "marks",
            "at",
            "orders",
            primary_key="id",
        )
        return done.records_inserted, done.records_updated

    assert load() == (1, 0)
    database.execute("UPDATE orders SET status = 'paid', at = %s", datetime(2017, 1, 5, 11))
    database.execute(ADD, 2, "new", datetime(2017, 1, 5, 11), None)
    assert [load(), load()] == [(1, 1), (0, 0)]
    target = pl.read_delta(str(tmp_path / "merged")).sort("id")
    assert target["status"].to_list() == ["paid", "new"]


@thorough(
    "databases/test_tables.py, loaders/test_snapshots.py: a loader by timestamp, tables of the "
    "lake by sequence and by snapshot, and the loaders over files"
)
def test_loaders_read_a_table_of_a_database_by_sequence_and_by_snapshot(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    orders = orders_of(database)
    database.execute(ADD, 2, "new", datetime(2017, 1, 5, 11), None)
    by_number = SequenceBasedLoader(spark).load_incremental(
        orders, tmp_path / "numbers", tmp_path / "marks", "id", "numbers"
    )
    assert by_number.records_inserted == 2

    def copies() -> tuple[int, int, int]:
        done = DeltaDiffLoader(spark).detect_changes(
            orders, tmp_path / "copies", tmp_path / "snapshot", ["id"], "copies"
        )["result"]
        return done.records_inserted, done.records_updated, done.records_deleted

    assert copies() == (2, 0, 0)
    database.execute("UPDATE orders SET status = 'sent' WHERE id = 2")
    assert [copies(), copies()] == [(0, 1, 0), (0, 0, 0)]
    database.execute("DELETE FROM orders WHERE id = 1")
    with pytest.raises(SnapshotError, match="would delete 1 of 2 rows"):
        copies()


VALUES = {
    "a_bool boolean": ("true", "true"),
    "a_small smallint": ("-32768", "-32768"),
    "a_long bigint": ("9223372036854775807", "9223372036854775807"),
    "exact numeric(10, 2)": ("12.50", "12.5"),
    "long_exact numeric(50, 20)": ("1." + "3" * 20, "1." + "3" * 20),
    "no_scale numeric": ("123456789012345678901234567890.000000000000000000000001",) * 2,
    "not_number numeric": ("NaN", "NaN"),
    "rounded numeric(5, -2)": ("12345", "12300"),
    "a_text text": ("007", "007"),
    "padded char(4)": ("ab", "ab  "),
    "a_date date": ("2017-01-05", "2017-01-05"),
    "with_zone timestamptz": ("2017-01-05 12:00:00.123456+02", "2017-01-05 10:00:00.123456"),
    "without timestamp": ("2017-01-05 10:00:00.123456", "2017-01-05 10:00:00.123456"),
    "a_time time": ("10:00:00.5", "10:00:00.5"),
    "span interval": ("1 day 02:03:04", "1 day 02:03:04"),
    "id uuid": ("5cbc6a61-0a3d-4d3f-8c08-c33a4b9d0a2b",) * 2,
    "json_text json": ('{"a": [1, {"b": null}], "a": 2}', '{"a": [1, {"b": null}], "a": 2}'),
    "json_object jsonb": ('{"a": [1, "x"]}', '{"a":[1,"x"]}'),
    "texts text[]": ('{a,NULL,"b c"}', '["a",null,"b c"]'),
    "numbers int[][]": ("{{1,2},{3,4}}", "[[1,2],[3,4]]"),
    "exact_ones numeric[]": ("{1.10,2}", "[1.1,2]"),
    "some_bytes bytea": ("\\x00ff", None),
    "mood mood": ("sad", "sad"),
    "net inet": ("10.0.0.1/8", "10.0.0.1/8"),
    '"Odd name.x" text': ("odd", "odd"),
}


def test_each_type_of_value_is_read_without_loss(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    database.execute(f"CREATE TABLE kinds (n int, {', '.join(VALUES)})")
    marks = ", ".join(["%s"] * (len(VALUES) + 1))
    database.execute(f"INSERT INTO kinds VALUES ({marks})", 1, *(v for v, _ in VALUES.values()))
    database.execute("INSERT INTO kinds (n) VALUES (2)")  # every other column is null
    names = [column.rpartition('"')[0].strip('"') or column.split()[0] for column in VALUES]

    with Frames.over(spark) as frames:
        payloads = Jdbc(database.url, "kinds").fix().objects(frames)
        fields = F.col("payload").try_cast("map<string,variant>")
        texts = [F.try_element_at(fields, F.lit(n)).try_cast("string").alias(n) for n in names]
        full, empty = payloads.select(*texts).orderBy(names[0]).collect()[::-1]
        typed = Jdbc(database.url, "kinds").fix().rows(frames).where("n = 1").collect()[0]

    found = dict(zip(names, full, strict=True))
    expected = dict(zip(names, (text for _, text in VALUES.values()), strict=True))
    assert {n: found[n] for n in names if expected[n] is not None} == {
        n: text for n, text in expected.items() if text is not None
    }
    assert set(empty) == {None}
    assert (typed["exact"], typed["some_bytes"]) == (Exact("12.50"), b"\x00\xff")


def test_partitions_hold_each_row_once_and_are_of_one_moment(
    spark: SparkSession, database: Database
) -> None:
    database.execute("CREATE TABLE numbers (n bigint, at date, exact numeric)")
    database.execute(
        "INSERT INTO numbers SELECT n, date '2017-01-01' + n::int, n / 4.0 "
        "FROM generate_series(-50, 50) n"
    )
    database.execute("INSERT INTO numbers VALUES (NULL, NULL, NULL)")
    for column in ("n", "at", "exact"):
        fixed = Jdbc(database.url, "numbers", partition_by=column, partitions=4).fix()
        with Frames.over(spark) as frames:
            rows = fixed.rows(frames)
            database.execute("INSERT INTO numbers VALUES (0, '2017-01-01', 0)")  # after the moment
            assert rows.rdd.getNumPartitions() == 4
            assert rows.count() == rows.select("n").distinct().count() == 102
        database.execute("DELETE FROM numbers WHERE ctid IN (SELECT max(ctid) FROM numbers)")


def test_a_database_that_stops_amid_a_read_is_reported_and_nothing_is_lost(
    lake: Lakes, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE moves (number bigint, what text)")
    database.execute("INSERT INTO moves SELECT n, 'x' FROM generate_series(1, 100) n")
    slow = (
        "SELECT number, CASE WHEN number > 50 THEN pg_terminate_backend(pg_backend_pid())::text "
        "END AS what FROM moves"
    )
    bronze = Table(
        name="bronze/moves",
        description="Movements of stock.",
        reads=(Jdbc(database.url, query=slow, fingerprint_query="SELECT count(*) FROM moves"),),
        changes=Sequence("number"),
        write=Append(),
    )
    stock = lake(bronze)

    with pytest.raises(SourceError, match=r"the database ended the read: .*[Rr]un again"):
        stock.load(TODAY)

    whole = Jdbc(database.url, "moves")
    other = stock.with_tables(replace(bronze, reads=(whole,)))
    other.load(TODAY)
    assert len(other.bronze("bronze/moves", "number")) == 100


def test_an_answer_of_the_database_is_an_error_in_one_line(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceError, match='relation "nowhere" does not exist'):
        Jdbc(database.url, "nowhere").fix()
    monkeypatch.setenv("DATABASE_PASSWORD", "wrong-one")
    with pytest.raises(SourceError, match="password authentication failed") as refused:
        Jdbc(database.url, "nowhere").fix()
    assert "wrong-one" not in str(refused.value)
    monkeypatch.delenv("DATABASE_USER")
    with pytest.raises(SourceError, match="DATABASE_USER is not set"):
        Jdbc(database.url, "nowhere").fix()


NOT_IN_SPARK = [
    ("far timestamptz", "infinity", r"far is infinity.*NULLIF"),
    ("old date", "0044-03-15 BC", r"old is 0044-03-15 BC.*NULLIF"),
    ("julian timestamp", "1500-02-28 10:00", r"julian is 1500-02-28 10:00:00.*NULLIF"),
    ("amount numeric(10, 2)", "NaN", r"Bad value for type BigDecimal : NaN.*NULLIF"),
]


def test_a_value_that_spark_has_not_is_an_error_with_its_remedy(
    lake: Lakes, database: Database
) -> None:
    columns = ", ".join(column for column, _, _ in NOT_IN_SPARK)
    database.execute(f"CREATE TABLE moves (number bigint, {columns})")
    values = [value for _, value, _ in NOT_IN_SPARK]
    database.execute("INSERT INTO moves VALUES (1, %s, %s, %s, %s)", *values)
    names = [column.split(maxsplit=1)[0] for column, _, _ in NOT_IN_SPARK]
    stock = lake(_moves(Jdbc(database.url, "moves")))

    for name, (_, _, message) in zip(names, NOT_IN_SPARK, strict=True):
        alone = _moves(Jdbc(database.url, query=f"SELECT number, {name} FROM moves"))
        with pytest.raises(SourceError, match=message):
            stock.with_tables(alone).load(TODAY)
    query = f"SELECT number, {', '.join(f'{name}::text' for name in names)} FROM moves"
    whole = stock.with_tables(_moves(Jdbc(database.url, query=query)))
    whole.load(TODAY)

    ((_, *found),) = whole.bronze("bronze/moves", *names)
    assert [text[: len(value)] for text, value in zip(found, values, strict=True)] == values


def test_roles_and_databases_that_write_dates_otherwise_change_nothing(
    lake: Lakes, database: Database
) -> None:
    for setting in (
        "DateStyle = 'German'",
        "TimeZone = 'Asia/Tokyo'",
        "client_encoding = 'LATIN1'",
    ):
        database.execute(f"ALTER ROLE loader IN DATABASE {database.name} SET {setting}")
    database.execute("CREATE TABLE moves (number bigint, moved_at timestamptz, note text)")
    database.execute(
        "INSERT INTO moves VALUES (1, '2017-01-05 23:30+00', chr(252)), (2, '2017-01-06 00:30+00', '')"
    )
    stock = lake(_moves(Jdbc(database.url, "moves", day="moved_at")))

    stock.load("2017-01-05...2017-01-06")

    assert stock.bronze("bronze/moves", "number", "note") == [
        ("2017-01-05", "1", "ü"),
        ("2017-01-06", "2", ""),
    ]


def test_rows_that_wait_are_new_the_next_time_whatever_the_fingerprint_query_says(
    database: Database,
) -> None:
    database.execute("CREATE TABLE moves (number bigint, at timestamptz)")
    database.execute("INSERT INTO moves VALUES (1, now() - interval '1 day'), (2, now())")
    source = Jdbc(
        database.url, "moves", fingerprint_query="SELECT 1", lag=timedelta(hours=1)
    ).read_by("at")

    assert source.fix().fingerprint != source.fix().fingerprint
    database.execute("DELETE FROM moves WHERE number = 2")
    assert source.fix().fingerprint == source.fix().fingerprint


def test_a_row_that_comes_while_a_table_is_inspected_changes_its_own_fingerprint(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(*inspected: Any) -> int:
        found = _waiting(*inspected)
        database.execute("INSERT INTO moves VALUES (2, now())")
        return found

    database.execute("CREATE TABLE moves (number bigint, at timestamptz)")
    database.execute("INSERT INTO moves VALUES (1, now() - interval '1 day')")
    source = Jdbc(database.url, "moves", fingerprint_query="SELECT count(*) FROM moves").read_by(
        "at"
    )
    with monkeypatch.context() as slow:
        slow.setattr("incremental_assets.sources.jdbc._waiting", waiting)
        first = source.fix()

    assert source.fix().fingerprint != first.fingerprint


def test_what_a_database_cannot_be_read_by_is_refused(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE moves (number bigint, what text)")
    moves = Jdbc(database.url, "moves")
    with pytest.raises(DefinitionError, match="ChangeLog reads files or versions"):
        replace(_moves(moves), changes=ChangeLog())
    with pytest.raises(SourceError, match="neither numbers nor instants"):
        replace(moves, partition_by="what").fix().rows(Frames(lambda: nullcontext(None)))  # type: ignore[arg-type]
    twice = Jdbc(database.url, query="SELECT number, what AS number FROM moves")
    with pytest.raises(SourceError, match=r"several columns \['number'\]"):
        twice.fix()
    with pytest.raises(SourceError, match="in the time zone Europe/Berlin"):
        require_utc("Europe/Berlin", "moves")


def _moves(source: Jdbc) -> Table:
    return Table(
        name="bronze/moves",
        description="Movements of stock.",
        reads=(source,),
        changes=Sequence("number"),
        write=Append(),
    )


def test_an_own_fingerprint_decides_whether_there_is_anything_new(
    lake: Lakes, database: Database
) -> None:
    database.execute("CREATE TABLE moves (number bigint, what text)")
    database.execute("CREATE TABLE versions (version int)")
    database.execute("INSERT INTO moves VALUES (1, 'a')")
    database.execute("INSERT INTO versions VALUES (1)")
    source = Jdbc(database.url, "moves", fingerprint_query="SELECT version FROM versions")
    stock = lake(_moves(source))
    stock.load(TODAY)
    database.execute("INSERT INTO moves VALUES (2, 'b')")
    assert stock.pending_days("bronze/moves") == []

    database.execute("UPDATE versions SET version = 2")
    stock.load(TODAY)

    assert [number for _, number in stock.bronze("bronze/moves", "number")] == ["1", "2"]
