"""Which days one batch loads together: as many as fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Final

from incremental_assets.plan.work import Plan, Work

DAYS_PER_BATCH: Final = 366
ROWS_PER_BATCH: Final = 10_000_000
"""Two cores load so many rows of five tables in three minutes, with the default driver memory."""
BYTES_PER_BATCH: Final = 2 * 2**30
"""About the same in bytes of JSON."""
DAYS_OF_A_LARGE_SOURCE: Final = 31
"""Of a stored source with more bytes than that."""


def in_batches(days: Sequence[date], planned: Callable[[Sequence[date]], Plan]) -> Iterator[Plan]:
    """Plans for the days, in order: each for as many of them as one batch should load.

    A batch costs seconds whatever it loads, so a year of small days is one; what a load that is
    killed has to do again is a batch, so large days are apart. A day is never divided. Days are
    planned when the ones before them have been loaded.
    """
    left, most = list(days), DAYS_PER_BATCH
    while left:
        some = left[:most]
        plan = planned(some)
        if fitting := _fitting(some, plan):
            some, most = fitting, min(2 * len(fitting), DAYS_PER_BATCH)
            plan = planned(some)
        else:
            most = DAYS_PER_BATCH
        yield plan
        left = left[len(some) :]


def _fitting(days: Sequence[date], plan: Plan) -> list[date]:
    """The first days, of which each batch is small enough; none if all of them are."""
    over = [day for work in plan.work if (day := _over(work)) is not None]
    return [day for day in days if day < min(over)] if over else []


def _over(work: Work) -> date | None:
    """The first day that is too much together with the days before it, if there is one."""
    if work.source is not None:
        # How much of the source belongs to a day is not known.
        days = sorted(work.days)[DAYS_OF_A_LARGE_SOURCE:]
        return days[0] if days and work.bytes > BYTES_PER_BATCH else None
    rows = read = 0
    for day, each in sorted(work.days.items()):
        first = not rows and not read
        rows += each.rows
        read += sum(file.size for file in each.files)
        if not first and (rows > ROWS_PER_BATCH or read > BYTES_PER_BATCH):
            return day
    return None
