"""Batches in any order: which orders are tried, and what is said of one that ends otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.retail.silver.sales import SALES
from incremental_assets.testing import Lake, LandedBatch, assert_any_order
from incremental_assets.testing.any_order import orders
from incremental_assets_tests.scenarios.world import sale

LATE_FIRST = 0  # the seed that draws this order
BATCHES = (
    LandedBatch("events", "2017-01-05", [sale("a", "2017-01-05"), sale("b", "2017-01-05")]),
    LandedBatch("events", "2017-01-06", [sale("late", "2017-01-05"), sale("c", "2017-01-06")]),
)


def by_batch(sales: DataFrame) -> DataFrame:
    """The mistake to be found: what a row says depends on the load that brought it."""
    return sales.withColumn("store_id", F.concat(F.lit("batch "), "_batch"))


def test_all_orders_of_few_batches_are_tried_each_batch_once_or_one_of_them_twice() -> None:
    assert orders(1, 8, seed=0) == [(0,), (0, 0)]
    assert orders(2, 8, seed=0) == [
        *((0, 0, 1), (0, 1), (0, 1, 0), (0, 1, 1)),
        *((1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0)),
    ]


def test_of_many_orders_the_seed_draws_some() -> None:
    drawn = orders(20, 10, seed=1)

    assert len(set(drawn)) == 10
    assert all(set(order) == set(range(20)) for order in drawn)
    assert sorted(map(len, drawn)) == [20] * 5 + [21] * 5
    assert drawn == orders(20, 10, seed=1) != orders(20, 10, seed=2)


def test_where_there_are_few_orders_without_a_repetition_the_others_have_one() -> None:
    assert len(set(orders(2, 5, seed=0))) == 5
    drawn = orders(3, 20, seed=0)
    assert (len(drawn), sum(len(order) == 3 for order in drawn)) == (20, 6)


def test_the_order_and_the_rows_that_differ_are_named(lake: Lake) -> None:
    assert orders(2, 1, LATE_FIRST) == [(1, 0)]
    wrong = replace(SALES, transform=by_batch)

    with pytest.raises(AssertionError) as raised:
        assert_any_order(lake, wrong, BATCHES, most=1, seed=LATE_FIRST)

    first, counts, *rows = str(raised.value).splitlines()
    assert first == (
        "silver/sales differs from a full rebuild where the batches are loaded in the order "
        "2 (events 2017-01-06), 1 (events 2017-01-05)."
    )
    assert "2 different (of 4 rows; 4 rows expected)" in counts
    assert rows[0] == "  different: order_id='a': store_id is 'batch 2', expected 'batch 1'"
    assert lake.rows(SALES).is_empty()


def test_batches_that_publish_nothing_compare_nothing(lake: Lake) -> None:
    bad = LandedBatch("events", "2017-01-05", [sale(None, "2017-01-05")])

    with pytest.raises(AssertionError, match="has no rows after one load of all batches"):
        assert_any_order(lake, SALES, [bad])
