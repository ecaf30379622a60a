"""Any order, repetition or split of loads, then the stale days, ends in the same tables."""

from __future__ import annotations

import random
from collections.abc import Sequence

from incremental_assets_tests.scenarios.world import World, sale, sales

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


def test_day_by_day_or_shuffled_with_repeats_and_single_tables_equals_one_range(
    world: World,
) -> None:
    land_week(world)
    world.load("2017-01-02...2017-01-06")
    world.load_stale()

    daily = world.another("daily")
    for day in [*DAYS, "2017-01-06"]:
        daily.load(day)
    daily.load_stale()

    daily.same_tables_as(world)
    assert len(world.orders()) > 110

    shuffled = world.another("shuffled")
    order = [*DAYS, "2017-01-06", *DAYS[:2]]
    random.Random(7).shuffle(order)
    for position, day in enumerate(order):
        names = ("bronze/events", "silver/sales", "gold/sales_mart") if position % 3 == 0 else ()
        shuffled.load(day, *names)
    for day in DAYS:
        shuffled.load(day, "bronze/users", "bronze/events")
    shuffled.load_stale()

    shuffled.same_tables_as(world)


def test_repaired_file_ends_as_if_it_had_always_been_right(world: World) -> None:
    land_week(world)
    world.land("events", "2017-01-05", "c.jsonl", sales("wrong", "2017-01-04", 5))
    world.land("users", "2017-01-03", "w.jsonl", [{"user_id": "u1", "updated_at": "2017-01-03"}])
    for day in [*DAYS, "2017-01-06"]:
        world.load(day)
    world.load_stale()

    world.land("events", "2017-01-05", "c.jsonl", [sale("right", "2017-01-03")])
    first = {"user_id": "u1", "updated_at": "2017-01-02T12:00:00Z", "income": "2017-01-02"}
    world.land("users", "2017-01-03", "w.jsonl", [first])
    world.load("2017-01-05")
    world.load("2017-01-03")
    world.load_stale()

    assert not {f"wrong{i}" for i in range(5)} & world.orders()
    rebuilt = world.another("rebuilt")
    rebuilt.load("2017-01-02...2017-01-06")
    rebuilt.load_stale()
    world.same_tables_as(rebuilt)


def test_repair_replaces_the_rows_of_its_file_and_no_others(world: World) -> None:
    kept = world.land("events", "2017-01-05", "kept.jsonl", sales("kept", "2017-01-05", 10))
    world.land("events", "2017-01-05", "wrong.jsonl", sales("wrong", "2017-01-05", 10))
    world.load("2017-01-05")

    kept.unlink()  # archived by the shop
    world.land("events", "2017-01-05", "wrong.jsonl", sales("right", "2017-01-05", 9))
    world.load("2017-01-05")

    orders = world.orders("gold/sales_mart")
    assert orders == {f"kept{i}" for i in range(10)} | {f"right{i}" for i in range(9)}


def test_file_repaired_to_zero_bytes_loses_its_rows_and_no_others(world: World) -> None:
    world.land("events", "2017-01-05", "kept.jsonl", sales("kept", "2017-01-05", 3))
    world.land("events", "2017-01-05", "wrong.jsonl", sales("wrong", "2017-01-05", 3))
    world.load("2017-01-05")

    world.land("events", "2017-01-05", "wrong.jsonl", [])
    world.load("2017-01-05")

    assert world.orders("gold/sales_mart") == {f"kept{i}" for i in range(3)}


def test_file_repaired_to_nothing_empties_its_day(world: World) -> None:
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-04", 3))
    world.load("2017-01-04...2017-01-05")
    assert len(world.orders("gold/sales_mart")) == 3

    world.land("events", "2017-01-05", "a.jsonl", sales("b", "2017-01-05", 2))
    world.load("2017-01-05")
    world.load_stale()

    assert world.orders("gold/sales_mart") == {"b0", "b1"}
    assert world.rows("gold/daily_product_sales")["units"].to_list() == [2]
