"""Two frames compared row by row: exactly, by key or whole, nulls as values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.verifying import Compared, DayCompared
from incremental_assets.verifying.compare import Matching, compare
from incremental_assets_tests.verifying.lakes import day

BY_ID = Matching("dt", ("id",), ("dt", "id", "v"), ("id",))
WHOLE = Matching("dt", (), ("dt", "id", "v"), ())


def frame(spark: SparkSession, *rows: str, kind: str = "double") -> DataFrame:
    """Rows such as `2, 'a', 1.5`: the day of January, the id and a value."""
    values = ", ".join(f"({row})" for row in rows)
    named = f"SELECT make_date(2017, 1, d) AS dt, id, cast(v AS {kind}) AS v"
    return spark.sql(f"{named} FROM VALUES {values} AS t(d, id, v)")


def test_values_are_compared_exactly_and_nulls_as_values(spark: SparkSession) -> None:
    same = ("1, 'null', null", "1, 'nan', double('NaN')", "2, 'float', 0.1D", "2, null, 1")
    real = frame(spark, *same, "2, 'near', 0.30000000000000004D", "3, 'gone', 1")
    rebuilt = frame(spark, *same, "2, 'near', 0.3D", "3, 'gone', null")

    found = compare(real, rebuilt, BY_ID)

    assert found == Compared(
        (
            DayCompared(day(1), 2),
            DayCompared(day(2), 3, different=1),
            DayCompared(day(3), 1, different=1),
        ),
        {"v": 2},
        ("2017-01-02: different id=near", "2017-01-03: different id=gone"),
    )


def test_doubled_rows_are_extra_and_lost_duplicates_missing_with_and_without_a_key(
    spark: SparkSession,
) -> None:
    real = frame(spark, "1, 'a', 1", "1, 'a', 1", "2, 'b', 1", "2, 'c', 1")
    rebuilt = frame(spark, "1, 'a', 1", "2, 'b', 1", "2, 'c', 1", "2, 'c', 1", "2, 'd', null")
    days = (DayCompared(day(1), 2, extra=1), DayCompared(day(2), 4, missing=2))

    assert compare(real, rebuilt, WHOLE) == Compared(days)
    assert compare(real, rebuilt, BY_ID).days == days
    assert compare(real, rebuilt, BY_ID).examples == (
        "2017-01-01: extra id=a",
        "2017-01-02: missing id=c",
    )


def test_a_row_on_another_day_is_different_and_counts_where_it_should_be(
    spark: SparkSession,
) -> None:
    found = compare(frame(spark, "1, 'a', 1"), frame(spark, "2, 'a', 1"), BY_ID)

    assert (found.days, found.columns) == ((DayCompared(day(2), 1, different=1),), {"dt": 1})


@pytest.mark.parametrize("by", [BY_ID, WHOLE], ids=["by key", "whole"])
def test_a_column_that_one_side_lacks_is_null_there_and_a_wider_type_is_no_other_value(
    spark: SparkSession, by: Matching
) -> None:
    by = replace(by, columns=("dt", "id", "v", "late"))
    real = frame(spark, "1, 'a', 1", "1, 'b', 2", kind="bigint").selectExpr(
        "*", "if(id = 'a', 'x', null) AS late"
    )

    found = compare(real, frame(spark, "1, 'a', 1", "1, 'b', 2", kind="int"), by)

    assert found.differences == (1 if by.key else 2)
    assert found.columns == ({"late": 1} if by.key else {})


def test_variants_maps_and_structs_are_compared_by_what_they_say(spark: SparkSession) -> None:
    def rows(json: str, entries: str, number: str) -> DataFrame:
        return spark.sql(
            f"SELECT DATE'2017-01-01' AS dt, 'a' AS id, parse_json('{json}') AS v, "
            f"map({entries}) AS m, named_struct('at', TIMESTAMP'2017-01-01 00:00:00.{number}') AS s"
        )

    by = replace(BY_ID, columns=("dt", "id", "v", "m", "s"))
    real = rows('{"b":1,"a":[1.50]}', "'x', 1, 'y', 2", "000001")

    same = rows('{"a":[1.50],"b":1}', "'y', 2, 'x', 1", "000001")
    assert compare(real, same, by).differences == 0
    assert compare(real, same, replace(by, key=())).differences == 0
    other = rows('{"b":1,"a":[1.51]}', "'x', 1, 'y', null", "000002")
    assert compare(real, other, by).columns == {"m": 1, "s": 1, "v": 1}


def test_what_a_source_has_forgotten_is_not_judged_but_a_doubled_row_is(
    spark: SparkSession,
) -> None:
    real = frame(spark, "1, 'forgotten', 1", "1, 'a', 1", "1, 'a', 1", "1, 'b', 1")
    rebuilt = frame(spark, "1, 'a', 1", "1, 'b', 1", "1, 'b', 1", "1, 'lost', 1")

    found = compare(real, rebuilt, replace(BY_ID, forgets=True))

    assert (found.days, found.not_judged) == ((DayCompared(day(1), 5, missing=1, extra=1),), 1)
    assert found.examples == ("2017-01-01: missing id=lost", "2017-01-01: extra id=a")
