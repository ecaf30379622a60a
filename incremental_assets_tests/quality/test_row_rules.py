"""What the rules on rows say of each value, and what they refuse before there is any Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.rule import Scope
from incremental_assets.quality.rules import (
    RowRule,
    at_least,
    between,
    check,
    fail,
    fresh,
    matches,
    not_in_future,
    one_of,
    quarantine,
    references,
    satisfies,
)


def met(spark: SparkSession, rule: RowRule, kind: str, *values: Any) -> list[bool | None]:
    rows = spark.createDataFrame([(value,) for value in values], f"v {kind}")
    return [row["met"] for row in rows.select(rule.condition().alias("met")).collect()]


def test_the_newest_of_texts_is_that_of_those_that_are_moments(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("2017-01-05T10:00:00Z",), ("n/a",), (None,)], "v string")
    measure = fresh("v", timedelta(hours=1)).measures["newest"]

    (found,) = rows.select(measure().alias("newest")).collect()

    assert found["newest"] == datetime(2017, 1, 5, 10, tzinfo=UTC).timestamp() * 1_000_000


@pytest.mark.parametrize(
    ("rule", "kind", "values", "expected"),
    [
        (between("v", 1, 3), "int", (0, 1, 3, 4, None), [False, True, True, False, True]),
        (
            between("v", date(2017, 1, 1), date(2017, 1, 2)),
            "string",
            ("2016-12-31", "2017-01-02", None),
            [False, True, True],
        ),
        (between("v", 1, 3), "string", ("2.5", "4", "two"), [True, False, None]),
        (at_least("v", 0), "double", (0.0, -0.1, nan, inf, 1e35), [True, False, False, True, True]),
        (at_least("v", 0), "string", ("1.5", "-1e-12", "n/a", "NaN"), [True, False, None, False]),
        (at_least("v", 2**53 + 1), "bigint", (2**53, 2**53 + 1), [False, True]),
        (one_of("v", [1, 2]), "string", ("1", "1.5", "n/a"), [True, False, None]),
        (one_of("v", [True, 2]), "string", ("true", "2", "n/a"), [True, True, None]),
        (
            one_of("v", [Decimal("1E-12"), Decimal(10**35)]),
            "decimal(38,0)",
            (Decimal(10**35), Decimal(1)),
            [True, False],
        ),
        (one_of("v", [date(2017, 1, 1)]), "string", ("2017-01-01", "soon"), [True, None]),
        (one_of("v", ["a", "b"]), "string", ("a", "A", "", None), [True, False, False, True]),
        (
            matches("v", "[A-Z]{2}|none"),
            "string",
            ("DE", "DEU", "none", "nonexx", "DE\n", None),
            [True, False, True, False, False, True],
        ),
        (not_in_future("v"), "string", ("2017-01-01", "2999-01-01", "x"), [True, False, None]),
        (satisfies("even", "v % 2 = 0"), "int", (1, 2, None), [False, True, None]),
        (check("even", lambda: F.col("v") % 2 == 0, ["v"]), "int", (1, 2), [False, True]),
    ],
)
def test_a_rule_says_of_each_value(
    spark: SparkSession, rule: RowRule, kind: str, values: Any, expected: list[bool | None]
) -> None:
    assert met(spark, rule, kind, *values) == expected
    assert rule.columns == ("v",)


@pytest.fixture
def far_from_utc() -> Iterator[None]:
    """A machine whose clock is five hours behind UTC."""
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("TZ", "EST5")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_times_without_a_zone_are_utc(spark: SparkSession) -> None:
    noon, one = datetime(2017, 1, 1, 12), datetime(2017, 1, 1, 13, tzinfo=UTC)
    times = ("2017-01-01T12:30:00Z", "2017-01-01T17:30:00Z", "2017-01-01T12:00:00Z")

    assert met(spark, between("v", noon, one), "string", *times) == [True, False, True]
    assert met(spark, one_of("v", [noon, one]), "string", *times) == [False, False, True]


def test_sql_names_the_columns_that_it_reads() -> None:
    rule = satisfies("fits", "qty * `unit price` < address.zip OR lower(code) IN ('a', 'b')")

    assert rule.columns == ("address", "code", "qty", "unit price")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: satisfies("r", "qty >"), "Rule r: 'qty >' is no SQL condition"),
        (lambda: satisfies("r", "SELECT 1"), "is a statement"),
        (lambda: satisfies("r", "DROP TABLE t"), "is a statement"),
        (lambda: satisfies("r", "sum(qty) > 1"), "reads more than one row"),
        (lambda: satisfies("r", "id IN (SELECT id FROM t)"), "reads more than one row"),
        (lambda: between("v", 3, 1), "the lower one first"),
        (lambda: between("v", 1, "3"), "two bounds of one type"),
        (lambda: one_of("v", []), "at least one value"),
        (lambda: one_of("v", ["a", None]), "not None"),
        (lambda: between("v", datetime(2017, 1, 2), datetime(2017, 1, 1, tzinfo=UTC)), "lower one"),
        (lambda: satisfies("too_late", "v > 1"), "the project itself gives the reason 'too_late'"),
        (lambda: satisfies("line_unreadable", "v > 1"), "gives the reason 'line_unreadable'"),
        (lambda: check("v_unreadable", lambda: F.lit(True)), "Give the rule another name"),
        (lambda: matches("v", "["), "no regular expression"),
        (lambda: one_of("v", ["a"]).allowing(share=1), "to below 1"),
        (lambda: one_of("v", ["a"]).allowing(rows=-1), "give a count from 0"),
    ],
)
def test_a_rule_that_is_wrong_itself_is_refused(made: Callable[[], RowRule], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        made()


def test_a_rule_passes_what_it_allows() -> None:
    rule = one_of("v", ["a"])

    assert (rule.passes(0, 0), rule.passes(1, 100)) == (True, False)
    assert [rule.allowing(rows=2).passes(n, 100) for n in (2, 3)] == [True, False]
    assert [rule.allowing(share=0.05).passes(n, 100) for n in (5, 6)] == [True, False]


def test_an_owner_is_that_of_the_group_unless_the_rule_has_one() -> None:
    (mine,) = quarantine(one_of("v", ["a"]), owner="team:a")
    (still_mine,) = fail(mine)

    assert (mine.owner, still_mine.owner, still_mine.severity) == ("team:a", "team:a", "fail")


@pytest.mark.parametrize(
    ("kind", "values", "key_kind", "keys", "expected"),
    [
        ("string", ("7", "07", "8", "n/a", None), "int", (7,), [True, True, False, False, True]),
        ("int", (7, 8, None), "string", ("7", "07", "n/a"), [True, False, True]),
        (
            *("string", ("1.5", "1.50", "1.504", "x"), "decimal(9,2)", (Decimal("1.5"),)),
            [True, True, False, False],
        ),
        ("string", ("2017-01-05", "soon"), "date", (date(2017, 1, 5),), [True, False]),
        ("bigint", (7, 2**40), "int", (7,), [True, False]),
        ("string", ("a", "A"), "string", ("a",), [True, False]),
    ],
)
def test_a_text_is_looked_up_among_numbers_as_a_number_where_it_is_one(
    spark: SparkSession,
    kind: str,
    values: tuple[Any, ...],
    key_kind: str,
    keys: tuple[Any, ...],
    expected: list[bool],
) -> None:
    stores = spark.createDataFrame([(key,) for key in keys], f"id {key_kind}")
    rule = references("v", "silver/stores", "id")
    rows = spark.createDataFrame(list(enumerate(values)), f"n int, v {kind}")
    assert rule.prepare is not None

    found = rule.prepare(rows, Scope("dt", (), lambda _: stores, lambda: None))

    met = found.select("n", rule.condition().alias("met")).collect()
    assert [row["met"] for row in sorted(met)] == expected
