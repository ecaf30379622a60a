"""Any order, repetition or split of loads, then the stale days, ends in the same tables."""

from __future__ import annotations

import random
from collections.abc import Sequence

from incremental_assets_tests.scenarios.world import OF_SALES, WITH_USERS, World, sale, sales
from incremental_assets_tests.thorough import thorough

DAYS = [f"2017-01-{day:02d}" for day in range(2, 6)]


def land_week(world: World) -> None:
    """Four days with late rows, corrections, repeats, bad rows and users that change."""
    for position in range(len(DAYS)):
        land_day(world, position, DAYS)


def land_day(world: World, position: int, days: Sequence[str]) -> None:
    """One of the days of a week, with what comes late for the day before the last."""
    day = days[position]
    rows: list[dict[str, object] | str] = [*sales(f"{day}-", day, 30), '{"half"']
    if position >= 2:
        earlier = days[position - 2]
        rows += sales(f"late{day}-", earlier, 2)
        rows += [sale(f"{earlier}-1", earlier, qty=9, arrival_ts=f"{day}T00:00:00Z")]
        rows += [sale(f"{earlier}-2", earlier)]
    rows += [sale(f"ahead{day}", day, event_ts=f"{day}T23:30:00-05:00", user_id="u2")]
    world.land("events", day, "a.jsonl", rows[:20])
    world.land("events", day, "b.jsonl", rows[20:])
    user = f"u{position % 2 + 1}"
    version = {"user_id": user, "updated_at": f"{day}T12:00:00Z", "income": day}
    stale_copy = {"user_id": "u1", "updated_at": "2017-01-02T12:00:00Z", "income": "2017-01-02"}
    world.land("users", day, "u.jsonl", [version, stale_copy])


def test_shuffled_repeated_and_repaired_loads_equal_one_range(world: World) -> None:
    world = world.of(*WITH_USERS)
    days = DAYS[:3]
    for position in range(len(days)):
        land_day(world, position, days)
    shuffled = world.another("shuffled")
    shuffled.land("events", "2017-01-04", "c.jsonl", sales("wrong", "2017-01-03", 5))
    wrong = [{"user_id": "u1", "updated_at": "2017-01-03"}]
    shuffled.land("users", "2017-01-03", "w.jsonl", wrong)
    shuffled.load("2017-01-04", *OF_SALES)
    shuffled.load("2017-01-02...2017-01-03")
    assert {f"wrong{i}" for i in range(5)} < shuffled.orders()

    shuffled.land("events", "2017-01-04", "c.jsonl", [sale("right", "2017-01-02")])
    first = {"user_id": "u1", "updated_at": "2017-01-02T12:00:00Z", "income": "2017-01-02"}
    shuffled.land("users", "2017-01-03", "w.jsonl", [first])
    shuffled.load("2017-01-02...2017-01-04")
    shuffled.load_stale()

    # The files are right from now on, as if they had always been.
    world.load("2017-01-02...2017-01-05")
    assert len(world.orders()) > 90
    assert not {f"wrong{i}" for i in range(5)} & world.orders()
    corrected = world.rows("gold/sales_mart").filter(order_id="2017-01-02-1")
    assert corrected["qty"].to_list() == [9]  # the later arrival, which landed later
    shuffled.same_tables_as(world)


@thorough("scenarios/test_order_free.py: one order, with repaired files")
def test_single_days_in_a_random_order_equal_one_range(world: World) -> None:
    world = world.of(*WITH_USERS, "gold/daily_product_sales")
    days = DAYS[:3]
    for position in range(len(days)):
        land_day(world, position, days)
    world.load("2017-01-02...2017-01-05")
    world.load_stale()

    shuffled = world.another("shuffled")
    order = [*days, days[0]]
    random.Random(7).shuffle(order)
    for position, day in enumerate(order):
        shuffled.load(day, *(OF_SALES if position % 3 == 0 else ()))
    shuffled.load("2017-01-02...2017-01-05", "bronze/users", "bronze/events")
    shuffled.load_stale()
    shuffled.same_tables_as(world)


@thorough("scenarios/test_order_free.py, feeds/test_append.py: repairs in any order")
def test_a_repair_replaces_the_rows_of_its_file_and_no_others(world: World) -> None:
    world = world.of(*OF_SALES, "gold/daily_product_sales")
    kept = world.land("events", "2017-01-05", "kept.jsonl", sales("kept", "2017-01-05", 10))
    world.land("events", "2017-01-05", "wrong.jsonl", sales("wrong", "2017-01-05", 10))
    world.land("events", "2017-01-05", "zero.jsonl", sales("zero", "2017-01-05", 3))
    world.land("events", "2017-01-05", "other day.jsonl", sales("a", "2017-01-04", 3))
    world.load("2017-01-04...2017-01-05")
    assert len(world.orders("gold/sales_mart")) == 26
    assert sorted(world.rows("gold/daily_product_sales")["units"]) == [3, 23]

    kept.unlink()  # archived by the shop
    world.land("events", "2017-01-05", "wrong.jsonl", sales("right", "2017-01-05", 9))
    world.land("events", "2017-01-05", "zero.jsonl", [])
    world.land("events", "2017-01-05", "other day.jsonl", sales("b", "2017-01-05", 2))
    world.load("2017-01-05")
    world.load_stale()

    right = {f"right{i}" for i in range(9)} | {"b0", "b1"}
    assert world.orders("gold/sales_mart") == {f"kept{i}" for i in range(10)} | right
    assert world.rows("gold/daily_product_sales")["units"].to_list() == [21]  # a day is empty now
