"""The oracle itself, on days that can be checked by eye."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from incremental_assets_tests.truth import Truth, truth_of

START = date(2017, 1, 2)
DAY = date(2017, 1, 10)
NEXT_DAY = date(2017, 1, 11)

GOOD: Mapping[str, Any] = {
    "order_id": "a",
    "user_id": "7",
    "store_id": "330",
    "product_id": "42",
    "qty": 2,
    "unit_price": 3.99,
    "event_ts": "2017-01-10T12:00:00Z",
    "arrival_ts": "2017-01-10T12:01:00Z",
}


def event(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def many_good(count: int) -> list[str]:
    return [event(order_id=f"good-{n}") for n in range(count)]


def lands(
    landing: Path, *lines: str, day: date = DAY, file: str = "events/{}/part-0.jsonl"
) -> Path:
    path = landing / file.format(day)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return landing


def truth(landing: Path, *days: date) -> Truth:
    return truth_of(landing, START, days or (DAY,))


def test_a_good_row_is_typed(tmp_path: Path) -> None:
    found = truth(lands(tmp_path, event()))

    assert found.sales.to_dicts() == [
        {
            "dt": DAY,
            "order_id": "a",
            "user_id": "7",
            "store_id": "330",
            "product_id": "42",
            "qty": 2,
            "unit_price": Decimal("3.9900"),
            "event_ts": datetime(2017, 1, 10, 12, tzinfo=UTC),
            "arrival_ts": datetime(2017, 1, 10, 12, 1, tzinfo=UTC),
        }
    ]
    assert found.quarantined.is_empty()


def test_no_landed_files_make_empty_tables_with_all_their_columns(tmp_path: Path) -> None:
    found = truth(tmp_path)

    assert found.daily_product_sales.columns[3:] == ["units", "revenue", "orders"]
    assert found.held == frozenset()


def test_hidden_files_and_blank_lines_do_not_count_and_deep_ones_do(tmp_path: Path) -> None:
    lands(tmp_path, event(order_id="seen"), "", "   ", file="events/{}/deep/er/part.jsonl")
    for hidden in ("_SUCCESS", ".part.crc", "_temporary/part.jsonl", "deep/.x/part.jsonl"):
        lands(tmp_path, "not json", file=f"events/{{}}/{hidden}")

    found = truth(tmp_path)

    assert found.sales["order_id"].to_list() == ["seen"]
    assert found.quarantined.is_empty()


def test_only_the_landing_days_that_are_given_are_read(tmp_path: Path) -> None:
    lands(tmp_path, "not json", *many_good(20))
    lands(tmp_path, event(order_id="a"), day=NEXT_DAY)

    one, both = truth(tmp_path, NEXT_DAY), truth(tmp_path, NEXT_DAY, DAY, DAY)

    assert one.sales["order_id"].to_list() == ["a"]
    assert (both.sales.height, both.quarantined.height) == (21, 1)


@pytest.mark.parametrize(
    ("event_ts", "verdict"),
    [
        pytest.param("2017-01-02T23:59:59Z", (DAY, "too_late"), id="eight days late"),
        pytest.param("2017-01-03T00:00:00Z", None, id="seven days late"),
        pytest.param("2017-01-11T23:59:59Z", None, id="a day ahead"),
        pytest.param("2017-01-12T00:00:00Z", (DAY, "too_early"), id="two days ahead"),
        pytest.param("2017-01-12T01:00:00+02:00", None, id="a day ahead by its offset"),
        pytest.param("2017-01-10 12:00:00.123456", None, id="no offset"),
        pytest.param("2017-01-10", None, id="no time"),
        pytest.param("10.1.2017", (DAY, "bad"), id="not ISO"),
        pytest.param("2017-02-30T00:00:00Z", (DAY, "bad"), id="no such day"),
        pytest.param(1_484_049_600, (DAY, "bad"), id="a number"),
        pytest.param(None, (DAY, "bad"), id="null"),
    ],
)
def test_the_landing_day_judges_the_time_of_an_event(
    tmp_path: Path, event_ts: object, verdict: tuple[date, str] | None
) -> None:
    found = truth(lands(tmp_path, event(event_ts=event_ts)))

    assert found.quarantined.rows() == ([verdict] if verdict else [])
    assert found.sales.height == (verdict is None)


def test_a_business_day_before_the_start_is_set_aside_on_its_landing_day(tmp_path: Path) -> None:
    first_landing_day = date(2017, 1, 3)
    times = ("2017-01-01T23:59:59Z", "2017-01-02T00:00:00Z")
    lands(tmp_path, *(event(event_ts=time) for time in times), day=first_landing_day)

    found = truth(tmp_path, first_landing_day)

    assert found.quarantined.rows() == [(first_landing_day, "before_start")]
    assert found.sales["dt"].to_list() == [START]
    assert found.held == frozenset()


@pytest.mark.parametrize(
    "line", [event()[:-1], f"[{event()}]", "7", "null", "{}", event(note=float("nan"))]
)
def test_a_line_without_an_object_is_bad_on_its_landing_day(tmp_path: Path, line: str) -> None:
    assert truth(lands(tmp_path, line)).quarantined.rows() == [(DAY, "bad")]


BROKEN: Mapping[str, tuple[Any, ...]] = {
    "order_id": (None, "", "  "),
    "qty": (None, "two", -1, 1.5, "1.5", True, 2**31, "1e400", []),
    "unit_price": (None, "", "3,99", -0.01, 10**14, "1e15", "99999999999999.99995", False),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, some in BROKEN.items() for v in some])
def test_a_row_that_breaks_a_rule_is_bad_on_its_business_day(
    tmp_path: Path, name: str, value: object
) -> None:
    found = truth(lands(tmp_path, event(**{name: value}), day=NEXT_DAY), NEXT_DAY)

    assert found.quarantined.rows() == [(DAY, "bad")]
    assert found.sales.is_empty()


@pytest.mark.parametrize(
    ("qty", "unit_price", "read"),
    [
        pytest.param("3", "3.99", (3, "3.9900"), id="numbers as text"),
        pytest.param(3.0, 1, (3, "1.0000"), id="a whole number with a point"),
        pytest.param(0, 0, (0, "0.0000"), id="zero"),
        pytest.param(1, 0.00005, (1, "0.0001"), id="half goes up"),
        pytest.param(1, 1.00015, (1, "1.0002"), id="half goes up in decimals, not in floats"),
        pytest.param(1, -0.00004, (1, "0.0000"), id="negative only before it is rounded"),
    ],
)
def test_readable_numbers(
    tmp_path: Path, qty: object, unit_price: object, read: tuple[int, str]
) -> None:
    found = truth(lands(tmp_path, event(qty=qty, unit_price=unit_price)))

    assert found.sales.select("qty", "unit_price").rows() == [(read[0], Decimal(read[1]))]


@pytest.mark.parametrize(("good", "held"), [(18, True), (19, False)])
def test_a_day_is_held_when_more_than_a_twentieth_of_it_is_bad(
    tmp_path: Path, good: int, *, held: bool
) -> None:
    outside = [event(event_ts=f"2017-01-{day:02}T00:00:00Z") for day in (1, 20)] * 50
    lands(tmp_path, *many_good(good), event(qty=None), *outside)

    found = truth(tmp_path)

    assert found.held == (frozenset({DAY}) if held else frozenset())
    assert found.sales.height == (0 if held else good)
    assert found.quarantined.height == 1 + len(outside)


def test_copies_count_as_rows_of_their_day(tmp_path: Path) -> None:
    found = truth(lands(tmp_path, *[event()] * 19, event(qty=None)))

    assert found.held == frozenset()
    assert found.sales.height == 1
    assert found.ties == frozenset()


@pytest.mark.parametrize("later_first", [True, False])
def test_the_version_that_arrived_later_wins_whatever_the_order(
    tmp_path: Path, *, later_first: bool
) -> None:
    arrivals = {1: "2017-01-10T13:00:00Z", 9: "2017-01-10T14:30:00+01:00", 5: None}
    lines = [event(qty=qty, arrival_ts=arrival) for qty, arrival in arrivals.items()]

    found = truth(lands(tmp_path, *(lines[::-1] if later_first else lines)))

    assert found.sales["qty"].to_list() == [9]
    assert found.ties == frozenset()


def test_versions_that_differ_and_arrived_last_together_are_ties(tmp_path: Path) -> None:
    found = truth(
        lands(
            tmp_path,
            *(event(order_id="tied", qty=qty) for qty in (1, 2)),
            *(event(order_id="copied") for _ in range(2)),
            *(event(order_id="no arrival", qty=qty, arrival_ts=None) for qty in (1, 2)),
            *(event(order_id="decided", qty=q, arrival_ts=None) for q in (1, 2)),
            event(order_id="decided"),
        )
    )

    assert found.ties == {"tied", "no arrival"}
    assert found.sales.height == 4


def test_an_order_on_two_days_is_reported(tmp_path: Path) -> None:
    lands(tmp_path, event(), event(order_id="stays"))
    moved_to = {"event_ts": "2017-01-09T12:00:00Z", "arrival_ts": "2017-01-11T00:00:00Z"}
    lands(tmp_path, event(**moved_to), day=NEXT_DAY)

    found = truth(tmp_path, DAY, NEXT_DAY)

    assert found.moved == {"a"}
    assert found.sales.select("order_id", "dt").rows() == [("a", date(2017, 1, 9)), ("stays", DAY)]


def test_products_are_summed_exactly_by_day_and_store(tmp_path: Path) -> None:
    lands(
        tmp_path,
        event(order_id="a", qty=3, unit_price=0.1),
        event(order_id="b", qty=2, unit_price="99999999999999.9999"),
        event(order_id="c", store_id="331", qty=0),
    )

    found = truth(tmp_path)

    assert found.daily_product_sales.rows() == [
        (DAY, "42", "330", 5, Decimal("200000000000000.2998"), 2),
        (DAY, "42", "331", 0, Decimal(0), 1),
    ]
