"""JSON lines as columns: which, of what type, and what becomes of a line that is no object."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources import json_columns
from incremental_assets_tests.sources.reading import fix, lines, payloads, put, read

# name: values of its field, its type, the values that are read
FIELDS: Mapping[str, tuple[list[str], str, list[Any]]] = {
    "whole": (["1", "-9223372036854775808"], "bigint", [1, -(2**63)]),
    "beyond 64 bits": (
        ["1", "12345678901234567890"],
        "decimal(38,0)",
        [Decimal(1), Decimal(12345678901234567890)],
    ),
    "beyond 38 digits": (["1", "1" + "0" * 40], "double", [1.0, 1e40]),
    "fraction": (["1.5", "-0.25"], "double", [1.5, -0.25]),
    "fraction of nothing": (["1.0", "20.00"], "double", [1.0, 20.0]),
    "power": (["1e3", "2E-2"], "double", [1000.0, 0.02]),
    "whole and fraction": (["1", "2.5"], "double", [1.0, 2.5]),
    "whole and fraction of nothing": (["1", "2.0"], "double", [1.0, 2.0]),
    "digits of a double": (
        ["0.30000000000000004", "-123456789012345.67"],
        "double",
        [0.1 + 0.2, -123456789012345.67],
    ),
    "digits of no double": (
        ["2024.00000000000000001", "2024.00000000000000002"],
        "string",
        ["2024.00000000000000001", "2024.00000000000000002"],
    ),
    "neighbour of a double": (
        ["123456789012345.67", "123456789012345.68"],
        "string",
        ["123456789012345.67", "123456789012345.68"],
    ),
    "digits before the point": (
        ["12345678901234567890.12", "7"],
        "string",
        ["12345678901234567890.12", "7"],
    ),
    "digits and power": (
        ["1.234567890123456789", "1e3"],
        "string",
        ["1.234567890123456789", "1000.0"],
    ),
    "beyond 64 bits and fraction": (
        ["12345678901234567891", "0.5"],
        "string",
        ["12345678901234567891", "0.5"],
    ),
    "zeros beyond 64 bits and fraction": (["1" + "0" * 20, "0.5"], "double", [1e20, 0.5]),
    "boolean": (["true", "false"], "boolean", [True, False]),
    "text": (['"a"', '""'], "string", ["a", ""]),
    "number as text": (['"007"', '"1.50"'], "string", ["007", "1.50"]),
    "moment": (['"2017-01-02T10:11:12Z"', '"x"'], "string", ["2017-01-02T10:11:12Z", "x"]),
    "only null": (["null", "null"], "string", [None, None]),
    "null and number": (["null", "3"], "bigint", [None, 3]),
    "number and text": (["1", '"a"'], "string", ["1", "a"]),
    "boolean and number": (["true", "2"], "string", ["true", "2"]),
    "object": (['{"b": [1, {"c": null}]}', "{}"], "string", ['{"b":[1,{"c":null}]}', "{}"]),
    "array": (["[]", "[1, 2.5]"], "string", ["[]", "[1,2.5]"]),
    "object and text": (['{"a":1}', '"a"'], "string", ['{"a":1}', "a"]),
    "exact digits inside": (
        ['{"n":12345678901234567890.123}', "[]"],
        "string",
        ['{"n":12345678901234567890.123}', "[]"],
    ),
}
ODD_NAMES = (
    "",
    " ",
    "a b",
    "a.b",
    "a,b",
    "a=b",
    "a`b",
    "it's",
    'say "x"',
    "both ' and \"",
    "both ' and \" and .",
    "a[0]",
    "$",
    "what?",
    "what? a.b",
    "a\\b",
    "a\nb\tc",
    "größe",
    "数",
    "🙂",
    "(a);{b}",
    "_corrupt_record",
    "value0",
    "plain",
    "payload",
    "text",
    "_metadata",
    "kinds",
    "name",
)


def test_every_kind_of_value_gets_a_column_that_holds_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    rows = [
        "{" + ", ".join(f'"{name}": {FIELDS[name][0][at]}' for name in FIELDS) + "}"
        for at in range(2)
    ]

    found = lines(spark, tmp_path, *rows)

    assert found.own == {name: FIELDS[name][1] for name in sorted(FIELDS)}
    assert {name: found.column(name) for name in FIELDS} == {n: f[2] for n, f in FIELDS.items()}
    assert found.column("_unreadable") == [[], []]
    assert found.column("_raw") == [None, None]


def test_any_name_of_a_field_is_the_name_of_a_column(tmp_path: Path, spark: SparkSession) -> None:
    row = {name: at for at, name in enumerate(ODD_NAMES)}
    other = dict.fromkeys(ODD_NAMES, "text")

    plain = lines(spark, tmp_path / "1", json.dumps(row, ensure_ascii=False))
    mixed = lines(spark, tmp_path / "2", json.dumps(row), json.dumps(other))

    assert plain.own == dict.fromkeys(sorted(ODD_NAMES), "bigint")
    assert {name: plain.rows[0][name] for name in ODD_NAMES} == row
    assert mixed.own == dict.fromkeys(sorted(ODD_NAMES), "string")
    assert {name: mixed.rows[0][name] for name in ODD_NAMES} == {n: str(v) for n, v in row.items()}
    assert {name: mixed.rows[1][name] for name in ODD_NAMES} == other


NOT_OBJECTS = (
    "not json",
    "[]",
    '[{"a": 1}]',
    "null",
    "17",
    '"text"',
    '{"a": 1',
    '{"a": 1}}',
    '{"a": 1} {"a": 2}',
    '{"a": 1}{"a": 2}',
    '{"a": 1},',
    '{"a": 1},{"a": 2}',
    '{"a": 1}] {"a": 2}',
    '{"a": 1}],[{"a": 2}',
    '{"a": 1},{"a": 2}]',
    '{"a": 1},"x": 2}',
    '{"a": {"b": []} ] }',
    '{"a": 1} trailing',
    '{"a": NaN}',
    "{'a': 1}",
    "{a: 1}",
    '{"a": 1,}',
    '{"a": 01}',
    '{"a": 1, "a": 2}',
    '{"b": {"a": 1, "a": 2}}',
    '{"a": "\\ud800"}',
    "{}{}",
    "}",
)


def test_a_line_that_is_no_object_is_kept_as_its_text(tmp_path: Path, spark: SparkSession) -> None:
    found = lines(spark, tmp_path, '{"a": 1}', *NOT_OBJECTS)

    assert found.own == {"a": "bigint"}
    assert found.column("_raw") == [None, *NOT_OBJECTS]
    assert found.column("a") == [1, *(None for _ in NOT_OBJECTS)]
    assert found.column("_file") == ["a.json"] * len(found.rows)


def test_bytes_that_are_no_utf8_are_not_turned_into_values(
    tmp_path: Path, spark: SparkSession
) -> None:
    latin = '{"a": "é"}'.encode("latin-1")
    found = lines(spark, tmp_path, '{"a": "é"}', latin, "base64:eA==")

    kept = [f"base64:{b64encode(line).decode()}" for line in (latin, b"base64:eA==")]
    assert found.column("a") == ["é", None, None]
    assert found.column("_raw") == [None, *kept]


def test_blank_lines_and_byte_order_marks_are_no_rows(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path / "1.json", '\ufeff{"a": 1}\r\n\r\n \t \n  {"a": 2}  \n\n')
    put(tmp_path / "2.json", '\ufeff\ufeff{"a": 3}\n\ufeff{"a": 4}')
    put(tmp_path / "3.json", "")
    put(tmp_path / "4.json", "\ufeff\n")

    found = read(spark, tmp_path)

    assert sorted(found.column("a")) == [1, 2, 3, 4]
    assert found.column("_raw") == [None] * 4


def test_compressed_lines_are_read(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path / "a.json.gz", gzip.compress(b'{"a": 1}\n'))
    put(tmp_path / "b.JSON.GZ", gzip.compress(b'{"a": 2}\n'))

    assert sorted(read(spark, tmp_path).column("a")) == [1, 2]


def test_objects_without_fields_are_rows_without_columns(
    tmp_path: Path, spark: SparkSession
) -> None:
    found = lines(spark, tmp_path, "{}", "{ }", "x")

    assert found.own == {}
    assert found.column("_raw") == [None, None, "x"]


def test_fields_that_differ_only_by_case_are_named(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(SourceError, match="differ only by case: 'Id' and 'id'"):
        lines(spark, tmp_path, '{"Id": 1}', '{"id": 2}')


def test_a_field_with_a_nul_in_its_name_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(SourceError, match=r"column 'A\\x00B', whose name has a NUL"):
        lines(spark, tmp_path, r'{"a": 1, "A\u0000B": 2}')


def test_a_field_named_as_the_load_names_its_own_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    with pytest.raises(SourceError, match="columns named _raw, which the load adds itself"):
        lines(spark, tmp_path, '{"a": 1, "_RAW": 2}')


def test_keys_that_are_data_are_not_made_columns(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_columns, "MOST_FIELDS", 10)
    row = {f"k{at}": at for at in range(10)}
    lines(spark, tmp_path, json.dumps(row))

    with pytest.raises(SourceError, match="more than 10 different fields"):
        lines(spark, tmp_path, json.dumps(row), '{"k10": 1}')


def test_columns_cost_one_pass_over_the_files(tmp_path: Path, spark: SparkSession) -> None:
    for at in range(3):
        put(tmp_path / f"{at}.json", '{"a": 1, "b": "x"}\n')
    source, session = fix(tmp_path), spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # it makes each stage a job
    spark.sparkContext.setJobGroup("json columns", "")

    with Frames.over(session) as frames:
        rows = source.rows(frames)
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("json columns")
        for at in range(3):
            (tmp_path / f"{at}.json").unlink()
        assert rows.count() == 3  # the files are not needed any more

    assert len(jobs) == 1


def test_nothing_is_kept_when_the_block_ends(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "a.json", '{"a": 1}\n')

    def are_kept(rows: DataFrame) -> bool:
        rows.select("*").explain()
        return "InMemoryTableScan" in capsys.readouterr().out

    with Frames.over(spark) as frames:
        rows = fix(tmp_path).rows(frames)
        assert rows.count() == 1
        assert are_kept(rows)

    assert not are_kept(rows)


def test_lines_are_payloads_as_they_are(tmp_path: Path, spark: SparkSession) -> None:
    put(
        tmp_path / "a.json",
        '\ufeff{"key": 1, "value": {"a": 1.5}}\nnull\n[1]\n"x"\n\nx\n{"a":1}{"a":2}\n{"a":1,"a":2}\n',
    )

    assert payloads(spark, tmp_path) == [
        ('{"key":1,"value":{"a":1.5}}', None, None),
        ("null", None, None),
        ("[1]", None, None),
        ('"x"', None, None),
        (None, None, "x"),
        (None, None, '{"a":1}{"a":2}'),
        (None, None, '{"a":1,"a":2}'),
    ]
