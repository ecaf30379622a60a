"""The sequence columns of flat logs: which kind they are, and that they order as the log does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from incremental_assets.changes.log_sequence import (
    SequenceKind,
    is_ordered_as,
    sequence_kind,
    sequence_number,
    settle_sequence_kind,
)
from incremental_assets.errors import SourceError

KINDS: dict[str | None, str | None] = {
    "9": "number",
    " 10 ": "number",
    "-1": "number",
    "+7": "number",
    "20190115164834690000000000000000005": "number",
    "0" * 40 + "5": "number",
    "9" * 38: "number",
    "9" * 39: None,
    "1.5": None,
    "1e3": None,
    "16/B374D848": "wal_lsn",
    "0/0": "wal_lsn",
    "16/B374D848/1": None,
    "G/1": None,
    "00000027:00000758:0005": "cdc_lsn",
    "00000000:00001e36:000000000004a1b4": "cdc_lsn",
    "0x00000027000007580005": "cdc_lsn",
    "27:758:5": None,
    "2024-02-29": "time",
    "2024-02-29 10:00": "time",
    "2024-02-29T10:00:00.123456789Z": "time",
    "2024-02-29 10:00:00+02": "time",
    "2024": "number",
    "10:00:00": None,
    "2024-02-29T10": None,
    "": None,
    "n/a": None,
    None: None,
}

# Of each kind, texts in the order of their log; as text they would come in another.
IN_ORDER: dict[SequenceKind, list[str]] = {
    "number": ["-10", "-9", "0", "009", "9 ", "10", "9" * 38],
    "wal_lsn": [
        "0/0",
        "0/9",
        "0/10",
        "0/FFFFFFFF",
        "1/0",
        "9/FFFFFFFF",
        "16/b374d848",
        "16/B374D849",
    ],
    "cdc_lsn": [
        "00000027:00000758:0005",
        "00000027:00000758:000a",
        "00000027:00000ac0:0001",
        "0x000000280000000a0001",
        "0000002A:00000001:0000",
        "000443d8:0073d0da:0005",
        "ffffffff:ffffffff:ffff",
    ],
    "time": [
        "2024-02-28",
        "2024-02-28 00:00:00.000001",
        "2024-02-28T23:00:00Z",
        "2024-02-29 00:30:00+01:00",
        "2024-02-28 23:45",
        "2024-02-29",
    ],
}


def test_the_kind_of_a_text_is_reported_from_what_it_is(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in KINDS], "text string")

    found = frame.select("text", sequence_kind(F.col("text")).alias("kind")).collect()

    assert {row["text"]: row["kind"] for row in found} == KINDS


def test_one_aggregate_tells_the_kind_of_a_batch(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("9",), ("10",), ("",), (None,)], "text string")

    found = frame.agg(F.collect_set(sequence_kind(F.col("text"))).alias("found")).collect()[0]

    assert settle_sequence_kind(found["found"], None, "seq") == "number"


def test_text_orders_as_its_log_does(spark: SparkSession) -> None:
    lines = [(kind, text) for kind, texts in IN_ORDER.items() for text in reversed(texts)]
    frame = spark.createDataFrame(lines, "kind string, text string")
    # A time is a timestamp, which is no number.
    numbers = {
        kind: F.when(F.col("kind") == kind, sequence_number(F.col("text"), kind))
        for kind in IN_ORDER
    }

    rows = frame.withColumns(numbers).orderBy(*numbers, "text").collect()

    assert {kind: [r["text"] for r in rows if r["kind"] == kind] for kind in IN_ORDER} == IN_ORDER
    assert None not in {row[row["kind"]] for row in rows}


EXACTLY: Sequence[tuple[SequenceKind, str, Any]] = [
    ("number", "20190115164834690000000000000000005", 20190115164834690000000000000000005),
    ("number", "n/a", None),
    ("number", "9" * 39, None),
    ("wal_lsn", "16/B374D848", 0x16B374D848),
    ("wal_lsn", "FFFFFFFF/FFFFFFFF", 2**64 - 1),
    ("wal_lsn", "16", None),
    ("cdc_lsn", "00000027:00000758:0005", 39_0000001880_00005),
    ("cdc_lsn", "00000000:00001e36:000000000004a1b4", 7734_00000000000000303540),
    ("cdc_lsn", "00000027", None),
    ("time", "2024-02-29T10:00:00.123456789+02:00", datetime(2024, 2, 29, 8, 0, 0, 123456)),
    ("time", "2024", None),
]


def test_a_text_is_exactly_its_number(spark: SparkSession) -> None:
    texts = tuple(text for _, text, _ in EXACTLY)
    frame = spark.createDataFrame([texts], [f"v{n}" for n in range(len(texts))])
    found = frame.select(
        *(
            sequence_number(F.col(f"v{n}"), kind).cast(
                "timestamp_ntz" if kind == "time" else _DECIMAL
            )
            for n, (kind, *_) in enumerate(EXACTLY)
        )
    )

    (row,) = found.collect()

    assert list(zip(EXACTLY, row, strict=True)) == [(each, each[2]) for each in EXACTLY]


_DECIMAL = "decimal(38,0)"
TYPED: list[tuple[DataType, Any, SequenceKind, Any]] = [
    (LongType(), 9, "number", 9),
    (DecimalType(20, 0), Decimal(10), "number", Decimal(10)),
    (DateType(), date(2024, 2, 29), "time", datetime(2024, 2, 29, tzinfo=UTC)),
    (TimestampType(), datetime(2024, 2, 29, tzinfo=UTC), "time", datetime(2024, 2, 29, tzinfo=UTC)),
    (BinaryType(), bytes.fromhex("00000027000007580005"), "cdc_lsn", Decimal(39_0000001880_00005)),
]


def test_a_typed_column_is_taken_as_its_type_says(spark: SparkSession) -> None:
    types = ", ".join(f"v{n} {each.simpleString()}" for n, (each, *_) in enumerate(TYPED))
    frame = spark.createDataFrame([tuple(value for _, value, *_ in TYPED), (None,) * 5], types)
    kinds = [sequence_kind(F.col(f"v{n}"), each) for n, (each, *_) in enumerate(TYPED)]
    numbers = [
        sequence_number(F.col(f"v{n}"), kind, each).cast("double" if kind == "time" else _DECIMAL)
        for n, (each, _, kind, _) in enumerate(TYPED)
    ]

    values, nothing = frame.select(*kinds, *numbers).collect()

    assert values[:5] == tuple(kind for _, _, kind, _ in TYPED)
    assert values[5:] == tuple(
        number.timestamp() if kind == "time" else number for _, _, kind, number in TYPED
    )
    assert nothing == (None,) * 10


def test_a_typed_number_has_the_widest_type_of_its_kind(spark: SparkSession) -> None:
    kinds = {
        LongType(): LongType(),
        IntegerType(): LongType(),
        DecimalType(5, 0): DecimalType(38, 0),
    }
    for of, expected in kinds.items():
        number = sequence_number(F.lit(9).cast(of), "number", of)
        assert spark.range(1).select(number).schema[0].dataType == expected


@pytest.mark.parametrize("data_type", [DoubleType(), DecimalType(10, 2)], ids=str)
def test_a_type_that_does_not_order_a_log_is_refused(data_type: DataType) -> None:
    with pytest.raises(SourceError, match=r"does not order a log"):
        sequence_kind(F.lit(None), data_type)


@pytest.mark.parametrize(
    ("data_type", "kind", "expected"),
    [
        (LongType(), None, True),
        (LongType(), "number", True),
        (LongType(), "time", False),
        (DateType(), "number", False),
        (DoubleType(), None, False),
        (DoubleType(), "number", False),
        (StringType(), "wal_lsn", True),
    ],
    ids=str,
)
def test_a_type_orders_values_of_its_own_kind_and_text_of_any(
    data_type: DataType, kind: SequenceKind | None, expected: bool
) -> None:
    assert is_ordered_as(data_type, kind) is expected


def test_a_column_that_changed_its_type_is_not_read_as_before() -> None:
    with pytest.raises(SourceError, match=r"bigint and so of kind 'number'.* as 'time'"):
        sequence_number(F.lit(1), "time", LongType())


@pytest.mark.parametrize(
    ("found", "remembered", "settled"),
    [
        ([], None, None),
        ([], "time", "time"),
        (["number"], None, "number"),
        (["number"], "number", "number"),
        (["number", "time"], "number", "number"),
        (["wal_lsn"], "number", "number"),
    ],
)
def test_the_kind_is_settled_once_and_remembered(
    found: list[str], remembered: SequenceKind | None, settled: SequenceKind | None
) -> None:
    assert settle_sequence_kind(found, remembered, "seq") == settled


def test_two_kinds_of_a_first_load_are_refused() -> None:
    with pytest.raises(SourceError, match=r"'seq' holds values of kinds \['number', 'time'\]"):
        settle_sequence_kind(["number", "time"], None, "seq")


def test_text_is_the_type_unless_another_is_reported(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("9",)], "v string")
    given, default = (
        frame.select(sequence_number(F.col("v"), "number", *types)).collect()
        for types in ([StringType()], [])
    )

    assert given == default
