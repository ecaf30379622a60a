"""Which days one batch loads together: a month, or a year of small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Final

from incremental_assets.plan.work import Plan, Work
from incremental_assets.sources.stored_files import COMPRESSED
from incremental_assets.table import Table

DAYS_PER_BATCH: Final = 31
SMALL_DAYS_PER_BATCH: Final = 366
SMALL_ROWS: Final = 5_000_000
"""With so many rows together, days are small."""
SMALL_BYTES: Final = 2**30
"""The same in bytes of landed text."""
INFLATED: Final = 8
"""How many times as large Parquet, a compressed text or an archive, may be as it is read."""
_INFLATED_ENDS: Final = (*COMPRESSED, ".parquet", ".zip")


def in_batches(
    table: Table, days: Sequence[date], planned: Callable[[Sequence[date]], Plan]
) -> Iterator[Plan]:
    """Plans for the days, in order: each for as many of them as one batch should load.

    A batch costs seconds whatever it loads, so small days are loaded together, up to a year of
    them. Others are loaded a month at a time: what a load that is killed has to do again is a
    batch. Days are planned when the ones before them have been loaded, and days beyond a month
    only where the month is small.
    """
    left, may_be_small = list(days), True
    while left:
        some, more = left[:DAYS_PER_BATCH], left[:SMALL_DAYS_PER_BATCH]
        plan = planned(some)
        if may_be_small and len(more) > len(some) and _is_small(table, plan, len(some) / len(more)):
            year = planned(more)
            may_be_small = _is_small(table, year)
            # What is loaded is what was planned last: a plan is older than what came after it.
            some, plan = (more, year) if may_be_small else (some, planned(some))
        yield plan
        left = left[len(some) :]


def _is_small(table: Table, plan: Plan, share: float = 1.0) -> bool:
    """Whether the days of a plan are small, where they are this share of the days in question."""
    if table.write.recomputes_keys or not all(_is_known(table, work) for work in plan.work):
        return False
    if len(plan.work) > 1 and all(len(work.days) == 1 for work in plan.work):
        return False  # a batch for each of them anyway, such as of snapshots
    sources = {work.source.path: work.source.size() for work in plan.work if work.source}
    rows, landed = sum(work.rows for work in plan.work), sum(map(_landed_bytes, plan.work))
    return (
        rows <= share * SMALL_ROWS
        and landed <= share * SMALL_BYTES
        # All of a source may be of these days, or of others.
        and INFLATED * sum(sources.values()) <= SMALL_BYTES
    )


def _is_known(table: Table, work: Work) -> bool:
    """Whether the work shows how much is read: to rebuild a typed day reads what is old, too."""
    return not (table.is_typed and work.mode == "rebuild")


def _landed_bytes(work: Work) -> int:
    """How many bytes of text the landed files hold; 0 for a stored source."""
    if work.source is not None:
        return 0
    return sum(
        file.size * (INFLATED if file.path.lower().endswith(_INFLATED_ENDS) else 1)
        for day in work.days.values()
        for file in day.files
    )
