"""Each condition is notified once, again with another fingerprint, and once when it is over."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from incremental_assets.alerts.conditions import Condition, ConditionKind
from incremental_assets.alerts.notification_state import NotificationState, notification

FIRST = date(2017, 1, 1)


def condition(
    kind: ConditionKind, day: int, fingerprint: str = "1", value: float = 0.0
) -> Condition:
    when = FIRST + timedelta(days=day - 1)
    return Condition(kind, "silver/sales", when, fingerprint, f"{kind} as of {fingerprint}", value)


def test_a_condition_is_notified_again_only_with_another_fingerprint() -> None:
    found = [condition("held", 5), condition("late", 5)]
    message = notification(found, NotificationState())
    assert message is not None
    assert [a["kind"] for a in message["alerts"]] == ["held", "late"]

    state = NotificationState.of(found)
    assert notification(found, state) is None
    message = notification([condition("held", 5, "2"), condition("late", 5)], state)
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


def test_what_is_over_is_notified_once() -> None:
    state = NotificationState.of([condition("held", 5), condition("held", 6)])

    message = notification([condition("held", 6)], state)

    assert message is not None
    assert message["alerts"] == []
    assert message["resolved"] == [
        {"kind": "held", "table": "silver/sales", "days": ["2017-01-05"], "count": 1}
    ]
    assert "• silver/sales 2017-01-05: no longer held" in message["text"]
    assert (
        notification([condition("held", 6)], NotificationState.of([condition("held", 6)])) is None
    )


def test_days_of_a_table_are_one_alert_that_names_the_worst() -> None:
    found = [
        condition("late", 1, "1", 0.3),
        condition("late", 2, "9", 0.9),
        condition("late", 4, "5", 0.5),
    ]

    message = notification(found, NotificationState())

    assert message is not None
    (alert,) = message["alerts"]
    assert (alert["days"], alert["count"]) == (["2017-01-01...2017-01-02", "2017-01-04"], 3)
    assert (alert["found"], alert["value"]) == ("2017-01-02 late as of 9", 0.9)
    line = "• silver/sales 2017-01-01...2017-01-02, 2017-01-04 (3 days): 2017-01-02 late as of 9"
    assert line in message["text"]


@pytest.mark.parametrize(
    ("days", "text"),
    [
        ([1], "2017-01-01: "),
        ([1, 2], "2017-01-01...2017-01-02: "),
        ([1, 5], "2017-01-01, 2017-01-05: "),
        ([1, 2, 3], "2017-01-01...2017-01-03 (3 days): "),
    ],
)
def test_days_are_counted_where_their_number_is_not_seen_at_a_glance(
    days: list[int], text: str
) -> None:
    message = notification([condition("held", day) for day in days], NotificationState())

    assert message is not None
    assert f"• silver/sales {text}" in message["text"]


def test_of_days_that_wait_the_one_that_waits_longest_is_named() -> None:
    noon = datetime(2017, 2, 1, 12, tzinfo=UTC)
    days = [(1, noon), (2, noon - timedelta(days=1)), (3, noon)]
    found = [
        Condition("stale", "gold/mart", date(2017, 1, day), "", f"since {since:%d}", since=since)
        for day, since in days
    ]

    message = notification(found, NotificationState())

    assert message is not None
    assert message["alerts"][0]["found"] == "2017-01-02 since 31"


def test_ten_years_of_days_take_little_room() -> None:
    found = [condition("stale", day, "") for day in range(1, 3651)]
    alternating = [condition("held", day) for day in range(1, 3651, 2)]

    assert len(NotificationState.of(found).text()) < 100
    message = notification(alternating, NotificationState())
    assert message is not None
    assert len(json.dumps(message)) < 2000


def test_the_state_is_read_back_as_it_was() -> None:
    state = NotificationState.of(
        [
            condition("held", 1),
            condition("held", 2),
            condition("held", 3, "7"),
            condition("late", 9),
        ]
    )

    assert NotificationState.from_text(state.text()) == state


@pytest.mark.parametrize("text", [None, "", "{", "7", '["a"]', '[["held","t","yesterday","1"]]'])
def test_where_the_state_cannot_be_read_everything_is_notified_again(text: str | None) -> None:
    assert NotificationState.from_text(text) == NotificationState()
