"""What a plan says, and what the run after it then does: the same, but for what it said may follow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.planning import Compared, plan_and_run
from incremental_assets_tests.scenarios.world import OF_SALES, TABLES, World, sale, sales
from incremental_assets_tests.thorough import thorough

NOW = datetime(2017, 1, 20, 12, tzinfo=UTC)
BRONZE, SILVER, MART = OF_SALES


def runs(world: World, *names: str, days: str | None = None) -> Compared:
    return plan_and_run(world.lakehouse, [TABLES[n] for n in names or OF_SALES], NOW, days)


def three_days(world: World) -> None:
    for day in ("2017-01-02", "2017-01-03", "2017-01-04"):
        world.land("events", day, "a.jsonl", sales(f"{day}-", day, 20))
    first = runs(world)

    assert first.done == first.planned
    assert first.days(SILVER) == dict.fromkeys((2, 3, 4), "append")
    assert first.days(MART) == dict.fromkeys((2, 3, 4), "rebuild")
    assert first.plan.runs == 1


@pytest.fixture
def shop(world: World, made_once: MadeOnce) -> World:
    """Three days of sales, planned and loaded."""
    return world.as_after(three_days, made_once)


def test_what_is_new_stale_or_named_is_planned_as_it_is_run_and_late_rows_were_said_to_follow(
    shop: World,
) -> None:
    again = runs(shop)
    assert (again.plan.days, again.plan.skipped, again.done) == ((), (), frozenset())
    late = [sale("late", "2017-01-03"), *sales("e", "2017-01-05", 20)]
    shop.land("events", "2017-01-05", "a.jsonl", late)
    shop.land("events", "2017-01-06", "a.jsonl", sales("f", "2017-01-06", 20))

    bronze = runs(shop, BRONZE)
    one_day = runs(shop, days="2017-01-01...2017-01-03")
    rest = runs(shop)

    assert bronze.done == bronze.planned
    assert bronze.may_follow == set()  # no table that it could concern was named
    assert one_day.done == one_day.planned
    assert one_day.days(SILVER) == {3: "merge"}
    assert list(one_day.days(MART)) == [3]
    (merged,) = (day for day in one_day.plan.days if day.table == SILVER)
    assert (merged.rows, merged.is_estimate) == (1, False)
    assert rest.done == rest.planned
    assert rest.days(SILVER) == {5: "append", 6: "append"}
    assert rest.plan.runs == 1  # the two days are neighbours

    later = [sale("later", "2017-01-05"), *sales("g", "2017-01-07", 20)]
    shop.land("events", "2017-01-07", "a.jsonl", later)
    ran = runs(shop)

    assert ran.left_out == set()
    assert ran.days(SILVER) == {7: "append"}
    assert ran.in_addition == {(SILVER, 5), (MART, 5)}
    assert ran.may_follow == {SILVER, MART}
    (landed,) = (day for day in ran.plan.days if day.table == BRONZE)
    assert "about another day" in landed.unknown
    assert (landed.is_estimate, landed.files) == (True, 1)
    assert 15 < (landed.rows or 0) < 25
    assert landed.seconds


@thorough("scenarios/test_plan.py, scenarios/test_gate.py: the plan, and held days")
def test_a_repaired_day_is_rebuilt_and_a_held_one_skipped_with_what_to_do_or_held_again(
    shop: World,
) -> None:
    shop.land("events", "2017-01-03", "a.jsonl", sales("2017-01-03-", "2017-01-03", 19))
    bad = [*sales("b", "2017-01-06", 18), sale(None, "2017-01-06"), sale(None, "2017-01-06")]
    shop.land("events", "2017-01-06", "a.jsonl", bad)
    shop.land("events", "2017-01-07", "a.jsonl", sales("g", "2017-01-07", 20))
    done = runs(shop)
    after = runs(shop)
    shop.land("users", "2017-01-06", "u.jsonl", [{"user_id": "u2", "updated_at": "2017-01-06"}])
    again = runs(shop, "bronze/users", *OF_SALES)

    assert done.days(BRONZE) == done.days(SILVER) == {3: "rebuild", 6: "append", 7: "append"}
    assert done.days(MART) == dict.fromkeys((3, 6, 7), "rebuild")
    assert {day.kind for day in done.plan.days if day.day.day == 3} == {"restate"}
    assert done.left_out == {(MART, 6)}  # what a gate holds nobody can tell before
    assert done.in_addition == set()
    assert "A day that its gate holds is not published" in done.plan.notes[-1]
    assert (after.plan.days, after.done) == ((), frozenset())
    skipped = after.skipped()
    assert set(skipped) == {(SILVER, 6), (MART, 6)}
    assert skipped[SILVER, 6].startswith("held since batch ")
    accept = "incremental-assets gate accept silver/sales 2017-01-06 --reason"
    assert accept in skipped[SILVER, 6]
    assert "silver/sales 2017-01-06 is held" in skipped[MART, 6]

    assert again.done == again.planned
    assert again.days(SILVER) == {6: "append"}
    (judged,) = (day for day in again.plan.days if day.table == SILVER)
    assert "will be held again: quarantined_share: 2 of 20" in judged.reason
    assert set(again.skipped()) == {(MART, 6)}
