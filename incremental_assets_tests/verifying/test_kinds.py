"""Every kind of table against a full rebuild, after loads in no order."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest

from incremental_assets.changes import ChangeLog, Timestamp
from incremental_assets.errors import DefinitionError
from incremental_assets.operations.accept import accept
from incremental_assets.operations.quarantined import QuarantineFilter, drop
from incremental_assets.retail.gold.customer_orders import CUSTOMER_ORDERS
from incremental_assets.retail.gold.inventory_levels import INVENTORY_LEVELS
from incremental_assets.sources.stored import Stored
from incremental_assets.verifying import Verified, verify
from incremental_assets.writes import SCD2
from incremental_assets_tests.feeds import test_change_log as log
from incremental_assets_tests.feeds import test_snapshots as copies
from incremental_assets_tests.feeds.test_accept import RULES
from incremental_assets_tests.feeds.test_append import TYPED, VISITS, visit
from incremental_assets_tests.feeds.test_keys import order, put_moves, put_orders, tables_of
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough
from incremental_assets_tests.verifying.conftest import Lakes
from incremental_assets_tests.verifying.lakes import (
    change,
    day,
    days_of,
    double,
    found_by_day,
    left_out,
    lose_lines,
    remove,
)


def verified(lake: Lake, name: str) -> Verified:
    return verify(lake.lakehouse, lake.tables[name])


def all_equal(lake: Lake) -> dict[str, Verified]:
    """What was verified, by the table's name."""
    all_found = {name: verified(lake, name) for name in lake.tables}
    for name, found in all_found.items():
        assert found.equal, f"{name}: {found}"
        assert found.rows.rows, name
        assert found.left_out == {}, name
    return all_found


@thorough("verifying/test_kinds.py, feeds/test_keys.py: other tables, and the totals themselves")
def test_totals_by_key_over_a_source_that_overwrites_its_rows(lake: Lakes) -> None:
    shop = lake(*tables_of(CUSTOMER_ORDERS))
    first = [
        order("a", "u1", "05 10:00"),
        order("bb", "u1", "05 11:00"),
        order("c", "u2", "06 09:00"),
    ]
    put_orders(shop, *first)
    shop.load("2017-01-05...2017-01-06")
    moved = order("bb", "u2", "07 09:00", amount="2.50")
    put_orders(shop, first[0], moved, first[2], order("e", "u3", "07 10:00", "cancelled"))
    shop.load("2017-01-05...2017-01-07")
    shop.load_stale()

    change(shop.path("gold/customer_orders"), "user_id = 'u2'", value="cast(1 AS DECIMAL(28,4))")
    found = verified(shop, "gold/customer_orders")
    assert (found_by_day(found.rows), found.rows.columns) == (
        {"2017-01-05": (0, 0, 1)},
        {"value": 1},
    )
    assert found.rows.examples == ("2017-01-05: different user_id=u2, dt=2017-01-05",)
    assert (found.rows.rows, found.left_out) == (len(shop.frame("gold/customer_orders")), {})

    # A row that came below the watermark is what reading by a timestamp passes over.
    bronze, *others = shop.tables.values()
    hasty = shop.with_tables(replace(bronze, changes=Timestamp("updated_at")), *others)
    last = order("e", "u3", "07 10:00", "cancelled")
    put_orders(hasty, first[0], moved, first[2], last, order("late", "u9", "07 08:00"))
    hasty.load("2017-01-07", "bronze/orders")
    found = verified(hasty, "bronze/orders")
    assert found_by_day(found.rows) == {"2017-01-07": (1, 0, 0)}
    assert found.notes[0] == "not compared: 1 row no longer at the source"

    put_orders(shop, *first)
    found = verified(shop, "bronze/orders")
    assert left_out(found)["2017-01-07"].startswith("stale: ")


@thorough("verifying/test_retail.py, verifying/test_kinds.py: other tables of gold")
def test_running_levels_over_a_sequence_and_what_a_stale_day_spoils(lake: Lakes) -> None:
    stock = lake(*tables_of(INVENTORY_LEVELS))
    put_moves(stock, 0, 1, 2)
    stock.load("2017-01-07")
    stock.load("2017-01-05")
    put_moves(stock, 3)
    stock.load("2017-01-05...2017-01-07")
    stock.load_stale()
    all_equal(stock)

    path = stock.path("gold/inventory_levels")
    change(path, "dt = '2017-01-06' AND product_id = 'p'", level="level + 1")
    found = verified(stock, "gold/inventory_levels")
    assert found_by_day(found.rows) == {"2017-01-06": (0, 0, 1)}
    assert found.rows.columns == {"level": 1}

    remove(stock.path("silver/inventory_movements"), "dt = '2017-01-05' AND product_id = 'p'")
    silver = verified(stock, "silver/inventory_movements")
    assert set(found_by_day(silver.rows)) == {"2017-01-05"}
    assert silver.rows.differences == sum(d.missing for d in silver.rows.days)


def users_with_deletes(lake: Lakes) -> tuple[Lake, list[dict[str, object]]]:
    """Users whose events land on three days; the events of the 6th, which nobody has landed."""
    users = log.flat(lake, SCD2(), rules=RULES[1:])
    users.land("users", "2017-01-05", "1.jsonl", [log.event("INSERT", 1, 1, name="A")])
    users.land(
        "users", "2017-01-07", "1.jsonl", [log.event("DELETE", 9, 1), log.event("INSERT", 8, 2)]
    )
    return users, [log.event("UPDATE", 5, 1, name="B"), log.event("INSERT", 1, 1, name="A")]


@thorough("verifying/test_kinds.py: the same in order, of which one version is spoilt")
def test_scd2_of_a_log_whose_late_day_is_loaded_first(lake: Lakes) -> None:
    users, late = users_with_deletes(lake)
    users.land("users", "2017-01-06", "1.jsonl", late)
    users.load("2017-01-06...2017-01-07")
    users.load("2017-01-05")

    all_equal(users)


def test_scd2_of_a_log_with_deletes(lake: Lakes) -> None:
    users, late = users_with_deletes(lake)
    users.load("2017-01-05...2017-01-07")
    users.land("users", "2017-01-06", "1.jsonl", late)
    users.load("2017-01-06")

    # What a day has not read yet would end the version of another day.
    users.land("users", "2017-01-05", "2.jsonl", [log.event("UPDATE", 7, 1, name="C")])
    users.load("2017-01-05", "bronze/users")
    change(users.path("silver/users"), "id = 2", valid_to="CAST(10 AS BIGINT)")
    found = verified(users, "silver/users")
    assert (found.rows.columns, found.rows.examples) == (
        {"valid_to": 1},
        ("2017-01-07: different id=2, valid_from=8",),
    )
    assert left_out(found) == {"2017-01-05": "stale: it has not read bronze/users batch 3"}
    assert days_of(found) == ["2017-01-06", "2017-01-07"]

    # Bronze is repaired, and nobody has read it yet: what silver is made of is no more.
    users.land("users", "2017-01-06", "1.jsonl", late[:1])
    users.load("2017-01-06", "bronze/users")
    found = verified(users, "silver/users")
    assert (found.rebuilt, set(left_out(found))) == ({}, {"2017-01-05", "2017-01-06", "2017-01-07"})
    assert left_out(found)["2017-01-06"] == "stale: bronze/users batch 4 repaired what it had read"


def test_snapshots_of_a_catalogue_of_which_one_is_missing(lake: Lakes) -> None:
    shop = lake(copies.tables(SCD2(), max_deleted_share=1.0)[0])
    snapshots = {}
    for number, names in ((4, "ab"), (5, "abc"), (6, "ac"), (7, "acd"), (8, "cd")):
        rows = copies.copy(**{name: f"{name}{number // 6}" for name in names})
        snapshots[number] = shop.land("products", f"2017-01-0{number}", "1.jsonl", rows)
    for days in ("2017-01-04", "2017-01-07", "2017-01-05...2017-01-08"):
        shop.load(days)
    all_equal(shop)

    snapshots[6].unlink()
    lose_lines(
        shop.spark, shop.path("bronze/products"), "_landing_day = '2017-01-08' AND _key LIKE '%a%'"
    )
    found = verified(shop, "bronze/products")
    assert days_of(found) == ["2017-01-04", "2017-01-05", "2017-01-08"]
    assert left_out(found)["2017-01-07"] == (
        "the snapshot of 2017-01-06, which it is compared with, was not loaded again"
    )
    assert found_by_day(found.rows) == {"2017-01-08": (1, 0, 0)}


@thorough("verifying/test_kinds.py: a snapshot that is missing")
def test_one_snapshot_that_is_overwritten_cannot_be_rebuilt(lake: Lakes) -> None:
    shop = lake(*copies.tables(SCD2(), Stored("products")))
    shop.put_delta("products", pl.DataFrame({"sku": ["a"], "name": ["A"], "price": [1.5]}))
    shop.load("2017-01-10")

    with pytest.raises(DefinitionError, match="bronze/products cannot be rebuilt: each snapshot"):
        verified(shop, "bronze/products")
    assert verified(shop, "silver/products").equal


def test_a_log_without_a_day_of_its_own_lands_on_the_day_of_the_load(lake: Lakes) -> None:
    users = lake(log.tables(SCD2(), ChangeLog(), Stored("log"))[0])
    users.land("log", "", "1.jsonl", [log.event("INSERT", 1, 1, name="A")])
    users.load("2017-01-10")
    users.now += timedelta(days=1)
    users.land("log", "", "2.jsonl", [log.event("UPDATE", 5, 1, name="B")])
    users.load("2017-01-11")

    def next_day(line: str) -> None:
        if "takes about" in line:
            users.now += timedelta(days=1)

    users.lakehouse.log = next_day
    found = verified(users, "bronze/users")

    assert (found.equal, days_of(found)) == (True, ["2017-01-10", "2017-01-11"])
    assert (found.rows.rows, found.rows.not_judged, found.rebuilt) == (2, 0, {"bronze/users": 1})

    users.lakehouse.log = print
    lose_lines(users.spark, users.path("bronze/users"), "_landing_day = '2017-01-11'")
    assert sum(d.missing for d in verified(users, "bronze/users").rows.days) == 1


def test_rows_without_a_key_and_days_that_were_accepted_or_dropped(lake: Lakes) -> None:
    web = lake(VISITS, TYPED, landed("bookings"), bookings(*RULES))
    web.land("visits", "2017-01-05", "1.jsonl", [visit("a"), visit("a"), visit("b"), visit(None)])
    web.land("visits", "2017-01-06", "1.jsonl", [visit("late"), visit("c", "06")])
    rows = [booking("a", "1"), booking("b", "2", "t2"), booking("c", "3", "nowhere")]
    web.land("bookings", DAY, "1.jsonl", rows)
    web.load("2017-01-05...2017-01-06")
    accept(web.lakehouse, web.tables["silver/bookings"], day(5), "a new station")
    web.load(DAY, "silver/bookings")

    found = verified(web, "silver/bookings")
    assert (found.equal, found.rows.rows, found.quarantine.rows, found.notes) == (True, 2, 1, ())

    double(web.path("silver/visits"), "page=b")
    drop(web.lakehouse, web.tables["silver/visits"], QuarantineFilter(), "seen")
    found = verified(web, "silver/visits")
    assert found_by_day(found.rows) == {"2017-01-05": (0, 1, 0)}
    assert (found.rows.rows, found.rows.columns, found.quarantine.rows) == (6, {}, 0)
    assert (
        found.notes[0]
        == "quarantine of 2017-01-05 is not compared: rows were dropped, or have expired"
    )
