"""Each thing is told once, again when it is so anew, and once when it is over."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from incremental_assets.alerts.conditions import Condition, Kind
from incremental_assets.alerts.told import Told, news

FIRST = date(2017, 1, 1)


def so(kind: Kind, day: int, mark: str = "1", value: float = 0.0) -> Condition:
    when = FIRST + timedelta(days=day - 1)
    return Condition(kind, "silver/sales", when, mark, f"{kind} as of {mark}", value)


def test_what_was_told_is_reported_again_only_with_another_mark() -> None:
    found = [so("held", 5), so("late", 5)]
    message = news(found, Told())
    assert message is not None
    assert [a["kind"] for a in message["alerts"]] == ["held", "late"]

    told = Told.of(found)
    assert news(found, told) is None
    message = news([so("held", 5, "2"), so("late", 5)], told)
    assert message is not None
    assert message["alerts"] == [
        {
            "kind": "held",
            "table": "silver/sales",
            "days": ["2017-01-05"],
            "count": 1,
            "found": "held as of 2",
            "value": 0.0,
        }
    ]
    assert message["resolved"] == []


def test_what_is_over_is_reported_once() -> None:
    told = Told.of([so("held", 5), so("held", 6)])

    message = news([so("held", 6)], told)

    assert message is not None
    assert message["alerts"] == []
    assert message["resolved"] == [
        {"kind": "held", "table": "silver/sales", "days": ["2017-01-05"], "count": 1}
    ]
    assert "• silver/sales 2017-01-05: no longer held" in message["text"]
    assert news([so("held", 6)], Told.of([so("held", 6)])) is None


def test_days_of_a_table_are_one_alert_that_names_the_worst() -> None:
    found = [so("late", 1, "1", 0.3), so("late", 2, "9", 0.9), so("late", 4, "5", 0.5)]

    message = news(found, Told())

    assert message is not None
    (alert,) = message["alerts"]
    assert (alert["days"], alert["count"]) == (["2017-01-01...2017-01-02", "2017-01-04"], 3)
    assert (alert["found"], alert["value"]) == ("2017-01-02 late as of 9", 0.9)
    line = "• silver/sales 2017-01-01...2017-01-02, 2017-01-04 (3 days): 2017-01-02 late as of 9"
    assert line in message["text"]


def test_of_days_that_wait_the_one_that_waits_longest_is_named() -> None:
    noon = datetime(2017, 2, 1, 12, tzinfo=UTC)
    days = [(1, noon), (2, noon - timedelta(days=1)), (3, noon)]
    found = [
        Condition("stale", "gold/mart", date(2017, 1, day), "", f"since {since:%d}", since=since)
        for day, since in days
    ]

    message = news(found, Told())

    assert message is not None
    assert message["alerts"][0]["found"] == "2017-01-02 since 31"


def test_ten_years_of_days_take_little_room() -> None:
    found = [so("stale", day, "") for day in range(1, 3651)]
    alternating = [so("held", day) for day in range(1, 3651, 2)]

    assert len(Told.of(found).text()) < 100
    message = news(alternating, Told())
    assert message is not None
    assert len(json.dumps(message)) < 2000


def test_what_was_told_is_read_back_as_it_was() -> None:
    told = Told.of([so("held", 1), so("held", 2), so("held", 3, "7"), so("late", 9)])

    assert Told.from_text(told.text()) == told


@pytest.mark.parametrize("text", [None, "", "{", "7", '["a"]', '[["held","t","yesterday","1"]]'])
def test_where_that_cannot_be_read_everything_is_reported_again(text: str | None) -> None:
    assert Told.from_text(text) == Told()
