"""What one purchase sends: every case of the feed of sales, on made-up rows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from incremental_assets.retail.feed.deliveries import Delivery
from incremental_assets.retail.feed.draws import Shares
from incremental_assets.retail.feed.events import Purchase, event_deliveries

NOON = datetime(2017, 1, 5, 12, tzinfo=UTC)
JUST_BEFORE_MIDNIGHT = datetime(2017, 1, 5, 23, 59, 59, tzinfo=UTC)
AS_IT_SHOULD_BE = Shares(late=0, duplicate=0, bad=0)
MANY = range(400)


def sale(
    basket_id: int = 1, quantity: int = 1, sales_value: float = 3.99, at: datetime = NOON
) -> Purchase:
    return Purchase(7, 330, basket_id, 1095275, quantity, sales_value, 0.5, 0.0, 0.0, at)


def row_of(delivery: Delivery) -> dict[str, Any]:
    row = json.loads(delivery.what)
    assert isinstance(row, dict)
    return row


def is_json(delivery: Delivery) -> bool:
    try:
        json.loads(delivery.what)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("at", [NOON, JUST_BEFORE_MIDNIGHT])
def test_a_row_on_time_arrives_after_its_event_and_on_the_same_day(at: datetime) -> None:
    deliveries = [
        delivery
        for basket_id in MANY
        for delivery in event_deliveries(sale(basket_id, at=at), AS_IT_SHOULD_BE)
    ]

    assert len(deliveries) == len(MANY)
    for delivery in deliveries:
        assert delivery.lands_at.date() == at.date()
        assert at <= delivery.lands_at <= at + timedelta(minutes=5)
        assert row_of(delivery)["arrival_ts"] == f"{delivery.lands_at:%Y-%m-%dT%H:%M:%SZ}"


def test_late_rows_arrive_one_to_three_days_later_about_equally_often() -> None:
    shares = Shares(late=1, duplicate=0, bad=0)

    delays = Counter(
        (delivery.lands_at.date() - NOON.date()).days
        for basket_id in MANY
        for delivery in event_deliveries(sale(basket_id), shares)
    )

    assert set(delays) == {1, 2, 3}
    assert min(delays.values()) > len(MANY) / 5


@pytest.mark.parametrize("late", [0, 1])
def test_no_copy_lands_more_than_three_days_after_the_event(late: float) -> None:
    shares = Shares(late=late, duplicate=1, bad=0)

    pairs = [tuple(event_deliveries(sale(basket_id), shares)) for basket_id in MANY]

    assert {len(pair) for pair in pairs} == {2}
    for first, second in pairs:
        assert second.again
        assert not first.again
        assert first.lands_at <= second.lands_at
        assert second.lands_at.date() <= NOON.date() + timedelta(days=3)


def test_a_second_delivery_is_an_exact_copy_or_a_correction_that_arrives_on_the_next_day() -> None:
    shares = Shares(late=0, duplicate=1, bad=0)
    kinds = Counter[str]()

    for basket_id in MANY:
        first, second = event_deliveries(sale(basket_id, quantity=2), shares)
        next_day = second.lands_at.date() > first.lands_at.date()
        if first.what == second.what:
            kinds["copy on the next day" if next_day else "copy on the same day"] += 1
            continue
        kinds["correction"] += 1
        before, after = row_of(first), row_of(second)
        assert next_day
        assert after.pop("arrival_ts") > before.pop("arrival_ts")
        assert (before.pop("qty"), after.pop("qty")) == (2, 3)
        assert before == after

    assert set(kinds) == {"copy on the same day", "copy on the next day", "correction"}


def test_the_four_ways_of_being_bad_are_about_equally_frequent() -> None:
    shares = Shares(late=0, duplicate=1, bad=1)
    ways = Counter[str]()

    for basket_id in MANY:
        (delivery,) = event_deliveries(sale(basket_id), shares)
        assert delivery.bad
        if not is_json(delivery):
            ways["cut in half"] += 1
            continue
        row = row_of(delivery)
        ways["no order"] += row["order_id"] is None
        ways["text for a number"] += row["qty"] == "two"
        ways["negative price"] += row["unit_price"] == -3.99

    assert sum(ways.values()) == len(MANY)
    assert len(ways) == 4
    assert min(ways.values()) > len(MANY) / 8


def test_a_bad_price_is_negative_also_where_the_line_cost_nothing() -> None:
    shares = Shares(late=0, duplicate=0, bad=1)
    deliveries = [
        delivery
        for basket_id in MANY
        for delivery in event_deliveries(sale(basket_id, sales_value=0.0), shares)
    ]

    prices = {row_of(delivery)["unit_price"] for delivery in deliveries if is_json(delivery)}

    assert prices == {0.0, -0.01}


@pytest.mark.parametrize(
    ("quantity", "sales_value", "printed"),
    [
        pytest.param(1, 3.99, "3.99", id="one unit"),
        pytest.param(2, 3.0, "1.5", id="two units"),
        pytest.param(3, 1.0, "0.3333", id="rounded down"),
        pytest.param(16, 1.0, "0.0625", id="exact to the last decimal"),
        pytest.param(32, 1.0, "0.0313", id="half goes up"),
        pytest.param(0, 2.61, "2.61", id="nothing counted, so the whole line"),
        pytest.param(89_638, 200.0, "0.0022", id="fuel"),
        pytest.param(1, 0.1 + 0.2, "0.3", id="noise of binary floats"),
        pytest.param(10_000, 1.0, "0.0001", id="no exponent"),
    ],
)
def test_the_price_is_per_unit_and_printed_as_a_short_decimal(
    quantity: int, sales_value: float, printed: str
) -> None:
    (delivery,) = event_deliveries(sale(1, quantity, sales_value), AS_IT_SHOULD_BE)

    assert f'"unit_price":{printed},' in delivery.what


def test_a_smaller_share_chooses_a_part_of_what_a_larger_one_chooses() -> None:
    def late_baskets(share: float) -> set[int]:
        shares = Shares(late=share, duplicate=0, bad=0)
        return {n for n in MANY if next(event_deliveries(sale(n), shares)).late}

    assert set() == late_baskets(0) < late_baskets(0.1) < late_baskets(0.5) < set(MANY)
