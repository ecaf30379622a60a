"""Every type of value of MariaDB, ranges of rows, and TLS."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import date
from decimal import Decimal as Exact
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import Sequence
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.jdbc import Jdbc
from incremental_assets_tests.databases.mariadb import Database, MariaDB
from incremental_assets_tests.databases.server import PASSWORD
from incremental_assets_tests.databases.test_mariadb import landed
from incremental_assets_tests.feeds.conftest import Lakes

VALUES: dict[str, tuple[Any, str | None]] = {
    "a_bool tinyint(1)": (2, "2"),
    "tiny tinyint unsigned": (255, "255"),
    "small smallint unsigned": (65535, "65535"),
    "medium mediumint": (-8388608, "-8388608"),
    "whole int unsigned": (4294967295, "4294967295"),
    "a_long bigint": (-(2**63), "-9223372036854775808"),
    "big bigint unsigned": (2**64 - 1, "18446744073709551615"),
    "exact decimal(10, 2)": ("12.50", "12.5"),
    "most_exact decimal(38, 10) unsigned": ("1234567890123456789012345678.0123456789",) * 2,
    "long_exact decimal(50, 20)": ("1." + "3" * 20,) * 2,
    "single float": (16777215.0, "1.6777215E7"),
    "a_double double": (0.1, "0.1"),
    "a_bit bit(1)": (b"\x01", "true"),
    "some_bits bit(64)": (b"\xff" * 8, "18446744073709551615"),
    "a_year year": (2017, "2017"),
    "a_time time(3)": ("-838:59:58.123", "-838:59:58.123"),
    "a_date date": ("2017-01-05", "2017-01-05"),
    "instant timestamp(6) NULL": ("2017-07-05 10:00:00.123456", "2017-07-05 10:00:00.123456"),
    "without datetime(3)": ("2017-07-05 10:00:00.123", "2017-07-05 10:00:00.123"),
    "a_text text": ("007 Zürich 雪", "007 Zürich 雪"),
    "latin varchar(9) CHARACTER SET latin1": ("Zürich", "Zürich"),
    "fixed char(4)": ("ab", "ab"),
    "fixed_bytes binary(4)": (b"ab", None),
    "mood enum('sad', 'ok')": ("sad", "sad"),
    "moods set('sad', 'ok')": ("sad,ok", "sad,ok"),
    "some_bytes varbinary(4)": (b"\x00\xff", None),
    "a_blob blob": (b"\x00\xff", None),
    "id uuid": ("5cbc6a61-0a3d-4d3f-8c08-c33a4b9d0a2b",) * 2,
    "net inet6": ("2001:db8::1", "2001:db8::1"),
    "document json": ('{"a": [1, "x"]}', '{"a":[1,"x"]}'),
    '`Odd name.x``"` text': ("odd", "odd"),
}


def test_each_type_of_mariadbs_values_is_read_without_loss(
    spark: SparkSession, maria: Database
) -> None:
    maria.execute(f"CREATE TABLE kinds (n int, {', '.join(VALUES)}, place point)")
    marks = ", ".join(["%s"] * (len(VALUES) + 1))
    columns = "n, " + ", ".join(
        name if name.startswith("`") else name.split()[0]
        for name in (column.rpartition(" text")[0] or column for column in VALUES)
    )
    add = f"INSERT INTO kinds ({columns}, place) VALUES ({marks}, point(1, 2))"
    maria.execute(add, 1, *(value for value, _ in VALUES.values()))
    maria.execute("INSERT INTO kinds (n) VALUES (2)")  # every other column is null
    names = [
        column[1:].partition("` ")[0].replace("``", "`") if "`" in column else column.split()[0]
        for column in VALUES
    ]
    source = Jdbc(maria.url, "kinds")

    with Frames.over(spark) as frames:
        payloads = source.fix().objects(frames)
        fields = F.col("payload").try_cast("map<string,variant>")
        found = [F.try_element_at(fields, F.lit(n)).try_cast("string") for n in ["n", *names]]
        empty, full = sorted(payloads.select(*found).collect(), reverse=True)
        rows = source.fix().rows(frames)
        types = dict(rows.dtypes)
        typed = rows.where("n = 1").collect()[0]

    texts = dict(zip(names, full[1:], strict=True))
    expected = dict(zip(names, (text for _, text in VALUES.values()), strict=True))
    assert {n: texts[n] for n in names if expected[n] is not None} == {
        n: text for n, text in expected.items() if text is not None
    }
    assert set(empty[1:]) == {None}
    assert (typed["exact"], typed["some_bytes"]) == (Exact("12.50"), b"\x00\xff")
    assert typed["fixed_bytes"] == b"ab\x00\x00"
    assert (typed["a_blob"], len(typed["place"])) == (b"\x00\xff", 21)
    assert [types[n] for n in ("instant", "without", "a_date", "single", "big", "a_bit")] == [
        *("timestamp", "timestamp_ntz", "date"),
        *("float", "decimal(20,0)", "boolean"),
    ]
    for column in (*names, "place"):  # each change is seen without Spark
        before = source.fix().fingerprint
        name = "`" + column.replace("`", "``") + "`"
        maria.execute(f"UPDATE kinds SET {name} = NULL WHERE n = 1")
        assert source.fix().fingerprint != before, column


def test_json_of_mariadb_is_known_to_a_user_who_may_only_select(
    mariadb: MariaDB, maria: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    maria.execute("CREATE TABLE texts (document json, `odd``one` json, plain text)")
    with closing(mariadb.database("others").connect("admin")) as admin:
        cursor = admin.cursor()
        cursor.execute(f"CREATE USER reader@'%' IDENTIFIED BY '{PASSWORD}'")
        cursor.execute(f"GRANT SELECT ON {maria.name}.texts TO reader@'%'")
        cursor.execute("SET GLOBAL sql_mode = 'ANSI_QUOTES'")  # of no effect on a load
        monkeypatch.setenv("DATABASE_USER", "reader")
        try:
            fixed = Jdbc(maria.url, "texts").fix()
        finally:
            cursor.execute("SET GLOBAL sql_mode = DEFAULT")
    assert fixed.json_columns == ("document", "odd`one")


NOT_IN_SPARK = {
    "zero date": "0000-00-00",
    "no_month datetime(3)": "2017-00-15 10:00:00.000",
    "zero_instant timestamp NULL": "0000-00-00 00:00:00",
    "julian datetime": "1500-02-28 10:00:00",
    "no_day date": "2017-02-31",
}


def test_a_date_that_is_none_is_an_error_with_its_remedy(
    spark: SparkSession, lake: Lakes, maria: Database
) -> None:
    maria.execute(f"CREATE TABLE moves (number int, {', '.join(NOT_IN_SPARK)})")
    with closing(maria.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("INSERT INTO moves VALUES (1, %s, %s, %s, %s, %s)", [*NOT_IN_SPARK.values()])
        connection.commit()
    names = [column.split()[0] for column in NOT_IN_SPARK]

    for name, value in zip(names, NOT_IN_SPARK.values(), strict=True):
        alone = Jdbc(maria.url, query=f"SELECT number, {name} FROM moves")
        with pytest.raises(SourceError, match=f"1 row with a {name} .* such as {value}"):
            replace(alone, day=name).fix()
        fixed = alone.fix()
        with Frames.over(spark) as frames, pytest.raises(Py4JJavaError) as failed:
            fixed.rows(frames).collect()
        told = str(fixed.explained(failed.value))
        assert f"the database ended the read: {name} is {value[:10]}" in told
        assert "pass a query that converts it" in told
    texts = ", ".join(f"CAST({name} AS CHAR) AS {name}" for name in names)
    whole = lake(
        landed(Jdbc(maria.url, query=f"SELECT number, {texts} FROM moves"), Sequence("number"))
    )
    whole.load("2017-01-10")
    assert whole.bronze("bronze/orders", *names) == [("2017-01-10", *NOT_IN_SPARK.values())]


def test_partitions_of_mariadb_hold_each_row_once(
    spark: SparkSession, mariadb: MariaDB, maria: Database
) -> None:
    maria.execute("CREATE TABLE numbers (n bigint, at date, exact decimal(50, 20))")
    maria.execute(
        "INSERT INTO numbers SELECT seq, '2017-01-01' + INTERVAL seq DAY, seq / 4 "
        "FROM seq_1_to_100 UNION SELECT NULL, NULL, NULL"
    )
    with closing(mariadb.database("limited").connect("admin")) as admin:
        admin.cursor().execute("SET GLOBAL sql_select_limit = 2")  # of no effect on a load
        try:
            for column in ("n", "at", "exact"):
                source = Jdbc(maria.url, "numbers", partition_by=column, partitions=4)
                with Frames.over(spark) as frames:
                    rows = source.fix().rows(frames)
                    assert rows.rdd.getNumPartitions() == 4
                    assert rows.count() == rows.select("n").distinct().count() == 101
        finally:
            admin.cursor().execute("SET GLOBAL sql_select_limit = DEFAULT")
    fixed = Jdbc(maria.url, "numbers").read_by("at").fix()
    days = [date(2017, 1, day) for day in (5, 6, 7)]
    together = fixed.rows_by_day("at", days, days[-1])
    for day in days:
        assert fixed.rows_by_day("at", [day], days[-1]) == {day: together[day]}
    assert not fixed.is_of_one_moment


def test_rows_of_mariadb_are_read_by_tls(
    spark: SparkSession, mariadb: MariaDB, maria: Database
) -> None:
    query = (
        "SELECT variable_value AS cipher FROM information_schema.session_status "
        "WHERE variable_name = 'Ssl_cipher'"
    )

    def source(options: str) -> Jdbc:
        return Jdbc(maria.url + options, query=query)

    verified = source(f"?sslMode=verify-full&serverSslCert={mariadb.certificate}")
    for each, is_encrypted in (
        (verified, True),
        (source("?sslMode=trust"), True),
        (source(""), False),
    ):
        with each.connected() as connection:
            cursor = connection.cursor()
            cursor.execute(query)
            assert bool(cursor.fetchone()[0]) == is_encrypted
        with Frames.over(spark) as frames:
            assert bool(each.fix().rows(frames).collect()[0]["cipher"]) == is_encrypted
    with pytest.raises(SourceError, match="certificate verify failed"):
        source("?sslMode=verify-ca").fix()
