"""What each rule says of a row or a day, and which severity it may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.reasons import with_reasons
from incremental_assets.quality.rules import (
    DayCounts,
    DayRule,
    RowRule,
    Rule,
    Verdict,
    at_least,
    fail,
    no_empty_files,
    not_null,
    quarantine,
    quarantined_share,
    reconciles,
    rows_delivered,
    satisfies,
    warn,
)

NOTHING = DayCounts(rows=0, quarantined=0, total_rows=0, total_quarantined=0)


def test_not_null_wants_a_value_that_is_not_blank(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a",), (" a ",), ("0",), (None,), ("",), ("  ",)], "v string")

    met = rows.select(not_null("v").condition().alias("met")).collect()

    assert [row["met"] for row in met] == [True, True, True, False, False, False]


def test_not_null_is_asked_of_other_types_too(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (0, DATE'2017-01-01'), (NULL, NULL) AS t (n, d)")

    met = rows.select(*(not_null(c).condition().alias(c) for c in "nd")).collect()

    assert [tuple(row) for row in met] == [(True, True), (False, False)]


def test_at_least_lets_its_bound_and_null_pass(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(-1,), (0,), (1,), (None,)], "v int")

    met = rows.select(
        at_least("v", 0).condition().alias("zero"), at_least("v", -1).condition().alias("minus")
    ).collect()

    assert [row["zero"] for row in met] == [False, True, True, True]
    assert [row["minus"] for row in met] == [True, True, True, True]


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (not_null("order_id"), "order_id_not_null"),
        (at_least("qty", 0), "qty_at_least_0"),
        (at_least("qty", -5), "qty_at_least_minus_5"),
        (quarantined_share(0.05), "quarantined_share"),
        (rows_delivered(), "rows_delivered"),
        (no_empty_files(), "no_empty_files"),
        (reconciles(), "reconciles"),
    ],
)
def test_a_rule_is_named_after_what_it_asks(rule: Rule, name: str) -> None:
    assert rule.name == name
    assert rule.description.endswith(".")


@pytest.mark.parametrize(
    ("bad", "rows", "passed", "found"),
    [
        pytest.param(5, 100, True, "5 of 100 rows (5.00%) are in quarantine", id="at the bound"),
        pytest.param(51, 1000, False, "51 of 1,000 rows (5.10%) are in quarantine", id="above it"),
        pytest.param(0, 0, True, "0 of 0 rows (0.00%) are in quarantine", id="no rows"),
        pytest.param(1, 1, False, "1 of 1 row (100.00%) is in quarantine", id="all of them"),
    ],
)
def test_the_quarantined_share_is_of_all_rows_of_the_day_so_far(
    bad: int, rows: int, passed: bool, found: str
) -> None:
    day = replace(NOTHING, rows=1, quarantined=1, total_rows=rows, total_quarantined=bad)

    verdict = quarantined_share(at_most=0.05).judge(day)

    assert (verdict.passed, verdict.threshold) == (passed, 0.05)
    assert verdict.value == pytest.approx(bad / max(rows, 1))
    assert verdict.found == f"{found}, at most 5.00% may be"


def test_fewer_bad_rows_than_the_fewest_hold_no_day() -> None:
    rule = quarantined_share(at_most=0.05, min_rows=3)

    def passed(bad: int) -> bool:
        return rule.judge(replace(NOTHING, total_rows=10, total_quarantined=bad)).passed

    assert [passed(bad) for bad in (0, 2, 3)] == [True, True, False]
    assert "or fewer than 3;" in rule.description


@pytest.mark.parametrize(
    ("rows", "files", "passed", "found"),
    [
        (0, 0, True, "0 rows in 0 files"),
        (1, 1, True, "1 row in 1 file"),
        (4262, 2, True, "4,262 rows in 2 files"),
        (0, 2, False, "0 rows in 2 files"),
    ],
)
def test_a_day_that_has_files_must_have_rows(
    rows: int, files: int, passed: bool, found: str
) -> None:
    verdict = rows_delivered().judge(replace(NOTHING, rows=rows, files=files))

    assert verdict == Verdict(passed, found, rows, 1)


@pytest.mark.parametrize(
    ("empty", "message"),
    [
        ((), "0 of 9 files are empty"),
        (("a",), "1 of 9 files is empty: a"),
        (("a", "b", "c"), "3 of 9 files are empty: a, b, c"),
        (("a", "b", "c", "d"), "4 of 9 files are empty: a, b, c, …"),
    ],
)
def test_an_empty_file_is_found_and_named(empty: tuple[str, ...], message: str) -> None:
    verdict = no_empty_files().judge(replace(NOTHING, files=9, empty_files=empty))

    assert verdict == Verdict(not empty, message, len(empty), 0)


def test_a_day_reconciles_if_nothing_differs() -> None:
    differences = ("rows is 4, upstream has 5", "revenue is 1, upstream has 2")

    equal, unequal = (
        reconciles().judge(replace(NOTHING, differences=d)) for d in ((), differences)
    )

    assert equal == Verdict(True, "equal", 0, 0)
    assert unequal == Verdict(False, "; ".join(differences), 2, 0)


def test_the_severity_is_given_by_the_word_around_the_rules() -> None:
    row, day = not_null("a"), no_empty_files()

    assert [rule.severity for rule in quarantine(row)] == ["quarantine"]
    assert [rule.severity for rule in warn(row, day)] == ["warn", "warn"]
    assert [rule.severity for rule in fail(row, day)] == ["fail", "fail"]
    assert [rule.name for rule in fail(row, day)] == ["a_not_null", "no_empty_files"]


def test_without_a_word_a_row_rule_quarantines_and_a_day_rule_fails() -> None:
    assert not_null("a").severity == "quarantine"
    assert rows_delivered().severity == "fail"


def test_a_day_cannot_be_quarantined() -> None:
    with pytest.raises(DefinitionError, match=r"rows_delivered judges a day.*use fail\(...\)"):
        quarantine(rows_delivered())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "1a", "_a", "a-b", "ä", "a\n"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda name: RowRule(name, "", lambda: F.lit(True)), id="row"),
        pytest.param(lambda name: DayRule(name, "", lambda _: Verdict(True, "", 0, 0)), id="day"),
    ],
)
def test_a_rule_name_is_a_plain_word(make: Callable[[str], Rule], name: str) -> None:
    with pytest.raises(DefinitionError, match="use letters, digits and underscores"):
        make(name)


def test_a_table_may_have_hundreds_of_rules(spark: SparkSession) -> None:
    many = [satisfies(f"rule_{n}", f"coalesce(qty, 0) <> {n}") for n in range(200)]
    rows = spark.createDataFrame([(7,), (500,), (None,)], "qty int")
    rows = rows.selectExpr(
        "qty", "array() AS _undeclared", "CAST(array() AS array<string>) AS _unreadable"
    )

    reasons = with_reasons(rows, quarantine(*many), []).select("_reasons").collect()

    assert [row["_reasons"] for row in reasons] == [["rule_7"], [], ["rule_0"]]


def test_each_of_two_rules_of_one_name_is_asked(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1,), (2,), (3,)], "qty int")
    rows = rows.selectExpr(
        "qty", "array() AS _undeclared", "CAST(array() AS array<string>) AS _unreadable"
    )
    both = quarantine(satisfies("odd", "qty <> 1"), satisfies("odd", "qty <> 2"))

    reasons = with_reasons(rows, both, []).select("_reasons").collect()

    assert [row["_reasons"] for row in reasons] == [["odd"], ["odd"], []]
