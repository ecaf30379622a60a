"""Advancing: what is new is loaded, once, into its own days and no others."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
from deltalake import DeltaTable

from incremental_assets_tests.scenarios.world import OF_SALES, WITH_USERS, World, sale, sales


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


def test_of_two_versions_the_later_arrival_wins_whichever_is_loaded_first(world: World) -> None:
    world = world.of(*OF_SALES)
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


def user(name: str, at: str, income: str) -> dict[str, str]:
    """A version of a user, from a time of January 2017."""
    return {"user_id": name, "updated_at": f"2017-01-{at}Z", "income": income}


def test_a_sale_looks_up_the_user_version_of_its_time_and_a_new_one_makes_stale_just_its_days(
    world: World,
) -> None:
    world = world.of(*WITH_USERS)
    days = ("2017-01-04", "2017-01-05", "2017-01-06")
    for day in days:
        rows = [sale(f"{day} {name}", day, user_id=name) for name in ("u1", "u2")]
        world.land("events", day, "a.jsonl", rows)
    times = {"before": "08:00", "at": "10:30", "between": "10:00", "after": "23:00"}
    timed = [
        sale(k, "2017-01-05", user_id="u3", event_ts=f"2017-01-05T{t}:00Z")
        for k, t in times.items()
    ]
    others = [
        sale("stranger", "2017-01-04", user_id="nobody"),
        sale("u4", "2017-01-04", user_id="u4"),
    ]
    world.land("events", "2017-01-05", "timed.jsonl", timed)
    world.land("events", "2017-01-04", "others.jsonl", others)
    first = [user("u1", "01T00:00:00", "low"), user("u2", "01T00:00:00", "low")]
    world.land("users", "2017-01-04", "a.jsonl", first)
    two = [user("u3", "05T09:00:00", "low"), user("u3", "05T10:30:00", "high")]
    world.land("users", "2017-01-05", "a.jsonl", two)
    wrong = [user("u1", "05T00:00:00", "wrong"), user("u2", "06T00:00:00", "high")]
    world.land("users", "2017-01-06", "a.jsonl", wrong)
    world.load("2017-01-04...2017-01-06")

    def incomes() -> dict[str, str | None]:
        return dict(world.rows("gold/sales_mart").select("order_id", "user_income").iter_rows())

    def of(name: str) -> list[str | None]:
        return [incomes()[f"{day} {name}"] for day in days]

    def after(day: str, name: str, *versions: dict[str, str]) -> list[str]:
        """The days that users make stale, and nothing else; they are loaded then."""
        world.land("users", day, name, versions)
        world.load(day, "bronze/users", "silver/users")
        ((table, stale),) = world.stale().items()
        assert table == "gold/sales_mart"
        world.load_stale()
        return stale

    found = incomes()
    # A version holds from its time, the first one also before it.
    assert {name: found[name] for name in times} == {
        "before": "low",
        "between": "low",
        "at": "high",
        "after": "high",
    }
    assert (found["stranger"], found["u4"]) == (None, None)
    assert (of("u1"), of("u2")) == (["low", "wrong", "wrong"], ["low", "low", "high"])

    # A late version, until the next one.
    late = user("u2", "05T00:00:00", "middle")
    assert after("2017-01-06", "late.jsonl", late) == ["2017-01-05"]
    assert of("u2") == ["low", "middle", "high"]

    # The first version of a user reaches back.
    assert after("2017-01-09", "a.jsonl", user("u4", "09T00:00:00", "low")) == ["2017-01-04"]
    assert incomes()["u4"] == "low"

    # A repaired file.
    right = [user("u1", "06T00:00:00", "right"), user("u2", "06T00:00:00", "high")]
    assert after("2017-01-06", "a.jsonl", *right) == ["2017-01-05", "2017-01-06"]
    assert of("u1") == ["low", "low", "right"]
    assert of("u2") == ["low", "middle", "high"]


def test_field_that_nobody_declared_becomes_a_column_and_old_days_have_null(world: World) -> None:
    world = world.of(*OF_SALES)
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
    world = world.of("bronze/events", "silver/sales")
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


def lost(world: World, name: str = "silver/sales") -> list[tuple[str, str]]:
    """Key and day of the versions that only their hash made lose."""
    beside = world.path(f"{name}/_beside")
    if not DeltaTable.is_deltatable(beside):
        return []
    rows = pl.read_delta(beside).filter(pl.col("_why") == "lost by its hash alone")
    key = "order_id" if "order_id" in rows.columns else "user_id"
    return sorted((r[key], str(r["dt"])) for r in rows.iter_rows(named=True))


def test_versions_that_only_their_hash_tells_apart_are_decided_alike_in_any_order_and_written_down(
    world: World,
) -> None:
    world = world.of("bronze/events", "silver/sales")
    versions = [sale("o1", "2017-01-05", qty=qty) for qty in (3, 1, 2)]
    together = world.another("together", own_landing=True)
    together.land("events", "2017-01-05", "a.jsonl", versions)
    together.load("2017-01-05")
    assert len(lost(together)) == 2

    third, first, second = versions
    later = sale("o2", "2017-01-05", arrival_ts="2017-01-05T11:00:00Z")
    rows = [first, second, sale("o2", "2017-01-05"), later]
    world.land("events", "2017-01-05", "a.jsonl", rows)
    world.load("2017-01-05")
    assert lost(world) == [("o1", "2017-01-05")]  # the first load of a day

    world.land("events", "2017-01-05", "b.jsonl", [third])
    world.load("2017-01-05")
    assert lost(world) == [("o1", "2017-01-05")] * 2  # a merge into it
    quantities = dict(world.rows("silver/sales").select("order_id", "qty").iter_rows())
    assert [quantities["o1"]] == together.rows("silver/sales")["qty"].to_list()

    world.land("events", "2017-01-05", "b.jsonl", [sale("o3", "2017-01-05")])
    world.load("2017-01-05")
    assert lost(world) == [("o1", "2017-01-05")]  # restated: only what is still said
    assert world.orders() == {"o1", "o2", "o3"}


def test_versions_of_a_user_of_one_moment_are_written_down_wherever_they_landed(
    world: World,
) -> None:
    world.land("users", "2017-01-05", "a.jsonl", [user("u1", "05T10:00:00", "low")])
    world.land("users", "2017-01-06", "a.jsonl", [user("u1", "05T10:00:00", "high")])
    world.load("2017-01-05", "bronze/users", "silver/users")
    world.load("2017-01-06", "bronze/users", "silver/users")

    assert len(world.rows("silver/users")) == 1
    assert [user for user, _ in lost(world, "silver/users")] == ["u1"]
    columns = world.frame("silver/users").columns
    assert not {"_conflict", "_deleted", "_to_delete"} & set(columns)
