"""Advancing: what is new is loaded, once, into its own days and no others."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
from deltalake import DeltaTable

from incremental_assets_tests.scenarios.world import World, sale, sales


def test_second_load_of_the_same_day_changes_no_version(world: World) -> None:
    world.land("events", "2017-01-05", "a.jsonl", [*sales("o", "2017-01-05", 30), "{"])
    world.land("users", "2017-01-05", "u.jsonl", [{"user_id": "u1", "updated_at": "2017-01-05"}])
    world.load("2017-01-05")
    before = world.versions()

    again = world.load("2017-01-05")

    assert world.versions() == before
    assert {r.state for result in again.values() for r in result.days.values()} == {"idle"}


def test_nothing_landed_is_a_success_that_makes_no_table(world: World) -> None:
    results = world.load("2017-01-05...2017-01-07")

    assert not any(result.failed for result in results.values())
    assert world.versions() == {}


def test_late_row_makes_only_its_own_day_stale_and_changes_only_its_partition(
    world: World,
) -> None:
    for day in ("2017-01-05", "2017-01-06", "2017-01-07"):
        world.land("events", day, "a.jsonl", sales(f"{day}-", day, 20))
    world.load("2017-01-05...2017-01-07")
    tables = ("silver/sales", "gold/sales_mart", "gold/daily_product_sales")
    before = {name: world.day_files(name) for name in tables}

    world.land("events", "2017-01-08", "a.jsonl", [sale("late", "2017-01-06")])
    world.load("2017-01-08")

    assert world.stale() == {"silver/sales": ["2017-01-06"]}
    world.load_stale()
    for name in tables:
        after = world.day_files(name)
        changed = {day for day in after if after[day] != before[name].get(day)}
        assert changed == {"dt=2017-01-06"}, name
    assert "late" in world.orders("gold/sales_mart")


def test_of_two_versions_the_later_arrival_wins_whichever_is_loaded_first(world: World) -> None:
    old = sale("o1", "2017-01-05", qty=1)
    new = sale("o1", "2017-01-05", qty=7, arrival_ts="2017-01-06T08:00:00Z")
    world.land("events", "2017-01-06", "new.jsonl", [new])
    world.load("2017-01-06")
    world.load("2017-01-05")
    world.land("events", "2017-01-05", "old.jsonl", [old])
    world.load("2017-01-05")
    world.load_stale()

    assert world.rows("silver/sales")["qty"].to_list() == [7]
    assert world.rows("gold/sales_mart")["total_price"].to_list() == [Decimal("17.5000")]


def test_equal_arrivals_are_decided_the_same_way_in_any_order(world: World) -> None:
    versions = [sale("o1", "2017-01-05", qty=qty) for qty in (3, 1, 2)]
    world.land("events", "2017-01-05", "together.jsonl", versions)
    world.load("2017-01-05")
    together = world.rows("silver/sales")["qty"].to_list()

    one_by_one = world.another("one_by_one", own_landing=True)
    for position, version in enumerate(reversed(versions)):
        one_by_one.land("events", "2017-01-06", f"{position}.jsonl", [version])
        one_by_one.load("2017-01-05...2017-01-06", "bronze/events")
        one_by_one.load_stale()

    assert one_by_one.rows("silver/sales")["qty"].to_list() == together


def test_user_version_holds_from_its_time_and_the_first_one_before_it(world: World) -> None:
    world.land(
        "users",
        "2017-01-05",
        "u.jsonl",
        [
            {"user_id": "u1", "updated_at": "2017-01-05T09:00:00Z", "income": "low"},
            {"user_id": "u1", "updated_at": "2017-01-05T10:30:00Z", "income": "high"},
        ],
    )
    times = {"before": "08:00", "at": "10:30", "between": "10:00", "after": "23:00"}
    rows = [sale(k, "2017-01-05", event_ts=f"2017-01-05T{t}:00Z") for k, t in times.items()]
    rows.append(sale("stranger", "2017-01-05", user_id="nobody"))
    world.land("events", "2017-01-05", "e.jsonl", rows)
    world.load("2017-01-05")

    mart = world.rows("gold/sales_mart")
    income = dict(zip(mart["order_id"], mart["user_income"], strict=True))
    assert income == {
        "before": "low",
        "between": "low",
        "at": "high",
        "after": "high",
        "stranger": None,
    }


def test_new_user_version_makes_stale_just_the_days_whose_sales_look_it_up(world: World) -> None:
    first = {"user_id": "u1", "updated_at": "2017-01-01T00:00:00Z", "income": "low"}
    world.land("users", "2017-01-01", "u.jsonl", [first])
    for day in ("2017-01-02", "2017-01-04", "2017-01-05"):
        world.land("events", day, "e.jsonl", [sale(day, day)])
    world.land("events", "2017-01-06", "e.jsonl", [sale("other", "2017-01-06", user_id="u2")])
    world.load("2017-01-01...2017-01-06")

    late = {"user_id": "u1", "updated_at": "2017-01-04T00:00:00Z", "income": "high"}
    world.land("users", "2017-01-06", "late.jsonl", [late])
    world.load("2017-01-06", "bronze/users", "silver/users")

    assert world.stale() == {"gold/sales_mart": ["2017-01-04", "2017-01-05"]}
    world.load_stale()
    mart = world.rows("gold/sales_mart").filter(pl.col("user_id") == "u1")
    assert mart["user_income"].to_list() == ["low", "high", "high"]


def test_first_version_of_a_user_reaches_back_to_sales_before_it(world: World) -> None:
    world.land("users", "2017-01-02", "u.jsonl", [{"user_id": "x", "updated_at": "2017-01-02"}])
    world.land("events", "2017-01-02", "e.jsonl", [sale("o1", "2017-01-02")])
    world.load("2017-01-02")

    first = {"user_id": "u1", "updated_at": "2017-01-09T00:00:00Z", "income": "low"}
    world.land("users", "2017-01-09", "u.jsonl", [first])
    world.load("2017-01-09")

    assert world.stale() == {"gold/sales_mart": ["2017-01-02"]}
    world.load_stale()
    assert world.rows("gold/sales_mart")["user_income"].to_list() == ["low"]


def test_field_that_nobody_declared_becomes_a_column_and_old_days_have_null(world: World) -> None:
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 2))
    world.load("2017-01-05")
    rows = [sale("b", "2017-01-06", channel="web", nested={"x": 1}, ORDER_ID="no", **{"a b": 1})]
    world.land("events", "2017-01-06", "a.jsonl", rows)
    world.load("2017-01-06")

    silver = world.rows("silver/sales")
    assert silver["channel"].to_list() == [None, None, "web"]
    assert silver["nested"].to_list() == [None, None, '{"x":1}']
    assert not {"ORDER_ID", "a b"} & set(silver.columns)
    assert world.rows("gold/sales_mart")["channel"].to_list() == [None, None, "web"]


def test_bronze_keeps_every_line_and_file_names_may_hold_anything(world: World) -> None:
    names = ["a [1]{x}*?.jsonl", "b%20#+&=.jsonl", "ü.jsonl", "deep/er/c.jsonl"]
    for name in names:
        world.land("events", "2017-01-05", name, [sale(name, "2017-01-05")])
    world.land("events", "2017-01-05", "_SUCCESS", ["not data"])
    world.land("events", "2017-01-05", ".hidden", ["not data"])
    world.load("2017-01-05")

    entry = world.lakehouse.ledger.view().table("bronze/events").committed[0]
    assert sorted(f.path for f in entry.files) == sorted(f"events/2017-01-05/{n}" for n in names)
    assert world.orders() == set(names)
    stored = pl.read_delta(world.path("silver/sales"))["_file"].to_list()
    assert sorted(stored) == sorted(f"events/2017-01-05/{n}" for n in names)


def test_a_repaired_user_file_makes_only_the_days_stale_that_look_up_another_version(
    world: World,
) -> None:
    def user(name: str, day: str, income: str) -> dict[str, str]:
        return {"user_id": name, "updated_at": f"{day}T00:00:00Z", "income": income}

    for day in ("2017-01-04", "2017-01-05", "2017-01-06"):
        rows = [sale(f"{day}-1", day), sale(f"{day}-2", day, user_id="u2")]
        world.land("events", day, "a.jsonl", rows)
    first = [user("u1", "2017-01-01", "low"), user("u2", "2017-01-01", "low")]
    world.land("users", "2017-01-04", "a.jsonl", first)
    wrong = [user("u1", "2017-01-05", "wrong"), user("u2", "2017-01-06", "high")]
    world.land("users", "2017-01-06", "a.jsonl", wrong)
    world.load("2017-01-04...2017-01-06")
    world.load_stale()

    repaired = [user("u1", "2017-01-06", "right"), user("u2", "2017-01-06", "high")]
    world.land("users", "2017-01-06", "a.jsonl", repaired)
    world.load("2017-01-06", "bronze/users", "silver/users")

    assert world.stale() == {"gold/sales_mart": ["2017-01-05", "2017-01-06"]}
    world.load_stale()
    mart = world.rows("gold/sales_mart").filter(pl.col("user_id") == "u1")
    assert mart["user_income"].to_list() == ["low", "low", "right"]


def lost(world: World, name: str = "silver/sales") -> list[tuple[str, str]]:
    """Key and day of the versions that only their hash made lose."""
    beside = world.path(f"{name}/_beside")
    if not DeltaTable.is_deltatable(beside):
        return []
    rows = pl.read_delta(beside).filter(pl.col("_why") == "lost by its hash alone")
    key = "order_id" if "order_id" in rows.columns else "user_id"
    return sorted((r[key], str(r["dt"])) for r in rows.iter_rows(named=True))


def test_versions_that_only_their_hash_tells_apart_are_written_down(world: World) -> None:
    same_moment = [sale("o1", "2017-01-05", qty=qty) for qty in (1, 2)]
    later = sale("o2", "2017-01-05", arrival_ts="2017-01-05T11:00:00Z")
    world.land("events", "2017-01-05", "a.jsonl", [*same_moment, sale("o2", "2017-01-05"), later])
    world.load("2017-01-05", "bronze/events", "silver/sales")
    assert lost(world) == [("o1", "2017-01-05")]  # the first load of a day

    world.land("events", "2017-01-05", "b.jsonl", [sale("o1", "2017-01-05", qty=3)])
    world.load("2017-01-05", "bronze/events", "silver/sales")
    assert lost(world) == [("o1", "2017-01-05")] * 2  # a merge into it

    world.land("events", "2017-01-05", "b.jsonl", [sale("o3", "2017-01-05")])
    world.load("2017-01-05", "bronze/events", "silver/sales")
    assert lost(world) == [("o1", "2017-01-05")]  # restated: only what is still said
    assert world.orders() == {"o1", "o2", "o3"}


def test_versions_of_a_user_of_one_moment_are_written_down_wherever_they_landed(
    world: World,
) -> None:
    def user(income: str) -> dict[str, str]:
        return {"user_id": "u1", "updated_at": "2017-01-05T10:00:00Z", "income": income}

    world.land("users", "2017-01-05", "a.jsonl", [user("low")])
    world.land("users", "2017-01-06", "a.jsonl", [user("high")])
    world.load("2017-01-05", "bronze/users", "silver/users")
    world.load("2017-01-06", "bronze/users", "silver/users")

    assert len(world.rows("silver/users")) == 1
    assert [user for user, _ in lost(world, "silver/users")] == ["u1"]
    columns = world.frame("silver/users").columns
    assert not {"_conflict", "_deleted", "_to_delete"} & set(columns)
