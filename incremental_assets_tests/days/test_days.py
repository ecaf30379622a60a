"""Days and ranges of days: what can be written, and what is said of a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from incremental_assets.days import (
    DayRange,
    chunks,
    contiguous,
    day_range,
    named,
    parse_day,
    parse_days,
    utc_today,
)
from incremental_assets.errors import DayError


def jan(day: int) -> date:
    return date(2017, 1, day)


def test_a_day_is_read_from_its_iso_form() -> None:
    assert parse_day("2016-02-29") == date(2016, 2, 29)


@pytest.mark.parametrize(
    "text",
    ["", "2017-W01-1", "2017-02-29", "2017-13-01", "today", "2017-01-01..2017-01-02",
     "120170101", "٢٠١٧-٠١-٠١", "../etc"],
)  # fmt: skip
def test_anything_else_is_no_day_and_the_message_shows_it(text: str) -> None:
    with pytest.raises(DayError) as raised:
        parse_day(text)

    assert str(raised.value) == f"{text!r} is not a day; expected the form 2017-01-31."


@pytest.mark.parametrize("text", ["2017-1-1", "20170101", "2017-01-01 ", "2017-01-01T00:00"])
def test_a_day_in_another_form_is_refused_and_written_as_it_should_be(text: str) -> None:
    with pytest.raises(DayError) as raised:
        parse_day(text)

    assert str(raised.value) == f"{text!r} is not a day; did you mean 2017-01-01?"


@pytest.mark.parametrize("text", ["2017-01-01..2017-01-02", "2017-01-01 to 2017-01-02"])
def test_so_is_a_range(text: str) -> None:
    with pytest.raises(DayError, match=r"did you mean 2017-01-01\.\.\.2017-01-02\?$"):
        parse_days(text)


@pytest.mark.parametrize("text", ["", "2017-01-01...", "...2017-01-01", "1...2...3"])
def test_what_is_no_range_either_is_reported_how_one_is_written(text: str) -> None:
    with pytest.raises(DayError, match=r"is not a day; expected .* or A\.\.\.B with three dots"):
        parse_days(text)


def test_a_range_includes_both_ends() -> None:
    days = parse_days("2016-12-31...2017-01-02")

    assert list(days) == [date(2016, 12, 31), jan(1), jan(2)]
    assert len(days) == 3
    assert str(days) == "2016-12-31...2017-01-02"


def test_a_single_day_is_a_range_of_one() -> None:
    days = parse_days("2017-01-01")

    assert list(days) == [jan(1)]
    assert str(days) == "2017-01-01"


def test_a_range_contains_its_ends_and_nothing_next_to_them() -> None:
    days = DayRange(jan(2), jan(4))

    assert [day for day in range(1, 6) if jan(day) in days] == [2, 3, 4]
    assert "2017-01-03" not in days


def test_a_reversed_range_is_refused_and_turned_round_in_the_message() -> None:
    expected = r"2017-01-05\.\.\.2017-01-01 ends before it begins.*2017-01-01\.\.\.2017-01-05\?"

    with pytest.raises(DayError, match=expected):
        parse_days("2017-01-05...2017-01-01")
    with pytest.raises(DayError, match=expected):
        day_range(jan(5), jan(1))


@pytest.mark.parametrize(
    "text", ["2017-01-01...", "...2017-01-01", "2017-01-01..2017-01-02", "a...b"]
)
def test_a_range_with_half_an_end_is_refused(text: str) -> None:
    with pytest.raises(DayError, match="is not a day"):
        parse_days(text)


@pytest.mark.parametrize(
    ("days", "ranges"),
    [
        pytest.param([], [], id="none"),
        pytest.param([3], [(3, 3)], id="one"),
        pytest.param([3, 1, 2], [(1, 3)], id="out of order"),
        pytest.param([1, 1, 2, 2], [(1, 2)], id="twice"),
        pytest.param([1, 2, 4, 6, 7], [(1, 2), (4, 4), (6, 7)], id="gaps"),
    ],
)
def test_contiguous_days_become_the_fewest_ranges(
    days: Sequence[int], ranges: Sequence[tuple[int, int]]
) -> None:
    found = contiguous(jan(day) for day in days)

    assert found == [DayRange(jan(first), jan(last)) for first, last in ranges]


def test_chunks_keep_the_order_and_the_last_one_may_be_short() -> None:
    days = [jan(day) for day in range(1, 6)]

    assert [list(some) for some in chunks(days, 2)] == [days[:2], days[2:4], days[4:]]
    assert list(chunks([], 2)) == []


def test_today_is_the_day_in_utc_wherever_the_clock_hangs() -> None:
    new_york = timezone(timedelta(hours=-5))

    assert utc_today(datetime(2017, 1, 1, 20, tzinfo=new_york)) == jan(2)
    assert utc_today(datetime(2017, 1, 1, 20, tzinfo=UTC)) == jan(1)


def test_a_message_names_a_few_ranges_and_counts_the_rest() -> None:
    days = [jan(day) for day in (1, 2, 4, 6, 8, 10, 12)]

    assert named(days[:3]) == "2017-01-01...2017-01-02, 2017-01-04"
    assert named(days, most=2) == "2017-01-01...2017-01-02, 2017-01-04 and 4 more"
