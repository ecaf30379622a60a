"""Batches that land and load in any order, and again: the same rows as after one full rebuild."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import permutations
from typing import Any, NamedTuple

from incremental_assets.testing.lake import Lake, Tables, with_upstreams
from incremental_assets.testing.rows import difference

Order = tuple[int, ...]
"""Positions of batches in the order in which they are loaded."""


class LandedBatch(NamedTuple):
    """Rows that land in a feed on a day: one file."""

    feed: str
    day: str | date
    rows: Sequence[Mapping[str, Any] | str]


def assert_any_order(
    lake: Lake,
    tables: Tables,
    batches: Sequence[LandedBatch | tuple[str, str | date, Sequence[Mapping[str, Any] | str]]],
    *,
    most: int = 8,
    seed: int = 0,
) -> None:
    """Fail unless tables hold the same, in whatever order the batches land and are loaded.

    In each order every batch lands and its day is loaded, one batch once or twice; then whatever is
    stale is loaded. The rows must be those of one load of all the batches. All orders are tried,
    or `most` of them, drawn by `seed`. They begin with copies of the lake, which stays as it is.

    Raises AssertionError that names the order, and the rows that differ. Batches that hold a day
    in one order and not in another are not comparable: the rebuild must publish rows.
    """
    __tracebackhide__ = True
    of = (tables,) if not isinstance(tables, Iterable) else tuple(tables)
    landings = [LandedBatch(*batch) for batch in batches]
    after = _Loads(lake, of, landings)
    rebuilt = after.one_load()
    for table in of:
        if rebuilt.rows(table).is_empty():
            raise AssertionError(
                f"{table.name} has no rows after one load of all batches, so no order can differ. "
                f"What the loads logged: {' / '.join(rebuilt.log) or 'nothing'}"
            )
    for order in orders(len(landings), most, seed):
        loaded = after.order(order)
        for table in of:
            found = difference(loaded.rows(table), rebuilt.rows(table), table.key)
            if found:
                raise AssertionError(
                    f"{table.name} differs from a full rebuild where the batches are loaded in "
                    f"the order {_named(order, landings)}.\n{found}"
                )


def orders(batches: int, most: int, seed: int) -> list[Order]:
    """Orders in which each of so many batches comes once, or one of them twice; at most `most`.

    If there are more, distinct ones that are drawn by the seed, half of them with a repetition.
    """
    every = math.factorial(batches) + batches * math.factorial(batches + 1) // 2
    if every <= most:
        return sorted(_all_orders(batches))
    draw = random.Random(seed)
    found: set[Order] = set()
    while len(found) < most:
        order = draw.sample(range(batches), batches)
        if len(found) % 2 or len(found) >= 2 * math.factorial(batches):
            order.insert(draw.randint(0, batches), draw.randrange(batches))
        found.add(tuple(order))
    return sorted(found)


def _all_orders(batches: int) -> Iterator[Order]:
    yield from permutations(range(batches))
    for again in range(batches):
        yield from set(permutations([*range(batches), again]))


class _Loads:
    """Lakes after the batches of an order; orders that begin alike share what they load first."""

    def __init__(self, lake: Lake, tables: Sequence[Any], batches: Sequence[LandedBatch]) -> None:
        self._tables, self._batches = with_upstreams(tables), batches
        self._after: dict[Order, Lake] = {(): lake.copy()}

    def one_load(self) -> Lake:
        lake = self._after[()].copy()
        days = sorted({self._land(lake, at) for at in range(len(self._batches))})
        lake.load(self._tables, days)
        lake.run(self._tables)
        return lake

    def order(self, order: Order) -> Lake:
        lake = self._loaded(order).copy()
        lake.run(self._tables)
        return lake

    def _loaded(self, order: Order) -> Lake:
        if order not in self._after:
            lake = self._loaded(order[:-1]).copy()
            lake.load(self._tables, self._land(lake, order[-1]))
            self._after[order] = lake
        return self._after[order]

    def _land(self, lake: Lake, at: int) -> date:
        batch = self._batches[at]
        path = lake.land(*batch, file=f"batch-{at + 1:04}.jsonl")
        return date.fromisoformat(path.parent.name)


def _named(order: Order, batches: Sequence[LandedBatch]) -> str:
    return ", ".join(f"{at + 1} ({batches[at].feed} {batches[at].day})" for at in order)
