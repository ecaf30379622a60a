"""Parquet files as a table: types as they are, columns of all files, and payloads of rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets_tests.sources.reading import fix, payloads, read

MOMENT = datetime(2017, 1, 2, 10, 11, 12, 123456)
NANOSECONDS = 1483351872123456789


def parquet(path: Path, table: pa.Table, **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)


def test_types_are_the_files_own_whatever_the_target_has(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "dec": pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
            "d": [date(2017, 1, 2)],
            "local": pa.array([MOMENT], pa.timestamp("us")),
            "utc": pa.array([MOMENT], pa.timestamp("us", "UTC")),
            "b": [b"x"],
            "l": [[1, None]],
            "s": [{"x y": "z"}],
            "odd, name.": ["o"],
        }
    )
    parquet(tmp_path / "a.parquet", table)

    found = read(spark, tmp_path, {"i": StringType(), "d": LongType()})

    assert found.own == {
        "i": "int",
        "dec": "decimal(5,2)",
        "d": "date",
        "local": "timestamp_ntz",
        "utc": "timestamp",
        "b": "binary",
        "l": "array<bigint>",
        "s": "struct<x y:string>",
        "odd, name.": "string",
    }
    assert found.rows[0]["dec"] == Decimal("1.50")
    assert (found.rows[0]["local"], found.rows[0]["utc"]) == (MOMENT, MOMENT)
    assert [found.rows[0][fact] for fact in ("_file", "_raw", "_unreadable")] == [
        "a.parquet",
        None,
        [],
    ]


def test_files_with_other_columns_are_put_together(tmp_path: Path, spark: SparkSession) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"id": [1], "name": ["a"]}))
    parquet(tmp_path / "deep" / "b.parquet", pa.table({"more": [2.5], "id": [2]}))

    found = read(spark, tmp_path)

    assert found.own == {"id": "bigint", "name": "string", "more": "double"}
    assert sorted(
        ((r["id"], r["name"], r["more"]) for r in found.rows), key=lambda row: row[0]
    ) == [(1, "a", None), (2, None, 2.5)]


def test_timestamps_in_nanoseconds_are_cut_to_microseconds(
    tmp_path: Path, spark: SparkSession
) -> None:
    """pandas writes its timestamps so."""
    values = [NANOSECONDS, -1, None, 0]
    local, utc = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
    table = pa.table({"l": pa.array(values, local), "u": pa.array(values, utc), "n": values})
    parquet(tmp_path / "a.parquet", table)
    parquet(tmp_path / "b.parquet", pa.table({"l": pa.array([0], local), "x": ["x"]}))
    expected = [MOMENT, datetime(1969, 12, 31, 23, 59, 59, 999999), None, datetime(1970, 1, 1)]
    before = spark.conf.get("spark.sql.legacy.parquet.nanosAsLong")

    found = read(spark, tmp_path)

    assert found.own == {"l": "timestamp_ntz", "u": "timestamp", "n": "bigint", "x": "string"}
    rows = [row for row in found.rows if row["_file"] == "a.parquet"]
    assert [row["l"] for row in rows] == expected
    assert [row["u"] for row in rows] == expected
    assert [row["n"] for row in rows] == values
    assert spark.conf.get("spark.sql.legacy.parquet.nanosAsLong") == before


def test_nanoseconds_inside_a_column_are_refused_with_the_remedy(
    tmp_path: Path, spark: SparkSession
) -> None:
    nested = pa.array([[NANOSECONDS]], pa.list_(pa.timestamp("ns")))
    parquet(tmp_path / "a.parquet", pa.table({"a": nested}))

    with pytest.raises(SourceError, match=r"a\.list\.element holds .* coerce_timestamps"):
        read(spark, tmp_path)


def test_timestamps_of_96_bits_are_read(tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"t": pa.array([MOMENT.replace(tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    parquet(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=True)

    found = read(spark, tmp_path)

    assert (found.own, found.column("t")) == ({"t": "timestamp"}, [MOMENT])


def test_timestamps_of_96_bits_and_in_nanoseconds_are_payloads_of_one_batch(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = pa.table({"t": pa.array([MOMENT], pa.timestamp("ns"))})
    for old, new in (("a", "b"), ("d", "c")):
        parquet(tmp_path / f"{old}.parquet", table, use_deprecated_int96_timestamps=True)
        parquet(tmp_path / f"{new}.parquet", table)

    of_old = payloads(spark, tmp_path, ["a.parquet", "b.parquet"])
    of_new = payloads(spark, tmp_path, ["c.parquet", "d.parquet"])

    assert sorted(of_old) == sorted(of_new)
    assert sorted(payload or "" for payload, _, _ in of_old) == [
        '{"t":"2017-01-02 10:11:12.123456"}',
        '{"t":"2017-01-02 10:11:12.123456+00:00"}',
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([time(10)], pa.time64("us")), "t is stored as Time.* write it as a text"),
        (pa.array([[time(10)]], pa.list_(pa.time32("ms"))), r"t\.list\.element is stored as Time"),
        (pa.array([1], pa.decimal256(39, 0)), "t is stored as Decimal.* 38 digits at most"),
    ],
)
def test_a_type_that_spark_lacks_is_refused_with_the_remedy(
    tmp_path: Path, spark: SparkSession, values: pa.Array, expected: str
) -> None:
    pandas_own = pa.array([0], pa.timestamp("ns"))
    parquet(tmp_path / "a.parquet", pa.table({"id": pandas_own, "t": values}))

    with pytest.raises(SourceError, match=f"a.parquet: {expected}"):
        payloads(spark, tmp_path)


def test_files_that_contradict_each_other_are_an_error_of_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"a": [1]}))
    parquet(tmp_path / "b.parquet", pa.table({"a": ["x"]}))

    with pytest.raises(SPARK_ERRORS) as caught:
        read(spark, tmp_path)
    assert "CANNOT_MERGE" in what_failed(caught.value)


def test_a_column_that_is_null_in_a_whole_file_has_the_type_of_other_files_or_the_target(
    tmp_path: Path, spark: SparkSession
) -> None:
    """pandas and polars write such a column without a type."""
    nothing, moments = pa.array([None]), pa.array([NANOSECONDS], pa.timestamp("ns"))
    parquet(tmp_path / "a.parquet", pa.table({"id": [1], "note": nothing, "l": [[None]]}))
    alone, known = read(spark, tmp_path), read(spark, tmp_path, {"note": StringType()})
    parquet(tmp_path / "b.parquet", pa.table({"id": [2], "note": ["x"], "gone": nothing}))
    parquet(tmp_path / "c.parquet", pa.table({"note": nothing, "at": moments, "id": [3]}))

    found = read(spark, tmp_path, {"gone": LongType(), "note": LongType()})

    assert (alone.own, known.own["note"]) == ({"id": "bigint", "l": "array<int>"}, "string")
    assert known.column("note") == [None]
    kinds = {"id": "bigint", "note": "string", "at": "timestamp_ntz", "gone": "bigint"}
    assert found.own == kinds | {"l": "array<int>"}
    rows = sorted((r["id"], r["note"], r["at"], r["gone"], r["_file"]) for r in found.rows)
    assert [row[:4] for row in rows] == [
        (1, None, None, None),
        (2, "x", None, None),
        (3, None, MOMENT, None),
    ]
    assert [row[4] for row in rows] == ["a.parquet", "b.parquet", "c.parquet"]
    assert payloads(spark, tmp_path, ["a.parquet"]) == [
        ('{"id":1,"l":[null],"note":null}', None, None)
    ]
    assert (
        spark.conf.get("spark.sql.parquet.reader.respectUnknownTypeAnnotation.enabled") == "false"
    )
    parquet(tmp_path / "d.parquet", pa.table({"note": [4]}))
    with pytest.raises(SourceError, match="note is string in some files and bigint in others"):
        read(spark, tmp_path)


def test_a_list_that_is_empty_in_a_whole_file_is_one_of_whole_numbers(
    tmp_path: Path, spark: SparkSession
) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"l": [[]]}))
    parquet(tmp_path / "b.parquet", pa.table({"l": pa.array([[7]], pa.list_(pa.int32()))}))

    assert sorted(read(spark, tmp_path).column("l")) == [[], [7]]


def test_columns_without_a_type_and_without_a_row_are_no_columns(
    tmp_path: Path, spark: SparkSession
) -> None:
    empty = pa.array([], pa.null())
    parquet(tmp_path / "a.parquet", pa.table({"id": empty, "at": empty}))
    parquet(tmp_path / "b.parquet", pa.table({"id": pa.array([], pa.int64()), "at": empty}))

    found = read(spark, tmp_path)

    assert (found.own, found.rows) == ({}, [])


def test_a_column_named_as_the_load_names_its_own_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"_file": ["x"]}))

    with pytest.raises(SourceError, match="columns named _file, which the load adds itself"):
        read(spark, tmp_path)


def test_columns_that_differ_only_by_case_are_an_error(tmp_path: Path, spark: SparkSession) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"a": [1], "A": [2]}))

    with pytest.raises(PySparkException, match="COLUMN_ALREADY_EXISTS"):
        read(spark, tmp_path)


def test_a_column_may_be_called_as_sparks_own_metadata(tmp_path: Path, spark: SparkSession) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"_metadata": [1]}))

    found = read(spark, tmp_path)

    assert (found.column("_metadata"), found.column("_file")) == ([1], ["a.parquet"])


def test_rows_are_payloads_with_their_types(tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"id": [1], "t": pa.array([MOMENT], pa.timestamp("us")), "n": [None]})
    parquet(
        tmp_path / "day=2017-01-02" / "a.parquet",
        table.cast(table.schema.set(2, pa.field("n", pa.string()))),
    )

    assert payloads(spark, tmp_path) == [
        ('{"day":"2017-01-02","id":1,"n":null,"t":"2017-01-02 10:11:12.123456"}', None, None)
    ]


def test_bytes_and_the_keys_of_maps_are_texts_in_payloads(
    tmp_path: Path, spark: SparkSession
) -> None:
    days = pa.map_(pa.date32(), pa.list_(pa.map_(pa.int64(), pa.string())))
    table = {
        "id": [b"\xff\x00\x10", "é".encode(), b"base64:", None],
        "inside": [[b"\xff"], [], None, None],
        "m": pa.array([[(date(2017, 1, 2), [[(1, "a")]])], [], None, None], days),
    }
    parquet(tmp_path / "a.parquet", pa.table(table))

    with Frames.over(spark) as frames:
        rows = fix(tmp_path).objects(frames)
        texts = F.map_values(F.col("payload").try_cast("map<string,string>"))
        found = rows.select(
            F.to_json("payload"), F.exists(texts, lambda text: ~F.is_valid_utf8(text))
        ).collect()

    assert [row[0] for row in found] == [
        '{"id":"base64:/wAQ","inside":["/w=="],"m":{"2017-01-02":[{"1":"a"}]}}',
        '{"id":"é","inside":[],"m":{}}',
        '{"id":"base64:YmFzZTY0Og==","inside":null,"m":null}',
        '{"id":null,"inside":null,"m":null}',
    ]
    assert not any(row[1] for row in found)


def test_messages_are_payloads_by_what_is_in_them(tmp_path: Path, spark: SparkSession) -> None:
    messages = {
        "key": [b'{"id": 1}', b"plain", None, None],
        "value": [b'{"a": 1}', b'{"a": 1}{"a": 2}', None, b"\xff\xfe"],
        "topic": ["t"] * 4,
    }
    parquet(tmp_path / "a.parquet", pa.table(messages))

    assert payloads(spark, tmp_path) == [
        ('{"a":1}', '{"id":1}', None),
        (None, '"plain"', '{"a": 1}{"a": 2}'),
        ("null", None, None),
        (None, None, "base64://4="),
    ]


def test_a_number_called_value_is_no_message(tmp_path: Path, spark: SparkSession) -> None:
    parquet(tmp_path / "a.parquet", pa.table({"key": ["a"], "value": [1.5]}))

    assert payloads(spark, tmp_path) == [('{"key":"a","value":1.5}', None, None)]
