"""Advancing: what is new is loaded, once, into its own days and no others."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import polars as pl
from deltalake import DeltaTable

from incremental_assets_tests.scenarios.world import OF_SALES, WITH_USERS, World, sale, sales
from incremental_assets_tests.thorough import thorough

DAYS = [f"2017-01-0{number}" for number in range(2, 7)]
TIMES = {"before": "08:00", "at": "10:30", "between": "10:00", "after": "23:00"}


@thorough("scenarios/test_cost.py: what is loaded twice is idle, and no version changes")
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


@thorough("scenarios/test_order_free.py: a correction that is loaded before what it corrects")
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


def land_shop(world: World) -> None:
    """Sales of five days, two users with versions, one of the moment, and one without any."""
    for day in DAYS:
        rows = [sale(f"{day} {name}", day, user_id=name) for name in ("u1", "u2")]
        world.land("events", day, "a.jsonl", rows)
    timed = [
        sale(k, "2017-01-04", user_id="u3", event_ts=f"2017-01-04T{t}:00Z")
        for k, t in TIMES.items()
    ]
    others = [
        sale("stranger", "2017-01-04", user_id="nobody"),
        sale("u4", "2017-01-02", user_id="u4"),
    ]
    world.land("events", "2017-01-04", "timed.jsonl", timed)
    world.land("events", "2017-01-04", "others.jsonl", others)
    first = [user("u1", "01T00:00:00", "low"), user("u2", "01T00:00:00", "low")]
    world.land("users", "2017-01-02", "a.jsonl", first)
    two = [user("u3", "04T09:00:00", "low"), user("u3", "04T10:30:00", "high")]
    world.land("users", "2017-01-04", "a.jsonl", two)
    world.land("users", "2017-01-06", "wrong.jsonl", [user("u1", "05T00:00:00", "wrong")])
    world.land("users", "2017-01-06", "right.jsonl", [user("u2", "04T00:00:00", "high")])


@thorough("scenarios/test_join.py, scenarios/test_looked_up_meanwhile.py: days that it makes stale")
def test_a_sale_looks_up_the_user_version_of_its_time_and_a_new_one_makes_stale_just_its_days(
    world: World,
) -> None:
    world = world.of(*WITH_USERS)
    land_shop(world)
    world.load(f"{DAYS[0]}...{DAYS[-1]}")

    def incomes() -> dict[str, str | None]:
        return dict(world.rows("gold/sales_mart").select("order_id", "user_income").iter_rows())

    def of(name: str) -> list[str | None]:
        found = incomes()
        return [found[f"{day} {name}"] for day in DAYS]

    found = incomes()
    # A version holds from its time, the first one also before it.
    assert {name: found[name] for name in TIMES} == {
        "before": "low",
        "between": "low",
        "at": "high",
        "after": "high",
    }
    assert (found["stranger"], found["u4"]) == (None, None)
    assert of("u1") == ["low", "low", "low", "wrong", "wrong"]
    assert of("u2") == ["low", "low", "high", "high", "high"]

    # A late version holds until the next one, the first one of a user reaches back, and a file
    # that is repaired takes its version back.
    world.land("users", "2017-01-06", "late.jsonl", [user("u2", "03T00:00:00", "middle")])
    world.land("users", "2017-01-09", "a.jsonl", [user("u4", "09T00:00:00", "low")])
    world.land("users", "2017-01-06", "wrong.jsonl", [user("u1", "06T00:00:00", "right")])
    world.load("2017-01-06...2017-01-09", "bronze/users", "silver/users")

    changed = ["2017-01-02", "2017-01-03", "2017-01-05", "2017-01-06"]
    assert world.stale() == {"gold/sales_mart": changed}
    world.load_stale()
    assert of("u1") == ["low", "low", "low", "low", "right"]
    assert of("u2") == ["low", "middle", "high", "high", "high"]
    assert incomes()["u4"] == "low"


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
    side_table = world.path(f"{name}/_beside")
    if not DeltaTable.is_deltatable(side_table):
        return []
    rows = pl.read_delta(side_table).filter(pl.col("_why") == "lost by its hash alone")
    key = "order_id" if "order_id" in rows.columns else "user_id"
    return sorted((r[key], str(r["dt"])) for r in rows.iter_rows(named=True))


def test_versions_that_only_their_hash_tells_apart_are_decided_alike_in_any_order_and_written_down(
    world: World,
) -> None:
    world = world.of("bronze/events", "silver/sales")
    first, second, third = (sale("o1", "2017-01-05", qty=qty) for qty in (1, 2, 3))
    later = sale("o2", "2017-01-05", arrival_ts="2017-01-05T11:00:00Z")
    rows = [first, second, sale("o2", "2017-01-05"), later]
    world.land("events", "2017-01-05", "a.jsonl", rows)
    world.load("2017-01-05")
    assert lost(world) == [("o1", "2017-01-05")]  # the first load of a day

    world.land("events", "2017-01-05", "b.jsonl", [third])
    world.load("2017-01-05")
    assert lost(world) == [("o1", "2017-01-05")] * 2  # a merge into it
    merged = world.rows("silver/sales")
    sales_table = world.tables["silver/sales"]
    world.lakehouse.restate(sales_table, [date(2017, 1, 5)], "all versions at once")
    assert world.rows("silver/sales").equals(merged)
    assert lost(world) == [("o1", "2017-01-05")] * 2

    world.land("events", "2017-01-05", "b.jsonl", [sale("o3", "2017-01-05")])
    world.load("2017-01-05")
    assert lost(world) == [("o1", "2017-01-05")]  # restated: only what is still said
    assert world.orders() == {"o1", "o2", "o3"}


@thorough(
    "scenarios/test_advance.py, feeds/test_change_log.py: sales of one instant, and events of a "
    "log of one position"
)
def test_versions_of_a_user_of_one_moment_are_written_down_wherever_they_landed(
    world: World,
) -> None:
    world.land("users", "2017-01-05", "a.jsonl", [user("u1", "05T10:00:00", "low")])
    world.land("users", "2017-01-06", "a.jsonl", [user("u1", "05T10:00:00", "high")])
    world.load("2017-01-05...2017-01-06", "bronze/users")
    for day in ("2017-01-05", "2017-01-06"):
        world.load(day, "silver/users")

    assert len(world.rows("silver/users")) == 1
    assert [user for user, _ in lost(world, "silver/users")] == ["u1"]
    columns = world.frame("silver/users").columns
    assert not {"_conflict", "_deleted", "_to_delete"} & set(columns)
