"""The shop's tables against a full rebuild: equal after any loads, and every loss is found."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from incremental_assets.days import DayRange, parse_days
from incremental_assets.errors import DefinitionError
from incremental_assets.verifying import Verified, verify
from incremental_assets_tests.scenarios.world import TABLES, World, sale, sales
from incremental_assets_tests.thorough import thorough
from incremental_assets_tests.verifying.lakes import (
    change,
    days_of,
    double,
    everything_in,
    found_by_day,
    left_out,
    lose_lines,
    remove,
)

LOADED = ("bronze/events", "bronze/users", "silver/sales", "silver/users", "gold/sales_mart")


def verified(world: World, name: str, days: str = "") -> Verified:
    return verify(world.lakehouse, TABLES[name], parse_days(days) if days else None)


def land_days(world: World) -> None:
    """Three days with a bad row each, corrections, a late row, and users that change."""
    for number in (2, 3, 4):
        day, before = f"2017-01-{number:02d}", f"2017-01-{number - 1:02d}"
        rows: list[dict[str, object] | str] = [*sales(f"{number}-", day, 25), '{"half"']
        if number > 2:
            rows += [sale(f"late{number}", before, user_id="u2")]
            rows += [sale(f"{number - 1}-1", before, qty=9, arrival_ts=f"{day}T00:00:00Z")]
            rows += [sale(f"{number - 1}-2", before)]
        world.land("events", day, "a.jsonl", rows)
        version = {"user_id": f"u{number % 2 + 1}", "updated_at": f"{day}T12:00:00Z", "x": day}
        world.land("users", day, "u.jsonl", [version])


def loaded(world: World) -> World:
    """Loaded out of order, with late rows and a file that was repaired."""
    land_days(world)
    wrong = world.land("events", "2017-01-03", "b.jsonl", sales("wrong", "2017-01-03", 3))
    world.load("2017-01-04", "bronze/events", "silver/sales")
    world.load("2017-01-02...2017-01-04", *LOADED)
    world.land("events", "2017-01-03", wrong.name, [sale("right", "2017-01-02")])
    world.load("2017-01-03", "bronze/events")
    world.load("2017-01-02...2017-01-04", "silver/sales", "gold/sales_mart")
    return world


def spoil_sales(world: World) -> None:
    path = world.path("silver/sales")
    remove(path, "order_id = 'late4'")
    change(path, "order_id = '2-7'", qty="7", store_id="NULL")
    double(path, "order_id=4-3")
    remove(world.path("quarantine/silver_sales"), "_day = '2017-01-04'")


@thorough("verifying/test_kinds.py, scenarios/test_order_free.py: kind by kind, and any order")
def test_what_was_loaded_in_any_order_is_equal_but_for_each_thing_that_is_spoilt(
    world: World,
) -> None:
    loaded(world)
    spoil_sales(world)
    before = everything_in(world.settings.lake)

    found = verified(world, "silver/sales")

    assert (found.rows.rows > 70, found.quarantine.rows, found.left_out) == (True, 3, {})
    assert days_of(found) == ["2017-01-02", "2017-01-03", "2017-01-04"]
    assert found_by_day(found.rows) == {
        "2017-01-02": (0, 0, 1),
        "2017-01-03": (1, 0, 0),
        "2017-01-04": (0, 1, 0),
    }
    assert found.rows.columns == {"qty": 1, "store_id": 1}
    assert found.rows.examples == (
        "2017-01-02: different order_id=2-7, dt=2017-01-02",
        "2017-01-03: missing order_id=late4, dt=2017-01-03",
        "2017-01-04: extra order_id=4-3, dt=2017-01-04",
    )
    assert found_by_day(found.quarantine) == {"2017-01-04": (1, 0, 0)}
    assert any(note.startswith("2017-01-03 was last loaded by batch ") for note in found.notes)

    # Gold is what bronze says; once it is made of the spoilt silver it is not.
    gold = verified(world, "gold/sales_mart")
    assert (gold.equal, gold.rows.rows > 70, gold.left_out) == (True, True, {})
    assert everything_in(world.settings.lake) == before
    world.lakehouse.restate(
        TABLES["gold/sales_mart"], [date(2017, 1, 3)], "to build on what is there"
    )
    spoilt = verified(world, "gold/sales_mart", "2017-01-03")
    assert found_by_day(spoilt.rows) == {"2017-01-03": (1, 0, 0)}
    assert spoilt.rebuilt == {"silver/sales": 1, "silver/users": 3, "gold/sales_mart": 1}


def test_a_lost_line_of_bronze_is_found_and_missing_files_are_named(world: World) -> None:
    land_days(world)
    world.land("events", "2017-01-03", "b.jsonl", sales("b", "2017-01-03", 3))
    world.load("2017-01-02...2017-01-04", "bronze/events")
    path, spark = world.path("bronze/events"), world.lakehouse.spark()
    lose_lines(spark, path, "variant_get(payload, '$.order_id', 'string') = 'late3'")

    found = verified(world, "bronze/events")

    assert found_by_day(found.rows) == {"2017-01-03": (1, 0, 0)}
    assert found.rows.examples == ("2017-01-03: missing _file=events/2017-01-03/a.jsonl",)

    folder = Path(world.settings.landing) / "events"
    (folder / "2017-01-03/a.jsonl").unlink()
    world.land("events", "2017-01-04", "a.jsonl", sales("other", "2017-01-04", 2))
    world.land("events", "2017-01-02", "new.jsonl", sales("new", "2017-01-02", 2))
    found = verified(world, "bronze/events")

    assert found.equal
    assert days_of(found) == ["2017-01-02", "2017-01-03"]
    assert left_out(found) == {
        "2017-01-04": "stale: events/2017-01-04/a.jsonl are no longer in the landing, or have changed"
    }
    assert found.notes == (
        "2017-01-02: events/2017-01-02/new.jsonl are not loaded yet",
        "2017-01-03: rows of events/2017-01-03/a.jsonl are not compared: removed, or changed",
    )


def test_days_that_are_stale_or_held_are_left_out_and_a_load_meanwhile_disturbs_nothing(
    world: World,
) -> None:
    land_days(world)
    world.load("2017-01-02...2017-01-04", "bronze/events", "silver/sales", "gold/sales_mart")
    world.land("events", "2017-01-04", "later.jsonl", [sale("later", "2017-01-03")])
    bad = [*sales("5-", "2017-01-05", 8), *(sale(None, "2017-01-05") for _ in range(2))]
    world.land("events", "2017-01-05", "a.jsonl", bad)
    world.load("2017-01-04...2017-01-05", "bronze/events")
    world.load("2017-01-05", "silver/sales")

    mart = verified(world, "gold/sales_mart", "2017-01-03...2017-01-05")
    assert (mart.equal, days_of(mart)) == (True, ["2017-01-03", "2017-01-04"])
    assert left_out(mart)["2017-01-05"].startswith("silver/sales 2017-01-05 is held since batch 2")

    def load_meanwhile(line: str) -> None:
        if line.endswith("is compared with the rebuild"):
            world.land("events", "2017-01-02", "a.jsonl", sales("repaired", "2017-01-02", 25))
            world.load("2017-01-02...2017-01-04", "bronze/events", "silver/sales")

    # A load comes right after the ledger was read, and another one amid the comparison.
    as_it_was, version = world.lakehouse.ledger.view(), world.version("silver/sales")
    world.land("events", "2017-01-02", "more.jsonl", sales("more", "2017-01-02", 2))
    world.load("2017-01-02", "bronze/events", "silver/sales")
    world.lakehouse.log = load_meanwhile
    with pytest.MonkeyPatch.context() as between:
        between.setattr(world.lakehouse.ledger, "view_if_any", lambda: as_it_was)
        found = verified(world, "silver/sales")

    assert (found.equal, days_of(found)) == (True, ["2017-01-02", "2017-01-04"])
    assert (found.rows.rows > 50, found.version) == (True, version)
    stale, held = left_out(found).values()
    assert stale == "stale: it has not read bronze/events batch 2"
    assert held.startswith("held since batch 2: quarantined_share: ")
    assert world.orders() > {"later", "more0", "repaired0"}

    with pytest.raises(DefinitionError, match=r"silver/sales has none of the days 2018-01-01; it"):
        verify(
            world.lakehouse, TABLES["silver/sales"], DayRange(date(2018, 1, 1), date(2018, 1, 1))
        )
    with pytest.raises(DefinitionError, match="gold/customer_orders was never loaded"):
        verified(world, "gold/customer_orders")
