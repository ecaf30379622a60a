"""The gate: why each row is quarantined, what is counted of a day, and what the rules say to it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.fields import LONGEST_NAME, FieldNames
from incremental_assets.quality.gate import (
    Counted,
    DayGate,
    count,
    structural_rules,
    with_new_fields,
)
from incremental_assets.quality.judge import judge_day, judge_fields, judge_rows, not_named
from incremental_assets.quality.reasons import with_reasons
from incremental_assets.quality.rules import (
    DayCounts,
    at_least,
    fail,
    not_null,
    quarantine,
    quarantined_share,
    reconciles,
    satisfies,
    warn,
)
from incremental_assets.quality.types import Integer, Text

JAN_1, JAN_2 = date(2017, 1, 1), date(2017, 1, 2)
CONTRACT = Contract(id=Text(), qty=Integer(), note=Text())
RULES = (
    *quarantine(not_null("id"), not_null("qty"), at_least("qty", 0)),
    *warn(not_null("note")),
    *fail(at_least("qty", -100)),
)
GOOD = '{"id":"a","qty":1,"note":"n"}'
NO_JSON = "no json"


def rows(spark: SparkSession, *lines: tuple[date, str, str | None]) -> DataFrame:
    """Lines with the day that judges them and a structural reason, typed."""
    frame = spark.createDataFrame(list(lines), "_day date, line string, time string")
    frame = frame.withColumn("payload", F.try_parse_json("line"))
    return with_reasons(CONTRACT.apply(frame), RULES, [F.col("time")])


def counted(frame: DataFrame) -> Counted:
    names = FieldNames.of(CONTRACT, [])
    found = count(frame, RULES, "_day", F.col("line").contains("late"), names=names)
    return with_new_fields(found, frame, "_day", names, list(CONTRACT.columns))


def test_a_row_is_quarantined_with_every_reason_that_is_not_implied(spark: SparkSession) -> None:
    expected: dict[tuple[str, str | None], list[str]] = {
        (GOOD, None): [],
        ('{"qty":1}', None): ["id_not_null"],
        ('{"id":" ","qty":-1}', None): ["id_not_null", "qty_at_least_0"],
        ('{"id":"a"}', None): ["qty_not_null"],
        ('{"id":"a","qty":null}', None): ["qty_not_null"],
        # What cannot be read is null as well; one reason is enough for that.
        ('{"id":"a","qty":"two"}', None): ["qty_unreadable"],
        ('{"id":{},"qty":[]}', None): ["id_unreadable", "qty_unreadable"],
        ('{"id":"a","qty":1,"note":{}}', None): ["note_unreadable"],
        (NO_JSON, None): ["line_unreadable"],
        (NO_JSON, "too_late"): ["line_unreadable"],
        (GOOD, "too_late"): ["too_late"],
        ('{"qty":"two"}', "too_early"): ["id_not_null", "qty_unreadable", "too_early"],
    }

    found = rows(spark, *((JAN_1, line, time) for line, time in expected)).collect()

    assert {(row["line"], row["time"]): sorted(row["_reasons"]) for row in found} == expected


@pytest.fixture(scope="module")
def two_days(spark: SparkSession) -> Counted:
    """Eight lines of the first day, one good line of the second."""
    return counted(
        rows(
            spark,
            (JAN_1, GOOD, None),
            (JAN_1, '{"id":"late","qty":1,"colour":"red"}', None),
            (JAN_1, '{"id":"late","qty":-1,"note":"n"}', None),
            (JAN_1, '{"id":"a","qty":-101,"note":"n"}', None),
            (JAN_1, '{"id":"a","qty":"two","note":"n","size":3}', None),
            (JAN_1, GOOD, "too_late"),
            (JAN_1, '{"qty":1,"note":"n"}', "too_late"),
            (JAN_1, GOOD, "before_start"),
            (JAN_2, GOOD, None),
        )
    )


def test_rows_and_quarantined_rows_are_counted_by_day(two_days: Counted) -> None:
    first, second = two_days.days[JAN_1], two_days.days[JAN_2]

    assert (first.rows, first.quarantined) == (8, 6)
    assert (second.rows, second.quarantined, second.reasons) == (1, 0, {})


def test_rows_that_only_came_at_a_wrong_time_do_not_count_for_the_share(two_days: Counted) -> None:
    first = two_days.days[JAN_1]

    assert (first.counted, first.counted_quarantined) == (6, 4)


def test_only_good_rows_are_counted_as_late(two_days: Counted) -> None:
    assert (two_days.days[JAN_1].late, two_days.days[JAN_2].late) == (1, 0)


def test_each_reason_is_counted(two_days: Counted) -> None:
    assert two_days.days[JAN_1].reasons == {
        "too_late": 2,
        "before_start": 1,
        "id_not_null": 1,
        "qty_at_least_0": 2,
        "qty_unreadable": 1,
    }


def test_the_fields_of_all_days_are_found(two_days: Counted) -> None:
    assert two_days.fields == {"id", "qty", "note", "colour", "size"}


def test_of_many_fields_so_many_are_named_and_those_first_that_the_contract_speaks_of(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.quality.fields.MOST_NEW_FIELDS", 4)
    monkeypatch.setattr("incremental_assets.quality.gate.MOST_NEW_FIELDS", 4)
    monkeypatch.setattr("incremental_assets.quality.judge.MOST_NEW_FIELDS", 4)
    long = "l" * (LONGEST_NAME + 1)
    fields = ["known", "Debug", "2nd", "b", "a", "zz_secret", *(f"c{n}" for n in range(9))]
    many = "{" + ",".join(f'"{name}":1' for name in fields) + "}"
    contract = Contract({"*": "evolve", "debug": "discard", "zz_secret": "freeze"}, id=Text())
    frame = rows(spark, (JAN_1, many, None), (JAN_2, f'{{"{long}":1,"b c":2}}', None))

    def found(contract: Contract) -> Counted:
        names = FieldNames.of(contract, ["_batch", "dt", "known"])
        counted = count(frame, (), "_day", F.lit(False), names=names)
        return with_new_fields(counted, frame, "_day", names, [])

    some, none = found(contract), found(Contract("discard", id=Text()))
    days = some.days

    assert days[JAN_1].fields == {"known", "zz_secret", "a", "b", "c0"}
    assert days[JAN_2].fields == set()  # no column can be called so, and no rule asks
    assert [days[day].more_fields for day in (JAN_1, JAN_2)] == [True, False]
    assert [text.partition(" fields ")[0] for text in not_named(some)] == [
        "2017-01-01: the rows have more than 4"
    ]
    (held, _) = judge_fields(days[JAN_1], contract, [])
    assert held.found.startswith("more than 1 fields that nobody declared: zz_secret;")
    assert (none.fields, none.days[JAN_1].unknown) == ({"known"}, True)
    frozen = found(Contract("freeze", id=Text())).days
    assert frozen[JAN_2].fields == {"b c", "l" * (LONGEST_NAME - 1) + "…"}


def test_each_row_is_looked_at_once(spark: SparkSession, tmp_path: Path) -> None:
    looked_at = tmp_path / "looked_at"

    def look(day: date) -> date:
        with looked_at.open("a") as file:
            file.write("x")
        return day

    seen = F.udf(look, "date", useArrow=False)
    two_rows = rows(spark, (JAN_1, GOOD, None), (JAN_2, GOOD, None))

    count(two_rows.withColumn("_day", seen("_day")), RULES, "_day", F.lit(False))

    assert looked_at.read_text() == "xx"


def test_every_row_rule_has_a_result_for_its_day(two_days: Counted) -> None:
    results = {r.rule: r for r in judge_rows(two_days.days[JAN_1], RULES, two_days)}

    assert {name: (r.severity, r.passed, r.value) for name, r in results.items()} == {
        "values_readable": ("quarantine", False, 1),
        "business_day_in_time": ("quarantine", False, 3),
        "id_not_null": ("quarantine", False, 1),
        "qty_not_null": ("quarantine", True, 0),
        "qty_at_least_0": ("quarantine", False, 2),
        "note_not_null": ("warn", False, 1),
        "qty_at_least_minus_100": ("fail", False, 1),
    }
    assert results["qty_at_least_0"].found == "2 of 8 rows failed"


def test_on_a_good_day_every_rule_passes(two_days: Counted) -> None:
    day = two_days.days[JAN_2]
    results = judge_rows(day, RULES, two_days) + judge_fields(day, CONTRACT, CONTRACT.columns)

    assert [r.rule for r in results if not r.passed] == []
    assert len(results) == len(RULES) + len(structural_rules(CONTRACT))


def test_a_day_without_rows_breaks_no_row_rule() -> None:
    results = judge_rows(DayGate(JAN_1), RULES, Counted({}, {}, frozenset()))

    assert {r.passed for r in results} == {True}


def test_day_rules_are_judged_by_the_counts_of_the_day() -> None:
    rules = (*RULES, *fail(quarantined_share(at_most=0.5)), *warn(reconciles()))
    counts = DayCounts(1, 1, 4, 3, differences=("rows is 1, upstream has 2",))

    results = judge_day(rules, counts)

    assert [(r.rule, r.severity, r.passed, r.value, r.threshold) for r in results] == [
        ("quarantined_share", "fail", False, 0.75, 0.5),
        ("reconciles", "warn", False, 1, 0),
    ]


def test_no_rule_is_asked_of_a_line_that_is_no_object(spark: SparkSession) -> None:
    """Its condition might fail on the nulls of such a line, and with it the whole load."""
    rule = quarantine(satisfies("cheap", "10 / coalesce(qty, 0) > 1"))
    frame = spark.createDataFrame([('{"id":"a","qty":2}',), (NO_JSON,)], "line string")
    frame = frame.withColumn("payload", F.try_parse_json("line"))

    found = with_reasons(CONTRACT.apply(frame), rule, [F.lit(None).cast("string")])

    assert [row["_reasons"] for row in found.collect()] == [[], ["line_unreadable"]]
