"""How each type reads a field: tables of JSON values, each typed in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal as Exact
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import (
    Decimal,
    FieldType,
    Instant,
    Integer,
    Text,
)

UNREADABLE = "unreadable"
ABSENT = None


def read(kind: FieldType) -> Column:
    """The value of the field `v` of a payload, taken out of it alone."""
    value = F.try_variant_get("payload", "$.v", "variant")
    return kind.typed(F.schema_of_variant(value), value.try_cast("string"))


def typed(spark: SparkSession, kind: FieldType, values: Mapping[str, Any]) -> dict[str, Any]:
    """The field `v` of `{"v": <JSON>}` for each of the JSON texts, as the type reads it."""
    lines = [(value, f'{{"v":{value}}}') for value in values]
    frame = spark.createDataFrame(lines, "value string, line string")
    rows = Contract(v=kind).apply(frame.withColumn("payload", F.parse_json("line")))
    alone = read(kind).alias("alone")
    found = rows.select("value", "v", "_unreadable", alone).collect()
    assert [row["alone"] for row in found] == [row["v"] for row in found]
    return {row["value"]: UNREADABLE if row["_unreadable"] else row["v"] for row in found}


INTEGERS: Mapping[str, Any] = {
    "2": 2,
    "-1": -1,
    "0": 0,
    "2.0": 2,
    "2e2": 200,
    '"3"': 3,
    '" 4 "': 4,
    '"+5"': 5,
    '"5.00"': 5,
    '"2E2"': 200,
    "2147483647": 2147483647,
    "-2147483648": -2147483648,
    "2.5": UNREADABLE,
    '"2.5"': UNREADABLE,
    "5.551115123125783e-17": UNREADABLE,
    "2.0000000000000004": UNREADABLE,
    "-1.00000000000000000000": -1,
    "20e-1": 2,
    "2147483648": UNREADABLE,
    "-2147483649": UNREADABLE,
    "1e400": UNREADABLE,
    '"1e400"': UNREADABLE,
    "123456789012345678901234567890123456789012345": UNREADABLE,
    "true": UNREADABLE,
    "false": UNREADABLE,
    '""': UNREADABLE,
    '" "': UNREADABLE,
    '"two"': UNREADABLE,
    '"NaN"': UNREADABLE,
    '"0x10"': UNREADABLE,
    '"1_000"': UNREADABLE,
    '"1,000"': UNREADABLE,
    '"3d"': UNREADABLE,
    "{}": UNREADABLE,
    '{"v":1}': UNREADABLE,
    "[1]": UNREADABLE,
    "null": ABSENT,
}

DECIMALS: Mapping[str, Any] = {
    "1": Exact("1.0000"),
    "0.1": Exact("0.1000"),
    "-0.1": Exact("-0.1000"),
    '"19.99"': Exact("19.9900"),
    '" 1 "': Exact("1.0000"),
    "1.00004": Exact("1.0000"),
    "1.00005": Exact("1.0001"),
    "-1.00005": Exact("-1.0001"),
    '"1.00005"': Exact("1.0001"),
    "1e2": Exact("100.0000"),
    '"1e2"': Exact("100.0000"),
    '"1.5E-3"': Exact("0.0015"),
    "1e-7": Exact("0.0000"),
    "1234567890.12345": Exact("1234567890.1235"),
    "99999999999999.9999": Exact("99999999999999.9999"),
    "99999999999999.99999": UNREADABLE,
    "100000000000000": UNREADABLE,
    "-100000000000000": UNREADABLE,
    "1e30": UNREADABLE,
    "12345678901234567890.12345678901234567890": UNREADABLE,
    '"NaN"': UNREADABLE,
    '"Infinity"': UNREADABLE,
    '"-inf"': UNREADABLE,
    '""': UNREADABLE,
    '"1,5"': UNREADABLE,
    '"1.2.3"': UNREADABLE,
    '"EUR 5"': UNREADABLE,
    "true": UNREADABLE,
    "{}": UNREADABLE,
    "[1.5]": UNREADABLE,
    "null": ABSENT,
}

TEXTS: Mapping[str, Any] = {
    '"a"': "a",
    '""': "",
    '" a "': " a ",
    '"null"': "null",
    '"{}"': "{}",
    '"ä\\u0000\\n→"': "ä\0\n→",
    '"2017-01-01"': "2017-01-01",
    "1": "1",
    "-5": "-5",
    "1.5": "1.5",
    "12345678901234567890123": "12345678901234567890123",
    "true": "true",
    "false": "false",
    "{}": UNREADABLE,
    '{"a":1}': UNREADABLE,
    "[]": UNREADABLE,
    '["a"]': UNREADABLE,
    "null": ABSENT,
}


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


TIMESTAMPS: Mapping[str, Any] = {
    # With an offset, and UTC without one.
    '"2017-01-02T03:04:05Z"': at(2017, 1, 2, 3, 4, 5),
    '"2017-01-02T03:04:05"': at(2017, 1, 2, 3, 4, 5),
    '"2017-01-02T03:04:05+02:00"': at(2017, 1, 2, 1, 4, 5),
    '"2017-01-02T03:04:05-05:30"': at(2017, 1, 2, 8, 34, 5),
    '"2017-01-02T03:04:05+0200"': at(2017, 1, 2, 1, 4, 5),
    '"2017-01-02T03:04:05-05"': at(2017, 1, 2, 8, 4, 5),
    '"2017-01-01T23:30:00-01:00"': at(2017, 1, 2, 0, 30),
    '"2017-01-02T03:04:05 UTC"': at(2017, 1, 2, 3, 4, 5),
    '"2017-01-02t03:04:05z"': at(2017, 1, 2, 3, 4, 5),
    # Fractions, to the microsecond.
    '"2017-01-02T03:04:05.5Z"': at(2017, 1, 2, 3, 4, 5, 500_000),
    '"2017-01-02T03:04:05.123456Z"': at(2017, 1, 2, 3, 4, 5, 123_456),
    '"2017-01-02T03:04:05.123456789Z"': at(2017, 1, 2, 3, 4, 5, 123_456),
    '"2017-01-02T03:04:05,5"': at(2017, 1, 2, 3, 4, 5, 500_000),
    # Shorter forms of a complete date.
    '"2017-01-02 03:04:05"': at(2017, 1, 2, 3, 4, 5),
    '"2017-01-02T03:04"': at(2017, 1, 2, 3, 4),
    '"2017-01-02"': at(2017, 1, 2),
    '"  2017-01-02  "': at(2017, 1, 2),
    '"2016-02-29"': at(2016, 2, 29),
    # The basic format.
    '"20170102"': at(2017, 1, 2),
    '"20170102T0304"': at(2017, 1, 2, 3, 4),
    '"20170102T030405Z"': at(2017, 1, 2, 3, 4, 5),
    '"20170102T030405.5+0100"': at(2017, 1, 2, 2, 4, 5, 500_000),
    # No complete date: a cast would make it the first of a year, or today.
    '"2017"': UNREADABLE,
    '"2017-01"': UNREADABLE,
    '"03:04:05"': UNREADABLE,
    '"T03:04:05Z"': UNREADABLE,
    '"2017-1-2"': UNREADABLE,
    '"now"': UNREADABLE,
    '"today"': UNREADABLE,
    '"epoch"': UNREADABLE,
    # No such time.
    '"2017-02-29"': UNREADABLE,
    '"2017-13-01"': UNREADABLE,
    '"2017-01-00"': UNREADABLE,
    '"2017-01-02T25:00:00Z"': UNREADABLE,
    '"2017-01-02T03:60:00Z"': UNREADABLE,
    '"2017-01-02T03:04:60Z"': UNREADABLE,
    '"2017-01-02T03:04:05+19:00"': UNREADABLE,
    # Other forms and types.
    '"02/01/2017"': UNREADABLE,
    '"2017-W01-1"': UNREADABLE,
    '"+2017-01-02"': UNREADABLE,
    '"2017-01-02T03:04:05 Europe/Berlin"': UNREADABLE,
    '"2017-01-02T03:04:05Z and more"': UNREADABLE,
    '"1483326245"': UNREADABLE,
    '""': UNREADABLE,
    "1483326245": UNREADABLE,
    "20170102": UNREADABLE,
    "true": UNREADABLE,
    "{}": UNREADABLE,
    '["2017-01-02"]': UNREADABLE,
    "null": ABSENT,
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        pytest.param(Integer(), INTEGERS, id="integer"),
        pytest.param(Decimal(precision=18, scale=4), DECIMALS, id="decimal"),
        pytest.param(Text(), TEXTS, id="text"),
    ],
)
def test_a_value_is_read_exactly_or_it_is_unreadable(
    spark: SparkSession, kind: FieldType, expected: Mapping[str, Any]
) -> None:
    assert typed(spark, kind, expected) == expected


def test_a_timestamp_is_a_complete_iso_date_in_utc(spark: SparkSession) -> None:
    class Microseconds(Instant):
        """Python would shift the instants to the time zone of the machine."""

        def typed(self, kind: Any, text: Any) -> Any:
            return F.unix_micros(Instant().typed(kind, text))

    found = typed(spark, Microseconds(), TIMESTAMPS)

    assert found == {
        text: micros(value) if isinstance(value, datetime) else value
        for text, value in TIMESTAMPS.items()
    }


def micros(moment: datetime) -> int:
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1_000_000 + moment.microsecond


def test_a_wide_integer_has_64_bits(spark: SparkSession) -> None:
    expected = {
        "9223372036854775807": 9223372036854775807,
        '"9007199254740993"': 9007199254740993,
        "9223372036854775808": UNREADABLE,
    }

    assert typed(spark, Integer(wide=True), expected) == expected


def test_a_field_is_unreadable_only_if_it_is_there_and_not_json_null(spark: SparkSession) -> None:
    expected = {
        '{"v":0.5}': ["v"],
        '{"v":""}': ["v"],
        '{"v":{}}': ["v"],
        '{"v":null}': [],
        '{"w":1}': [],
        "{}": [],
        "[1]": [],
        "3": [],
    }
    rows = spark.createDataFrame([(line,) for line in expected], "line string")

    found = Contract(v=Integer()).apply(rows.withColumn("payload", F.parse_json("line")))

    assert {row["line"]: row["_unreadable"] for row in found.collect()} == expected


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        (Text(), "string"),
        (Integer(), "int"),
        (Integer(wide=True), "bigint"),
        (Decimal(precision=20, scale=6), "decimal(20,6)"),
        (Instant(), "timestamp"),
    ],
)
def test_a_type_is_read_as_the_spark_type_that_it_names(
    spark: SparkSession, kind: FieldType, sql: str
) -> None:
    frame = spark.sql("SELECT parse_json('{}') AS payload").select(read(kind))

    assert kind.sql == sql
    assert frame.schema[0].dataType.simpleString() == sql
