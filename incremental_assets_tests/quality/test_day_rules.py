"""What the rules on days say to a day's counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.rules import (
    DayCounts,
    DayRule,
    distinct_count,
    fresh,
    null_share,
    quarantined_share,
    row_count,
    usual_row_count,
)

JAN_5 = date(2017, 1, 5)
NOON = datetime(2017, 1, 10, 12, tzinfo=UTC)
DAY = DayCounts(100, 0, 100, 0, measured_rows=100, day=JAN_5, now=NOON)


def passes(rule: DayRule, day: DayCounts) -> bool:
    return rule.judge(day).passed


def test_the_rows_of_a_day_lie_in_bounds() -> None:
    days = [replace(DAY, total_rows=n) for n in (9, 10, 20, 21)]

    assert [passes(row_count(10, 20), day) for day in days] == [False, True, True, False]
    assert [passes(row_count(10), day) for day in days] == [False, True, True, True]
    assert row_count(10, 20).judge(days[3]).found == "21 rows, 10 to 20 expected"


def test_a_day_is_compared_with_the_median_of_those_before_it() -> None:
    rule = usual_row_count(within=0.5)
    odd = (100, 98, 5_000, 102, 100, 0, 101)  # two odd days do not move it

    found = [passes(rule, replace(DAY, total_rows=n, trailing=odd)) for n in (49, 50, 150, 151)]

    assert found == [False, True, True, False]
    verdict = rule.judge(replace(DAY, total_rows=40, trailing=odd))
    assert verdict.found == "40 rows, 60% off the 7 days' median of 100"
    assert (verdict.value, verdict.threshold) == (pytest.approx(0.6), 0.5)


def test_too_few_days_to_compare_with_pass_and_so_does_a_first_day_after_empty_ones() -> None:
    rule = usual_row_count(within=0.5, days=3, min_days=2)

    assert passes(rule, replace(DAY, total_rows=1, trailing=(100,)))
    assert not passes(rule, replace(DAY, total_rows=1, trailing=(100, 100)))
    # Only the last three count.
    assert passes(rule, replace(DAY, total_rows=10, trailing=(10, 10, 10, 900, 900, 900)))
    assert passes(rule, replace(DAY, total_rows=0, trailing=(0, 0)))
    assert not passes(rule, replace(DAY, total_rows=5, trailing=(0, 0)))


def test_the_share_of_nulls_is_judged_from_a_number_of_rows_on() -> None:
    rule = null_share("user_id", at_most=0.1)

    found = [passes(rule, replace(DAY, measured={"nulls": n})) for n in (10, 11)]
    few = replace(DAY, measured_rows=3, measured={"nulls": 3})

    assert found == [True, False]
    assert passes(rule, few)
    assert rule.judge(replace(DAY, measured={"nulls": 11})).found == (
        "11 of 100 rows (11.00%) have no user_id, at most 10.00% may"
    )


def test_different_values_are_counted_where_there_are_rows() -> None:
    rule = distinct_count("store_id", 2, 3)
    days = [replace(DAY, measured={"values": n}) for n in (1, 2, 3, 4)]

    assert [passes(rule, day) for day in days] == [False, True, True, False]
    assert passes(rule, replace(DAY, measured_rows=0))


def test_a_day_is_fresh_up_to_its_end_or_to_now() -> None:
    rule = fresh("event_ts", timedelta(hours=2))

    def at(day: date, *moment: int) -> bool:
        newest = datetime(2017, 1, *moment, tzinfo=UTC).timestamp() * 1_000_000
        return passes(rule, replace(DAY, day=day, measured={"newest": int(newest)}))

    assert (at(JAN_5, 5, 22), at(JAN_5, 5, 21)) == (True, False)
    today = date(2017, 1, 10)
    assert (at(today, 10, 10), at(today, 10, 9)) == (True, False)
    assert not passes(rule, replace(DAY, measured={"newest": None}))
    last = 253_402_300_799_999_999  # of the year 9999: as a float of seconds it is in the next
    for beyond in (last, 2**63 - 1):
        found = rule.judge(replace(DAY, measured={"newest": beyond}))
        assert (found.passed, found.found[:34]) == (True, "the newest event_ts is 9999-12-31 ")
    assert passes(rule, replace(DAY, measured_rows=0))


@pytest.mark.parametrize(
    "made",
    [
        lambda: row_count(5, 4),
        lambda: row_count(-1),
        lambda: usual_row_count(0),
        lambda: usual_row_count(0.5, days=3, min_days=4),
        lambda: null_share("v", 1),
        lambda: quarantined_share(5),
        lambda: distinct_count("v", 3, 2),
        lambda: fresh("v", timedelta(0)),
    ],
)
def test_bounds_that_contradict_themselves_are_refused(made: Callable[[], DayRule]) -> None:
    with pytest.raises(DefinitionError):
        made()
