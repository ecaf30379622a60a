"""Gold tables whose rows are recomputed by key: totals of a customer, running levels of a place."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.retail.gold.customer_orders import CUSTOMER_ORDERS
from incremental_assets.retail.gold.inventory_levels import INVENTORY_LEVELS
from incremental_assets.table import AsOf, SameDay, Table
from incremental_assets.writes import Merge, RecomputeKeys
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, at
from incremental_assets_tests.thorough import thorough

TOTALS = ("user_id", "orders", "value", "first_order_at", "last_order_at", "dt")
LEVELS = ("dt", "product_id", "delta", "level")


def tables_of(gold: Table) -> tuple[Table, ...]:
    assert gold.facts is not None
    assert gold.facts.facts is not None
    return gold.facts.facts, gold.facts, gold


def order(
    order_id: str, user: str | None, updated: str, status: str = "paid", amount: str = "10.00"
) -> dict[str, Any]:
    created = f"05 0{len(order_id) % 10}:00"
    return {
        "order_id": order_id,
        "user_id": user,
        "store_id": "s",
        "status": status,
        "amount": amount,
        "created_at": at(created),
        "updated_at": at(updated),
    }


def put_orders(lake: Lake, *rows: dict[str, Any]) -> None:
    lake.put_delta(
        "orders", pl.DataFrame(rows).with_columns(pl.col("amount").cast(pl.Decimal(18, 4)))
    )


def totals(lake: Lake) -> dict[str, tuple[int, str]]:
    rows = lake.rows("gold/customer_orders", "user_id", "orders", "value")
    return {user: (count, f"{value:.2f}") for user, count, value in rows}


def two_days_of_customers(lake: Lakes) -> Lake:
    made = lake(*tables_of(CUSTOMER_ORDERS))
    put_orders(
        made,
        order("a", "u1", "05 10:00"),
        order("bb", "u1", "05 11:00", amount="2.50"),
        order("c", "u2", "06 10:00", amount="7.00"),
        order("d", None, "06 11:00"),
        order("e", "u3", "06 12:00", "cancelled"),
        order("h", "u4", "06 12:00", amount="4.00"),
    )
    made.load("2017-01-05...2017-01-06")
    return made


@pytest.fixture
def customers(lake: Lakes) -> Lake:
    return lake.copy_of(two_days_of_customers)


def test_orders_are_summed_by_user_and_those_cancelled_or_nobodys_are_left_out(
    customers: Lake,
) -> None:
    assert totals(customers) == {"u1": (2, "12.50"), "u2": (1, "7.00"), "u4": (1, "4.00")}
    first, *_ = customers.rows("gold/customer_orders", *TOTALS)
    assert first[3:] == ("01-05 01:00", "01-05 02:00", "2017-01-05")


def test_orders_that_are_cancelled_or_move_to_another_user_leave_the_first_one(
    customers: Lake,
) -> None:
    put_orders(
        customers,
        order("a", "u1", "05 10:00"),
        order("bb", "u1", "07 09:00", "cancelled", "2.50"),
        order("c", "u9", "07 10:00", amount="7.00"),
    )

    result = customers.load("2017-01-07")["gold/customer_orders"]

    assert customers.stale() == {"gold/customer_orders": ["2017-01-05", "2017-01-06"]}  # old days
    customers.load_stale()
    assert totals(customers) == {"u1": (1, "10.00"), "u4": (1, "4.00"), "u9": (1, "7.00")}
    (entry,) = next(iter(result.days.values())).entries
    assert (entry.mode, entry.rows_read) == ("merge", 3)


def test_only_touched_users_are_written(customers: Lake) -> None:
    before = set(DeltaTable(customers.path("gold/customer_orders")).file_uris())
    put_orders(customers, order("f", "u1", "07 09:00"), order("g", "u9", "08 09:00", amount="1.00"))
    customers.load("2017-01-07...2017-01-08", "bronze/orders", "silver/orders")

    result = customers.load("2017-01-08", "gold/customer_orders")["gold/customer_orders"]

    after = set(DeltaTable(customers.path("gold/customer_orders")).file_uris())
    assert before < after
    (entry,) = next(iter(result.days.values())).entries
    counts = (entry.mode, entry.rows_read, entry.rows_inserted, entry.rows_updated)
    assert counts == ("merge", 1, 1, 0)
    # A day that is not loaded yet does not count.
    assert totals(customers)["u1"] == (2, "12.50")
    customers.load("2017-01-07", "gold/customer_orders")
    assert totals(customers)["u1"] == (3, "22.50")


def test_totals_that_do_not_agree_with_the_orders_are_held(customers: Lake) -> None:
    def wrong(orders: Any) -> Any:
        assert CUSTOMER_ORDERS.transform is not None
        return CUSTOMER_ORDERS.transform(orders).withColumn("value", F.col("value") + 1)

    landed, silver, gold = tables_of(CUSTOMER_ORDERS)
    made = customers.with_tables(landed, silver, replace(gold, transform=wrong))
    before = totals(made)

    result = made.lakehouse.restate(made.tables[gold.name], [date(2017, 1, 6)], "a test")

    assert [r.state for r in result.days.values()] == ["held"]
    assert "value is 13.0000, upstream has 11.0000" in next(iter(result.failed.values())).reason
    assert totals(made) == before


def test_an_upstream_whose_old_files_are_gone_is_read_whole(customers: Lake) -> None:
    put_orders(customers, order("bb", "u2", "07 09:00", amount="2.50"))
    customers.load("2017-01-07", "bronze/orders", "silver/orders")
    table = DeltaTable(customers.path("silver/orders"))
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    customers.load("2017-01-07", "gold/customer_orders")
    customers.load_stale()

    assert totals(customers) == {"u1": (1, "10.00"), "u2": (2, "9.50"), "u4": (1, "4.00")}


def move(number: int, product: str, moved: str, delta: int | None) -> dict[str, Any]:
    return {
        "movement_id": number,
        "product_id": product,
        "store_id": "s",
        "delta": delta,
        "moved_at": at(moved),
    }


MOVES = [
    [move(1, "p", "05 08:00", 10), move(2, "p", "05 09:00", -3), move(3, "q", "05 09:00", 5)],
    [move(4, "p", "06 09:00", -2)],
    [move(5, "p", "07 09:00", -1), move(6, "q", "07 09:00", 4)],
    [move(7, "p", "05 23:00", -4), move(8, "r", "06 09:00", 1)],  # late
]
RUN = [
    ("2017-01-05", "p", 3, 3),
    ("2017-01-05", "q", 5, 5),
    ("2017-01-06", "p", -2, 1),
    ("2017-01-06", "r", 1, 1),
    ("2017-01-07", "p", -1, 0),
    ("2017-01-07", "q", 4, 9),
]


def put_moves(lake: Lake, *parts: int) -> None:
    for part in parts:
        lake.put_parquet("inventory_movements", f"{part}.parquet", pl.DataFrame(MOVES[part]))


def three_days_of_stock(lake: Lakes) -> Lake:
    stock = lake(*tables_of(INVENTORY_LEVELS))
    put_moves(stock, 0, 1, 2)
    stock.load("2017-01-07")
    stock.load("2017-01-05...2017-01-06")
    return stock


def test_a_late_movement_corrects_the_later_days_of_its_product_and_no_other(lake: Lakes) -> None:
    stock = lake.copy_of(three_days_of_stock)
    assert ("2017-01-07", "p", -1, 4) in stock.rows("gold/inventory_levels", *LEVELS)
    put_moves(stock, 3)

    result = stock.load("2017-01-05...2017-01-06")["gold/inventory_levels"]

    assert stock.rows("gold/inventory_levels", *LEVELS) == RUN
    assert stock.stale() == {}
    entries = [entry for day in result.days.values() for entry in day.entries]
    assert (sum(e.rows_inserted for e in entries), sum(e.rows_updated for e in entries)) == (1, 3)

    before = stock.versions()
    stock.load("2017-01-05...2017-01-07")
    assert stock.versions() == before  # a run that is repeated writes nothing


@thorough("feeds/test_keys.py: the last day first, then those before it, then a late movement")
def test_levels_are_the_same_in_whatever_order_the_days_are_loaded(lake: Lakes) -> None:
    stock = lake(*tables_of(INVENTORY_LEVELS))
    put_moves(stock, 0, 1, 2)
    for day in ("07", "05"):
        stock.load(f"2017-01-{day}")
    put_moves(stock, 3)
    stock.load("2017-01-06")

    stock.load("2017-01-05...2017-01-07", "bronze/inventory_movements")
    stock.load_stale()

    assert stock.rows("gold/inventory_levels", *LEVELS) == RUN


@thorough("feeds/test_keys.py: the last day first, then those before it, then a late movement")
def test_many_random_loads_end_in_the_sums_of_all_movements(lake: Lakes) -> None:
    stock = lake(*tables_of(INVENTORY_LEVELS))
    chance = random.Random(11)
    rows = [
        move(n, chance.choice("pqrs"), f"0{chance.randint(4, 9)} 10:00", chance.randint(-5, 9))
        for n in range(1, 41)
    ]
    chance.shuffle(rows)
    for part in range(4):
        frame = pl.DataFrame(rows[part * 10 : part * 10 + 10])
        stock.put_parquet("inventory_movements", f"{part}.parquet", frame)
        day = chance.randint(4, 9)
        stock.load(f"2017-01-0{day}...2017-01-0{chance.randint(day, 9)}")
    stock.load("2017-01-04...2017-01-09")
    stock.load_stale()

    days = (
        pl.DataFrame(rows)
        .group_by(pl.col("moved_at").dt.date().cast(pl.String).alias("dt"), "product_id")
        .agg(pl.col("delta").sum())
        .sort("dt")
        .with_columns(level=pl.col("delta").cum_sum().over("product_id"))
    )
    assert stock.rows("gold/inventory_levels", *LEVELS) == sorted(days.rows(), key=repr)


def test_a_table_by_key_reads_one_silver_table_and_names_its_key() -> None:
    assert CUSTOMER_ORDERS.facts is not None
    with pytest.raises(DefinitionError, match="needs the key whose rows are recomputed"):
        replace(CUSTOMER_ORDERS, key=())
    with pytest.raises(DefinitionError, match="reads one table"):
        looked_up = AsOf(CUSTOMER_ORDERS.facts, key="user_id", at="created_at", valid_from="dt")
        replace(CUSTOMER_ORDERS, reads=(*CUSTOMER_ORDERS.reads, looked_up))
    with pytest.raises(DefinitionError, match="row hashes of a silver table"):
        replace(CUSTOMER_ORDERS, name="gold/x", reads=(SameDay(CUSTOMER_ORDERS),))
    with pytest.raises(DefinitionError, match="over bronze is an Append"):
        replace(CUSTOMER_ORDERS.facts, write=RecomputeKeys())
    assert isinstance(CUSTOMER_ORDERS.facts.write, Merge)


@thorough("scenarios/test_join.py, feeds/test_interrupted.py: loads of other writes")
def test_a_crash_between_the_commit_and_the_ledger_is_settled(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = lake.copy_of(three_days_of_stock)
    put_moves(stock, 3)
    bronze, silver, gold = stock.tables
    days = "2017-01-05...2017-01-06"

    def dies(name: str) -> None:
        with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
            broken.setattr("incremental_assets.engine.table_load.record", _stop)
            stock.load(days, name)

    dies(bronze)
    stock.load(days, bronze, silver)
    dies(gold)

    stock.load(days)

    assert stock.rows("gold/inventory_levels", *LEVELS) == RUN


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_transform_that_gives_no_day_is_named(lake: Lakes) -> None:
    def transform(orders: DataFrame) -> DataFrame:
        return orders.groupBy("user_id").count()

    gold = replace(CUSTOMER_ORDERS, transform=transform, rules=(), sums=None, lineage={})
    shop = lake(*tables_of(gold))
    put_orders(shop, order("a", "u1", "05 10:00"))

    with pytest.raises(DefinitionError, match=r"gives no column dt .*, only user_id, count"):
        shop.load("2017-01-05")
