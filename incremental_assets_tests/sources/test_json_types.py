"""JSON lines as columns of a target: its types decide, and what does not fit is named."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from incremental_assets.frames import Frames
from incremental_assets_tests.sources.reading import Table, fix, lines, put

# type of the target: JSON values with what is read; UNREADABLE for what does not fit
UNREADABLE = object()
NANOSECOND = datetime(2017, 1, 2, 10, 11, 12, 123456, UTC).replace(tzinfo=None)
ELEVEN = datetime(2017, 1, 2, 11, 0)
KNOWN: Mapping[str, tuple[DataType, dict[str, Any]]] = {
    "bigint": (
        LongType(),
        {
            "1": 1,
            '"2"': 2,
            '" +2 "': 2,
            "2.0": 2,
            "2e3": 2000,
            "2.5": UNREADABLE,
            '"x"': UNREADABLE,
            '""': UNREADABLE,
            "true": UNREADABLE,
            "{}": UNREADABLE,
            "9223372036854775808": UNREADABLE,
            '"1e-99999999"': UNREADABLE,
            "null": None,
        },
    ),
    "smallint": (ShortType(), {"32767": 32767, "32768": UNREADABLE, "-1": -1}),
    "int": (IntegerType(), {"2147483647": 2147483647, "2147483648": UNREADABLE}),
    "double": (
        DoubleType(),
        {"1": 1.0, "1.5": 1.5, '"2.5"': 2.5, '"Infinity"': float("inf"), '"x"': UNREADABLE},
    ),
    "decimal": (
        DecimalType(10, 2),
        {
            "1": Decimal("1.00"),
            "1.005": Decimal("1.01"),
            '"-7.10"': Decimal("-7.10"),
            "123456789": UNREADABLE,
            "[1]": UNREADABLE,
        },
    ),
    "wide": (
        DecimalType(38, 0),
        {
            "12345678901234567890": Decimal(12345678901234567890),
            "1.0": Decimal(1),
            "1.5": UNREADABLE,
            '"12345678901234567890123456"': Decimal("12345678901234567890123456"),
        },
    ),
    "exact decimal": (
        DecimalType(38, 3),
        {"12345678901234567890.123": Decimal("12345678901234567890.123")},
    ),
    "boolean": (
        BooleanType(),
        {"true": True, '"FALSE"': False, "1": UNREADABLE, '"yes"': UNREADABLE},
    ),
    "string": (
        StringType(),
        {"1": "1", "true": "true", '"a"': "a", '{"a": [1]}': '{"a":[1]}', "null": None},
    ),
    "timestamp": (
        TimestampType(),
        {
            '"2017-01-02T11:00:00"': ELEVEN,
            '"2017-01-02 11:00"': ELEVEN,
            '"2017-01-02T13:00:00+02:00"': ELEVEN,
            '"2017-01-02T13:00:00+02"': ELEVEN,
            '"20170102T110000Z"': ELEVEN,
            '"2017-01-02T11:00Z"': ELEVEN,
            '" 2017-01-02t11:00:00z "': ELEVEN,
            '"2017-01-02T10:11:12.123456789Z"': NANOSECOND,
            '"2017-01-02T10:11:12,123456Z"': NANOSECOND,
            '"2017-01-02"': datetime(2017, 1, 2),
            '"2017"': UNREADABLE,
            '"11:00:00"': UNREADABLE,
            '"2017-02-30T11:00:00"': UNREADABLE,
            '"2017-01-02T25:00:00"': UNREADABLE,
            '"2017-01-02T11"': UNREADABLE,
            '"2017-01-02T11:00:00 Europe/Berlin"': UNREADABLE,
            '"02.01.2017"': UNREADABLE,
            "1483351872": UNREADABLE,
            "true": UNREADABLE,
        },
    ),
    "timestamp_ntz": (
        TimestampNTZType(),
        {'"2017-01-02T11:00:00"': ELEVEN, '"2017-01-02T13:00:00+02:00"': ELEVEN, '"x"': UNREADABLE},
    ),
    "date": (
        DateType(),
        {
            '"2017-01-02"': date(2017, 1, 2),
            '"20170102"': date(2017, 1, 2),
            '"2017-01-02T00:00:00Z"': date(2017, 1, 2),
            '"2017-01-02T00:00:01Z"': UNREADABLE,
            '"2017-0102"': UNREADABLE,
            '"2017-02-30"': UNREADABLE,
            '"2017"': UNREADABLE,
            "17": UNREADABLE,
        },
    ),
    "binary": (BinaryType(), {'"aGk="': b"hi", '"%"': UNREADABLE}),
    "array": (
        ArrayType(LongType()),
        {"[1, null]": [1, None], '[1, "x"]': UNREADABLE, '{"a": 1}': UNREADABLE, "1": UNREADABLE},
    ),
    "struct": (
        StructType().add("b", IntegerType()).add("t", TimestampType()),
        {
            '{"b": 1, "t": "2017-01-02T11:00:00Z"}': (1, ELEVEN),
            '{"b": "x"}': UNREADABLE,
            '"text"': UNREADABLE,
        },
    ),
}


def of_known_types(spark: SparkSession, folder: Path, most: int) -> Table:
    """Up to so many values of each type, in a column named as it, a line of one value of each."""
    texts = [
        {name: list(cases)[at] for name, (_, cases) in KNOWN.items() if at < len(cases)}
        for at in range(min(most, max(len(cases) for _, cases in KNOWN.values())))
    ]
    rows = (", ".join(f'"{name}": {text}' for name, text in row.items()) for row in texts)
    kinds = {name: kind for name, (kind, _) in KNOWN.items()}
    return lines(spark, folder, *(f"{{{row}}}" for row in rows), "{}", **kinds)


def test_the_targets_type_decides_and_what_does_not_fit_is_named(
    tmp_path: Path, spark: SparkSession
) -> None:
    found = of_known_types(spark, tmp_path, most=99)

    for name, (kind, cases) in KNOWN.items():
        assert found.types[name] == kind.simpleString()
        read = zip(cases, found.column(name), found.column("_unreadable"), strict=False)
        assert {text: (value, name in unreadable) for text, value, unreadable in read} == {
            text: (None, True) if value is UNREADABLE else (value, False)
            for text, value in cases.items()
        }, name
    assert found.column("_unreadable")[-1] == []


def test_values_alone_in_their_column_are_read_as_they_are_among_others(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Which way a value is read depends on the kinds in its column, what is read does not."""
    found = of_known_types(spark, tmp_path, most=1)

    expected = {name: next(iter(cases.values())) for name, (_, cases) in KNOWN.items()}
    assert {name: found.column(name) for name in KNOWN} == {
        name: [value, None] for name, value in expected.items()
    }
    assert found.column("_unreadable") == [[], []]


def test_several_values_that_do_not_fit_are_all_named(tmp_path: Path, spark: SparkSession) -> None:
    found = lines(
        spark,
        tmp_path,
        '{"a": "x", "b.c": "y", "d": 1}',
        "x",
        a=LongType(),
        d=LongType(),
        **{"b.c": DateType()},
    )

    assert found.column("_unreadable") == [["a", "b.c"], []]
    assert found.column("d") == [1, None]


def test_a_known_column_is_found_whatever_its_case_and_spelled_as_the_target_has_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    found = lines(spark, tmp_path, '{"Id": 1}', id=StringType(), other=LongType())

    assert found.own == {"id": "string"}


def test_a_known_field_that_is_only_null_keeps_its_type(
    tmp_path: Path, spark: SparkSession
) -> None:
    found = lines(spark, tmp_path, '{"a": null}', a=DateType())

    assert (found.own, found.column("_unreadable")) == ({"a": "date"}, [[]])


@pytest.mark.parametrize("others", ["{}", '{"a": 1}'])
def test_a_variant_column_takes_any_value_as_it_is(
    tmp_path: Path, spark: SparkSession, others: str
) -> None:
    put(tmp_path / "a.json", f'{{"a": "17"}}\n{others}\n')

    with Frames.over(spark) as frames:
        rows = fix(tmp_path).rows(frames, {"a": VariantType()})
        kinds = [r[0] for r in rows.selectExpr("schema_of_variant(a)").collect()]

    assert kinds[0] == "STRING"
