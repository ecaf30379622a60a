"""CSV files as a table: records, headers, the types found out, and what cannot be taken apart."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets_tests.sources.reading import Table, fix, payloads, put, read
from incremental_assets_tests.thorough import thorough


def records(spark: SparkSession, folder: Path, text: str, **known: DataType) -> Table:
    put(folder / "a.csv", text)
    return read(spark, folder, known)


# the values of a column, its type, what is read
COLUMNS: Mapping[str, tuple[list[str], str, list[Any]]] = {
    "whole": (["1", "-20", "0"], "bigint", [1, -20, 0]),
    "largest": (["9223372036854775807", "1", ""], "bigint", [2**63 - 1, 1, None]),
    "beyond 64 bits": (
        ["9223372036854775808", "1", "2"],
        "string",
        ["9223372036854775808", "1", "2"],
    ),
    "zip code": (["00123", "10115", "1"], "string", ["00123", "10115", "1"]),
    "signed": (["+1", "2", "3"], "string", ["+1", "2", "3"]),
    "padded": ([" 1", "2", "3"], "string", [" 1", "2", "3"]),
    "grouped": (['"1,000"', "2", "3"], "string", ["1,000", "2", "3"]),
    "fraction": (["1.5", "-.5", "2."], "double", [1.5, -0.5, 2.0]),
    "power": (["1.0E7", "-2.5E-4", "1"], "double", [1e7, -0.00025, 1.0]),
    "power of a code": (["1E5", "10E4", "100000"], "string", ["1E5", "10E4", "100000"]),
    "power of others": (["1e-05", "1.5", "2"], "string", ["1e-05", "1.5", "2"]),
    "amount": (["12.50", "3.00", "0.10"], "double", [12.5, 3.0, 0.1]),
    "double": (
        ["0.30000000000000004", "-123456789012345.67", "0.000000000000000000001"],
        "double",
        [0.1 + 0.2, -123456789012345.67, 1e-21],
    ),
    "more digits": (
        ["1.234567890123456789", "1.234567890123456788", "1"],
        "string",
        ["1.234567890123456789", "1.234567890123456788", "1"],
    ),
    "more digits before the point": (
        ["12345678901234567890.12", "0.5", ""],
        "string",
        ["12345678901234567890.12", "0.5", None],
    ),
    "neighbour of a double": (
        ["123456789012345.67", "123456789012345.68", "1"],
        "string",
        ["123456789012345.67", "123456789012345.68", "1"],
    ),
    "beyond a double": (["1e400", "0.1", "1"], "string", ["1e400", "0.1", "1"]),
    "beyond a double in digits": ([f"{10**309}.5", "1", ""], "string", [f"{10**309}.5", "1", None]),
    "below a double": ([f"0.{'0' * 330}1", "1", ""], "string", [f"0.{'0' * 330}1", "1", None]),
    "whole and fraction": (["1", "2.5", ""], "double", [1.0, 2.5, None]),
    "not finite": (["Infinity", "1", "-Infinity"], "double", [float("inf"), 1.0, -float("inf")]),
    "zero first": (["01.5", "2", "3"], "string", ["01.5", "2", "3"]),
    "version": (["1.2.3", "1.2", "1"], "string", ["1.2.3", "1.2", "1"]),
    "suffixed": (["1d", "2f", "3L"], "string", ["1d", "2f", "3L"]),
    "boolean": (["true", "FALSE", ""], "boolean", [True, False, None]),
    "boolean and number": (["true", "1", "0"], "string", ["true", "1", "0"]),
    "yes": (["yes", "no", "t"], "string", ["yes", "no", "t"]),
    "date": (
        ["2017-01-02", "2017-12-31", ""],
        "date",
        [date(2017, 1, 2), date(2017, 12, 31), None],
    ),
    "no date": (["2017-02-30", "2017-01-02", ""], "string", ["2017-02-30", "2017-01-02", None]),
    "short date": (["2017-1-2", "2017-01-02", ""], "string", ["2017-1-2", "2017-01-02", None]),
    "moment": (
        ["2017-01-02T10:11:12Z", "2017-01-02 10:11", "20170102T101112+0100"],
        "timestamp",
        [
            datetime(2017, 1, 2, 10, 11, 12),
            datetime(2017, 1, 2, 10, 11),
            datetime(2017, 1, 2, 9, 11, 12),
        ],
    ),
    "date and moment": (
        ["2017-01-02", "2017-01-02T10:11:12Z", ""],
        "timestamp",
        [datetime(2017, 1, 2), datetime(2017, 1, 2, 10, 11, 12), None],
    ),
    "time": (["10:11:12", "10:11", ""], "string", ["10:11:12", "10:11", None]),
    "date and number": (["2017-01-02", "5", ""], "string", ["2017-01-02", "5", None]),
    "text": (["a", "b", "c"], "string", ["a", "b", "c"]),
    "text and null": (["null", "NULL", "N/A"], "string", ["null", "NULL", "N/A"]),
    "nothing": (["", "", ""], "string", [None, None, None]),
    "empty text": (['""', "", '""'], "string", ["", None, ""]),
    "empty text and number": (['""', "", "7"], "bigint", [None, None, 7]),
    "quoted number": (['"1"', '"2"', "3"], "bigint", [1, 2, 3]),
    "quotes": (['"say ""hi"""', '"a,b"', 'in"side'], "string", ['say "hi"', "a,b", 'in"side']),
    "line breaks": (
        ['"two\nlines"', '"three\r\n\r\nlines"', "one"],
        "string",
        ["two\nlines", "three\r\n\r\nlines", "one"],
    ),
    "backslash": (["a\\", '"b\\"', "\\N"], "string", ["a\\", "b\\", "\\N"]),
    "other quotes": (["'a'", "#b", "`c`"], "string", ["'a'", "#b", "`c`"]),
    "unicode": (["größe", "数", "🙂"], "string", ["größe", "数", "🙂"]),
}
KEYS = {
    "fraction": (["1.1", "1.10"], "string", ["1.1", "1.10"]),
    "whole and fraction": (["1", "1.0"], "string", ["1", "1.0"]),
    "whole": (["1", "20"], "bigint", [1, 20]),
    "known": (["1.1", "1.10"], "double", [1.1, 1.1]),
    "day": (["2017-01-02", "2017-01-03"], "date", [date(2017, 1, 2), date(2017, 1, 3)]),
    "moment": (
        ["2017-01-02T10:11:12.120Z", "2017-01-02T10:11:12.123456000Z"],
        "timestamp",
        [datetime(2017, 1, 2, 10, 11, 12, 120_000), datetime(2017, 1, 2, 10, 11, 12, 123_456)],
    ),
    "nanoseconds": (
        ["2017-01-02T10:11:12.123456789Z", "2017-01-02T10:11:12.123456780Z"],
        "string",
        ["2017-01-02T10:11:12.123456789Z", "2017-01-02T10:11:12.123456780Z"],
    ),
    "text": (["a", "b"], "string", ["a", "b"]),
}
ODD_NAMES = ("a b", "a.b", "a`b", "a=b", "it's", "größe", "(a);{b}", "_metadata", "value0", "text")


def test_every_column_gets_the_type_that_all_its_values_fit(
    tmp_path: Path, spark: SparkSession
) -> None:
    rows = [",".join(COLUMNS[name][0][at] for name in COLUMNS) for at in range(3)]

    found = records(spark, tmp_path, "\n".join([",".join(COLUMNS), *rows]) + "\n")

    assert found.own == {name: kind for name, (_, kind, _) in COLUMNS.items()}
    assert {name: found.column(name) for name in COLUMNS} == {n: c[2] for n, c in COLUMNS.items()}
    assert found.column("_unreadable") == [[]] * 3
    assert found.column("_raw") == [None] * 3


def test_a_column_that_identifies_rows_is_no_double_that_was_not_one_before(
    tmp_path: Path, spark: SparkSession
) -> None:
    rows = [",".join(["1.10", *(values[at] for values, _, _ in KEYS.values())]) for at in range(2)]
    put(tmp_path / "a.csv", "\n".join([",".join(["amount", *KEYS]), *rows]) + "\n")

    found = read(spark, fix(tmp_path).with_as_written(KEYS), {"known": DoubleType()})

    assert found.own == {"amount": "double", **{name: kind for name, (_, kind, _) in KEYS.items()}}
    assert {name: found.column(name) for name in KEYS} == {n: k[2] for n, k in KEYS.items()}


def test_any_name_in_a_header_is_the_name_of_a_column(tmp_path: Path, spark: SparkSession) -> None:
    names = [*ODD_NAMES, "a,b", 'say "x"', "a\nb"]
    header = ",".join(f'"{name}"'.replace('say "x"', 'say ""x""') for name in names)
    row = ",".join(str(at) for at in range(len(names)))

    found = records(spark, tmp_path, f"{header}\n{row}\n")

    assert found.own == dict.fromkeys(names, "bigint")
    assert [found.rows[0][name] for name in names] == list(range(len(names)))


def test_a_record_with_the_wrong_number_of_fields_is_kept_as_its_text(
    tmp_path: Path, spark: SparkSession
) -> None:
    found = records(spark, tmp_path, 'a,b,c\n1,2,3\n4,5\n6,7,8,9\n   \n"x\ny",1\n10,11,12\n')

    assert found.own == {"a": "bigint", "b": "bigint", "c": "bigint"}
    assert found.column("_raw") == [None, "4,5", "6,7,8,9", "   ", '"x\ny",1', None]
    assert found.column("a") == [1, None, None, None, None, 10]
    assert found.column("c") == [3, None, None, None, None, 12]


def test_a_blank_value_of_the_only_column_is_a_row(tmp_path: Path, spark: SparkSession) -> None:
    found = records(spark, tmp_path, "a\r\n1\r\n \r\n\0\r\n\t\r\n\r\n2\r\n")

    assert found.column("a") == ["1", " ", "\0", "\t", "2"]


WRITTEN = (
    "a,b\n1,2\n",
    "a,b\r\n1,2\r\n",
    "a,b\r1,2\r",
    "\ufeffa,b\n1,2",
    '\ufeff"a","b"\n"1","2"\n\n',
    "\n\na,b\n\n1,2\n\n",
    " a , b\n1,2\n",
)


def test_headers_and_ends_of_lines_are_read_as_others_write_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    for number, text in enumerate(WRITTEN):
        put(tmp_path / f"{number}.csv", text)

    found = read(spark, tmp_path)

    assert found.own == {"a": "bigint", "b": "bigint"}
    rows = [(row["a"], row["b"], row["_raw"]) for row in found.rows]
    assert rows == [(1, 2, None)] * len(WRITTEN)


@thorough("sources/test_stored_csv.py: all of them in one folder")
@pytest.mark.parametrize("text", WRITTEN)
def test_a_file_alone_is_read_as_others_write_it(
    tmp_path: Path, spark: SparkSession, text: str
) -> None:
    found = records(spark, tmp_path, text)

    assert found.own == {"a": "bigint", "b": "bigint"}
    assert [(row["a"], row["b"], row["_raw"]) for row in found.rows] == [(1, 2, None)]


def test_a_column_without_a_name_is_called_as_spark_calls_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    """pandas writes its index so."""
    assert records(spark, tmp_path, ",a\n0,x\n").own == {"_c0": "bigint", "a": "string"}


def test_files_are_put_together_by_the_names_in_their_headers(
    tmp_path: Path, spark: SparkSession
) -> None:
    put(tmp_path / "1.csv", "id,name\n1,a\n")
    put(tmp_path / "2.csv", "name,id\nb,2\n")
    put(tmp_path / "3.csv", 'id,more,name\n3,5,"c"\n')
    put(tmp_path / "4.csv", "id,name\n")
    put(tmp_path / "5.csv", "")
    put(tmp_path / "6.csv", "\ufeff\n\n")

    found = read(spark, tmp_path)

    assert found.own == {"id": "bigint", "name": "string", "more": "bigint"}
    rows = sorted((r["id"], r["name"], r["more"], r["_file"], r["_raw"]) for r in found.rows)
    assert rows == [
        (1, "a", None, "1.csv", None),
        (2, "b", None, "2.csv", None),
        (3, "c", 5, "3.csv", None),
    ]


def test_only_the_headers_of_the_chosen_files_count(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path / "1.csv", "id,name\n1,a\n")
    put(tmp_path / "2.csv", "id,more\n2,b\n")

    assert read(spark, tmp_path, only=["2.csv"]).own == {"id": "bigint", "more": "string"}


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path, spark: SparkSession) -> None:
    found = records(spark, tmp_path, "a,b\n", b=DateType())

    assert (found.own, found.rows) == ({"a": "string", "b": "date"}, [])


def test_files_without_a_line_have_neither_columns_nor_rows(
    tmp_path: Path, spark: SparkSession
) -> None:
    found = records(spark, tmp_path, "")

    assert (found.own, found.rows) == ({}, [])


def test_compressed_files_are_read(tmp_path: Path, spark: SparkSession) -> None:
    text = b'a,b\n1,"x\ny"\n'
    put(tmp_path / "1.csv.gz", gzip.compress(text))
    put(tmp_path / "2.csv.bz2", bz2.compress(text))
    put(tmp_path / "3.csv.zst", pa.compress(text, codec="zstd", asbytes=True))

    assert read(spark, tmp_path).column("b") == ["x\ny"] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,foo,2017-01-02\n2,bar,2017-01-03\n", r"\('1,foo,2017-01-02'\) looks like data"),
        ("2017-01-02,1\n", "looks like data"),
        ("true,x\n", "looks like data"),
        ("sale.csv\0\0\0ustar\0id,x\n1,2\n", "holds bytes of zero"),
        (",,\n1,2,3\n", "is empty"),
        ("id;name\n1;a\n", "has no commas between the names"),
        ("id\tname\n1\ta\n", "has no commas between the names"),
        ("id,name,id\n1,a,2\n", "has the name 'id' twice"),
        ("id,Id\n1,2\n", "differ only by case: 'id' and 'Id'"),
        ("id,_file\n1,2\n", "columns named _file, which the load adds itself"),
        ('id,name\n1,"a\n2,b\n3,c\n', "record that begins on line 2 is never closed"),
        ('id,name\n1,"a ""b""\n2,b\n', "record that begins on line 2 is never closed"),
        ('id,name\n1,"a\nb"\n2,5" pipe\n3,"c', "record that begins on line 5 is never closed"),
    ],
)
def test_a_file_whose_records_would_be_misread_is_refused(
    tmp_path: Path, spark: SparkSession, text: str, expected: str
) -> None:
    with pytest.raises(SourceError, match=expected):
        records(spark, tmp_path, text)


def test_a_quote_inside_a_field_is_no_quotation(tmp_path: Path, spark: SparkSession) -> None:
    found = records(spark, tmp_path, 'id,name\n1,5" pipe\n2,x\n')

    assert found.column("name") == ['5" pipe', "x"]


@pytest.mark.parametrize("text", ["größe\n1\n", "a\nöl\n"])
def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path, spark: SparkSession, text: str) -> None:
    put(tmp_path / "a.csv", text.encode("latin-1"))

    with pytest.raises(SourceError, match=r"a\.csv is not UTF-8 .*iconv"):
        read(spark, tmp_path)


UNREADABLE = object()
KNOWN: Mapping[str, tuple[DataType, dict[str, Any]]] = {
    "a": (LongType(), {"1": 1, "2.0": 2, "x": UNREADABLE, "": None, '""': None, "1.5": UNREADABLE}),
    "b": (
        StringType(),
        {"00123": "00123", "1": "1", "x": "x", "": None, '""': "", "true": "true"},
    ),
    "c": (
        TimestampType(),
        {
            "2017-01-02": datetime(2017, 1, 2),
            "2017-01-02T01:00:00+01:00": datetime(2017, 1, 2),
            "2017": UNREADABLE,
            "": None,
            "10:11": UNREADABLE,
            "2017-02-30": UNREADABLE,
        },
    ),
    "d": (
        DecimalType(5, 1),
        {
            "1": 1,
            "1.25": Decimal("1.3"),
            "12345": UNREADABLE,
            "": None,
            "1e2": 100,
            " 7 ": 7,
        },
    ),
    "e": (
        BooleanType(),
        {"true": True, "False": False, "1": UNREADABLE, "": None, "x": UNREADABLE, '"true"': True},
    ),
    "f": (
        IntegerType(),
        {str(2**31): UNREADABLE, "1": 1, "-1": -1, "": None, "007": UNREADABLE, "+3": 3},
    ),
    "g": (
        DoubleType(),
        {"1": 1.0, "0x1": UNREADABLE, "1d": UNREADABLE, "": None, "NaN ": UNREADABLE, "-2.5": -2.5},
    ),
}


def test_the_targets_types_decide_and_what_does_not_fit_is_named(
    tmp_path: Path, spark: SparkSession
) -> None:
    known = {name: kind for name, (kind, _) in KNOWN.items()}
    cases = {name: list(values.items()) for name, (_, values) in KNOWN.items()}
    rows = [",".join(cases[name][at][0] for name in KNOWN) for at in range(6)]

    found = records(spark, tmp_path, "\n".join([",".join(KNOWN), *rows]), **known)

    assert found.own == {name: kind.simpleString() for name, kind in known.items()}
    for at, row in enumerate(found.rows):
        values = {name: cases[name][at][1] for name in KNOWN}
        misfits = [name for name, value in values.items() if value is UNREADABLE]
        assert row["_unreadable"] == misfits
        assert {n: row[n] for n in KNOWN} == {
            n: None if n in misfits else value for n, value in values.items()
        }


def test_columns_that_the_target_has_are_not_found_out_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    put(tmp_path / "a.csv", "Id,b\n1,2\n")
    source, session = fix(tmp_path), spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")

    def jobs(group: str, known: Mapping[str, DataType]) -> int:
        spark.sparkContext.setJobGroup(group, "")
        with Frames.over(session) as frames:
            rows = source.rows(frames, known)
            rows.count()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    unknown = jobs("csv unknown", {"id": LongType()})
    known = jobs("csv known", {"id": LongType(), "b": LongType()})

    assert (unknown, known) == (2, 1)


def test_records_are_payloads_of_texts(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path / "day=2017-01-02" / "a.csv", 'id,zip,note\n1,00123,\n2,"",x\n3\n')

    assert payloads(spark, tmp_path) == [
        ('{"day":"2017-01-02","id":"1","note":null,"zip":"00123"}', None, None),
        ('{"day":"2017-01-02","id":"2","note":"x","zip":""}', None, None),
        (None, None, "3"),
    ]


def test_a_dump_of_messages_gives_what_is_in_them(tmp_path: Path, spark: SparkSession) -> None:
    put(
        tmp_path / "a.csv",
        'key,value,offset\n"{""id"":1}","{""a"": 1}",1\nk,not json,2\n,,3\n7,"""text""",4\n',
    )

    assert payloads(spark, tmp_path) == [
        ('{"a":1}', '{"id":1}', None),
        (None, '"k"', "not json"),
        ("null", None, None),
        ('"text"', "7", None),
    ]
