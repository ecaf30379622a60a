"""Late sales: which files of which tables they change, and how one that is too late is let in."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl

from incremental_assets_tests.scenarios.world import OF_SALES, World, sale, sales
from incremental_assets_tests.thorough import thorough

SALES_TABLES = (
    "silver/sales",
    "gold/sales_mart",
    "gold/daily_product_sales",
    "gold/latest_user_events",
)


def test_one_late_sale_changes_its_own_day_of_the_tables_of_sales_and_no_other_file(
    world: World,
) -> None:
    world = world.of("bronze/users", "silver/users", "bronze/events", *SALES_TABLES)
    days = [f"2017-01-0{number}" for number in range(2, 7)]
    world.land("users", days[0], "u.jsonl", [{"user_id": "u1", "updated_at": days[0]}])
    for day in days:
        world.land("events", day, "e.jsonl", sales(f"{day}-", day, 3))
    world.load(f"{days[0]}...{days[-1]}")
    before = {name: world.day_files(name) for name in SALES_TABLES}
    users = world.version("silver/users")
    world.land("events", "2017-01-06", "late.jsonl", [sale("late", "2017-01-03")])

    world.load("2017-01-06")
    assert world.stale() == {"silver/sales": ["2017-01-03"]}
    world.load_stale()

    for name in SALES_TABLES:
        after = world.day_files(name)
        changed = {day for day in after if after[day] != before[name].get(day)}
        assert changed == {"dt=2017-01-03"}, name
    assert "late" in world.orders("gold/sales_mart")
    assert world.version("silver/users") == users
    assert world.stale() == {}


@thorough("feeds/test_replay.py, feeds/test_contracts.py: rows that were too late, and new columns")
def test_a_sale_that_is_too_late_is_let_in_by_landing_it_on_a_day_in_time_with_new_columns(
    world: World,
) -> None:
    world = world.of(*OF_SALES)
    world.land("events", "2017-01-02", "e.jsonl", [sale("a", "2017-01-02")])
    fields = {"note": "é", "nested": {"x": 1}, "ORDER_ID": "no", "a b": 1}
    late = sale("b", "2017-01-02", **fields)
    world.land("events", "2017-01-12", "e.jsonl", [late, sale("c", "2017-01-12")])
    world.load("2017-01-02...2017-01-12")
    assert world.orders() == {"a", "c"}
    assert world.quarantine() == [("2017-01-12", ("too_late",))]

    # As docs/retail-lakehouse.md says.
    quarantined = pl.read_delta(world.path("quarantine/silver_sales"))
    too_late = pl.col("reasons").list.contains("too_late")
    found = quarantined.filter(too_late, pl.col("_day") == date(2017, 1, 12))
    folder = Path(world.settings.landing) / "events" / "2017-01-09"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "let-in-2017-01-12.jsonl").write_text("\n".join(found["row"]) + "\n")
    for _ in range(2):  # once more changes nothing
        world.load("2017-01-09")
        world.load_stale()

    assert world.orders() == {"a", "b", "c"}
    assert world.orders("gold/sales_mart") == {"a", "b", "c"}
    # Fields that nobody declared are columns, and null in the rows that were there.
    silver = world.rows("silver/sales").sort("order_id")
    assert silver["note"].to_list() == [None, "é", None]
    assert silver["nested"].to_list() == [None, '{"x":1}', None]
    assert not {"ORDER_ID", "a b"} & set(silver.columns)
    assert world.rows("gold/sales_mart").sort("order_id")["note"].to_list() == [None, "é", None]
