"""What one household sends: the events of its row, as Debezium writes them."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from incremental_assets.retail.feed.deliveries import Delivery
from incremental_assets.retail.feed.draws import Shares
from incremental_assets.retail.feed.users import Household, user_deliveries

AS_IT_SHOULD_BE = Shares(late=0, duplicate=0, bad=0)
MANY = range(400)


def household(number: int = 1) -> Household:
    demographics = {"age": "65+", "income": "250K+", "home_ownership": None, "household_size": "2"}
    return Household(number, date(2017, 1, 2), demographics)


def event_of(delivery: Delivery) -> dict[str, Any]:
    event = json.loads(delivery.what)
    assert isinstance(event, dict)
    return event


def events(number: int, shares: Shares = AS_IT_SHOULD_BE) -> list[dict[str, Any]]:
    return [event_of(each) for each in user_deliveries(household(number), shares)]


def test_a_household_is_created_at_midnight_of_its_first_day() -> None:
    first, *_ = user_deliveries(household(), AS_IT_SHOULD_BE)

    assert first.lands_at == datetime(2017, 1, 2, tzinfo=UTC)
    event = event_of(first)
    assert (event["op"], event["before"]) == ("c", None)
    assert event["source"]["ts_ms"] == 1483315200000
    assert event["after"] == {
        "user_id": "1",
        "age": "65+",
        "income": "250K+",
        "home_ownership": None,
        "household_size": "2",
        "updated_at": "2017-01-02T00:00:00Z",
    }


def test_some_households_change_one_attribute_weeks_later_and_a_few_are_deleted() -> None:
    ops, changes = Counter[str](), Counter[str]()

    for number in MANY:
        for event in events(number):
            ops.update(event["op"])
            before, after = event["before"], event["after"]
            if event["op"] == "u":
                assert "2017-01-23" <= after["updated_at"][:10] <= "2017-03-13"
                changed = [n for n in before if before[n] != after[n] and n != "updated_at"]
                changes.update(f"{name}: {after[name]}" for name in changed)

    assert set(changes) == {"income: 200-249K", "household_size: 3"}
    assert ops["c"] == len(MANY)
    assert 0.15 < ops["u"] / len(MANY) < 0.25
    assert 0.02 < ops["d"] / len(MANY) < 0.08


def test_the_events_of_a_household_follow_on_each_other() -> None:
    for number in MANY:
        some = events(number)
        places = [event["source"]["lsn"] for event in some]
        assert places == sorted(set(places))
        for one, next_one in pairwise(some):
            assert one["after"] == next_one["before"]
            assert one["op"] != "d"


def test_a_late_event_lands_one_to_three_days_after_its_change() -> None:
    for number in MANY:
        for delivery in user_deliveries(household(number), Shares(1, 0, 0)):
            changed = datetime.fromtimestamp(event_of(delivery)["source"]["ts_ms"] / 1000, UTC)
            delay = delivery.lands_at.date() - changed.date()
            assert delivery.late
            assert timedelta(days=1) <= delay <= timedelta(days=3)


def test_an_event_is_sent_twice_on_its_day_or_cut_in_half() -> None:
    first, again, *_ = user_deliveries(household(), Shares(0, 1, 0))
    half, *_ = user_deliveries(household(), Shares(0, 1, 1))

    assert (again.what, again.lands_at.date()) == (first.what, first.lands_at.date())
    assert first.what.startswith(half.what)
    assert half.bad
