"""Rows whose fields are known by their shape are typed and counted like any others."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.quality.contract import (
    EXPECTED,
    MOST_SHAPES,
    SHAPE_AT,
    Contract,
    Shape,
    known_shapes,
)
from incremental_assets.quality.fields import FieldNames
from incremental_assets.quality.gate import Counted, count, with_new_fields
from incremental_assets.quality.reasons import with_reasons
from incremental_assets.quality.types import Integer, Text
from incremental_assets_tests.thorough import thorough

CONTRACT = Contract({"secret": "freeze", "noise": "discard"}, id=Text(), qty=Integer())
# A name with the separator inside, one that cannot be a column, and one in another case.
FIELDS = ("id", "qty", "note", "other", "secret", "noise", "a b", "ID", "note\x1fother", "")


def drawn(seed: int, rows: int, among: Sequence[str] = FIELDS) -> list[str]:
    draw = Random(seed)
    values = [None, 1, "1", "x", 2.5, True, [1], {"a": 1}]
    lines = ["[1]", "no json", "null", "{}"]
    for _ in range(rows):
        names = draw.sample(among, draw.randrange(len(among) + 1))
        lines.append(json.dumps({name: draw.choice(values) for name in names}))
    return lines


def typed(
    spark: SparkSession, lines: Sequence[str], expected: set[str], shapes: Sequence[Shape]
) -> DataFrame:
    rows = spark.createDataFrame(list(enumerate(lines)), "i int, line string")
    rows = rows.select("i", F.try_parse_json("line").alias("payload"))
    rows = CONTRACT.apply(rows, expected, shapes).withColumn(
        "_day", F.expr("DATE'2017-01-01' + i % 3")
    )
    return with_reasons(rows, (), [])


def shapes_of(lines: Sequence[str]) -> list[Shape]:
    rows = [json.loads(line) for line in lines if line != "no json"]
    return sorted({tuple(sorted(row)) for row in rows if isinstance(row, dict)})


ASKED = ("id", "qty", "note", "other")


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=thorough("quality/test_shapes.py: seed 1"))]
)
def test_a_known_shape_changes_nothing(spark: SparkSession, seed: int) -> None:
    known = [*drawn(seed, 20, FIELDS), *drawn(seed + 4, 20, ASKED)]
    lines = [*known, *drawn(seed + 2, 20)]
    every = shapes_of(known)
    shapes = known_shapes(Random(seed).sample(every, min(20, len(every))))
    assert len(shapes) == MOST_SHAPES
    expected = {"note", "other"}
    columns = ["i", "id", "qty", "_undeclared", "_absent", "_unreadable"]
    columns += [f"to_json({name})" for name in ("_payload", "_reasons", EXPECTED)]

    plain = typed(spark, lines, expected, ())
    shaped = typed(spark, lines, expected, shapes)

    found = shaped.where(f"{SHAPE_AT} IS NOT NULL").select("i", SHAPE_AT).collect()
    assert len(found) >= len(shapes)
    assert all(tuple(sorted(json.loads(lines[row["i"]]))) == shapes[row["at"]] for row in found)
    assert [*map(tuple, shaped.selectExpr(*columns).orderBy("i").collect())] == [
        *map(tuple, plain.selectExpr(*columns).orderBy("i").collect())
    ]
    assert counted(shaped, [], shapes) == counted(plain, [], ())
    assert counted(shaped, ["_batch", "note", "dt"], shapes) == counted(
        plain, ["_batch", "note", "dt"], ()
    )


def counted(rows: DataFrame, columns: Sequence[str], shapes: Sequence[Shape]) -> Counted:
    names = FieldNames.of(CONTRACT, columns, (), shapes)
    found = count(rows, (), "_day", F.lit(False), names=names)
    return with_new_fields(found, rows, "_day", names, list(CONTRACT.columns))


def test_expected_fields_are_counted_like_columns(spark: SparkSession) -> None:
    lines = ['{"id":"a","note":1}', '{"id":"b","other":2}', '{"id":"c"}']
    rows = typed(spark, lines, {"note"}, ())
    names = FieldNames.of(CONTRACT, [], Contract.expected(rows))

    found = count(rows, (), "_day", F.lit(False), names=names)

    assert [gate.fields for _, gate in sorted(found.days.items())] == [
        {"id", "note"},
        {"id"},
        {"id"},
    ]
    assert [gate.new for _, gate in sorted(found.days.items())] == [False, True, False]


def test_expected_fields_that_leave_no_room_for_others_are_not_counted_like_columns() -> None:
    many = [f"f{at}" for at in range(100)]

    assert FieldNames.of(CONTRACT, ["id", "note"], many).known == ("id", "note", "qty")
    assert FieldNames.of(CONTRACT, ["id", "note"], many[:50]).has_room()


def test_shapes_that_a_joined_name_could_be_taken_for_are_not_known() -> None:
    long = tuple(f"{at:03}" for at in range(201))

    assert known_shapes([(), ("a\x1fb",), long, ("a", "b"), ("c",)]) == [("a", "b"), ("c",)]


MANY = [f"a{at:03}" for at in range(100)]


@pytest.mark.parametrize(
    ("shape", "expected", "kept"),
    [
        (("id", "note"), ["note"], False),
        (("note", "other"), ["note"], True),
        (("a b", "noise", "note", "secret"), ["note"], False),
        (("Note", "note"), ["Note"], True),
        ((*MANY, "note"), MANY, True),
    ],
    ids=["expected", "not expected", "no columns", "another case", "too many"],
)
def test_a_row_of_a_known_shape_keeps_its_payload_where_a_field_may_be_a_column_and_is_not_expected(
    spark: SparkSession, shape: Shape, expected: list[str], kept: bool
) -> None:
    line = json.dumps(dict.fromkeys(shape))

    (row,) = typed(spark, [line], {*expected}, [shape]).select(SHAPE_AT, "_of_further").collect()

    assert tuple(row) == (0, kept)


def test_a_wide_table_with_many_shapes_is_not_planned_field_by_field(spark: SparkSession) -> None:
    lines = [json.dumps(dict.fromkeys(MANY[at:], "x")) for at in range(8)]
    session = spark.newSession()
    session.conf.set("spark.sql.debug.maxToStringFields", "1000")
    rows = session.createDataFrame([(line,) for line in lines], "line string")
    rows = rows.select(F.try_parse_json("line").alias("payload"))

    wide = CONTRACT.apply(rows, set(MANY), shapes_of(lines)[:8])
    narrow = CONTRACT.apply(rows, set(MANY), shapes_of(lines)[:1])

    assert [row["of"] for row in wide.selectExpr(f"{EXPECTED}.a007 AS of").collect()] == ["x"] * 8
    assert "try_element_at" not in analyzed(wide)
    assert "try_element_at" in analyzed(narrow)


def analyzed(rows: DataFrame) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        rows.explain(extended=True)
    return printed.getvalue().partition("== Optimized")[0]


def test_what_a_transform_does_to_all_numbers_is_not_done_to_the_shape(
    spark: SparkSession,
) -> None:
    lines = ['{"id":"a"}', '{"id":"b","secret":1}']
    shapes = [("id",)]

    rows = typed(spark, lines, set(), shapes).fillna(0).dropna(subset=["_of_shape"])

    assert counted(rows, [], shapes) == counted(typed(spark, lines, set(), ()), [], ())
