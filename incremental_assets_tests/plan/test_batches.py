"""Which days are loaded together: a year of small ones, and others a month at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from incremental_assets.catalog import table_named, tables
from incremental_assets.plan.batches import (
    DAYS_PER_BATCH,
    INFLATED,
    SMALL_BYTES,
    SMALL_DAYS_PER_BATCH,
    SMALL_ROWS,
    in_batches,
)
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.sources.source_file import SourceFile

FIRST = date(2017, 1, 1)
DAYS = [FIRST + timedelta(days=n) for n in range(400)]


class _Source:
    """As much of a stored source as a plan asks for."""

    path = "/landing/orders"

    def __init__(self, bytes_read: int) -> None:
        self._bytes = bytes_read

    def size(self) -> int:
        return self._bytes


class _Planned:
    """Plans days whose work is given, and remembers what it was asked for."""

    def __init__(
        self, work: dict[date, DayWork], mode: str = "append", table: str = "silver/sales"
    ) -> None:
        self.work, self.mode, self.table = work, mode, table_named(tables(), table)
        self.asked: list[list[date]] = []

    def __call__(self, days: Sequence[date]) -> Plan:
        self.asked.append(list(days))
        work = {day: self.work[day] for day in days if day in self.work}
        idle = tuple(day for day in days if day not in self.work)
        batch = Work(self.mode, "advance", work)  # type: ignore[arg-type]
        return Plan((batch,) if work else (), {}, idle)


def _rows(days: Sequence[date], rows: int) -> dict[date, DayWork]:
    return {day: DayWork(day, "new", rows=rows) for day in days}


def _loaded(days: Sequence[date], planned: _Planned) -> list[list[date]]:
    """The days of each plan; each day must be in one of them, in order."""
    found = [sorted([*plan.days, *plan.idle]) for plan in in_batches(planned.table, days, planned)]
    assert [day for some in found for day in some] == list(days)
    return found


def _sizes(planned: _Planned) -> list[int]:
    return [len(days) for days in _loaded(DAYS, planned)]


MONTHS = [DAYS_PER_BATCH] * 12 + [400 - 12 * DAYS_PER_BATCH]


def test_a_year_of_small_days_is_one_batch() -> None:
    planned = _Planned(_rows(DAYS, 4_000))

    assert _sizes(planned) == [SMALL_DAYS_PER_BATCH, 400 - SMALL_DAYS_PER_BATCH]
    assert [len(asked) for asked in planned.asked] == [31, 366, 31, 34]


def test_days_with_many_rows_are_loaded_a_month_at_a_time_and_planned_no_further() -> None:
    planned = _Planned(_rows(DAYS, SMALL_ROWS // 40))

    assert _sizes(planned) == MONTHS
    assert max(len(asked) for asked in planned.asked) == DAYS_PER_BATCH


def test_what_follows_a_small_month_and_is_large_is_looked_at_once() -> None:
    work = _rows(DAYS[:31], 10) | _rows(DAYS[31:], SMALL_ROWS)
    planned = _Planned(work)

    assert _sizes(planned) == MONTHS
    assert sum(len(asked) > DAYS_PER_BATCH for asked in planned.asked) == 1
    # Each plan that is loaded was made last: nothing that came between is left out.
    assert planned.asked[:4] == [DAYS[:31], DAYS[:366], DAYS[:31], DAYS[31:62]]


@pytest.mark.parametrize("name", ["day.jsonl", "day.jsonl.gz", "day.ZIP"])
def test_files_count_by_the_bytes_of_their_text(name: str) -> None:
    def batches(size: int) -> list[int]:
        files = (SourceFile(name, size),)
        return _sizes(_Planned({day: DayWork(day, "1 new file", files=files) for day in DAYS[::2]}))

    fits = SMALL_BYTES // 200 // (1 if name.endswith(".jsonl") else INFLATED)
    assert batches(fits)[0] == SMALL_DAYS_PER_BATCH
    assert batches(10 * fits) == MONTHS


def test_a_stored_source_counts_as_a_whole() -> None:
    def batches(size: int) -> list[int]:
        source = _Source(size)
        work = {day: DayWork(day, "new", source=source) for day in DAYS}  # type: ignore[arg-type]
        return _sizes(_Planned(work))

    assert batches(SMALL_BYTES // INFLATED)[0] == SMALL_DAYS_PER_BATCH
    assert batches(SMALL_BYTES // INFLATED + 1) == MONTHS


@pytest.mark.parametrize(
    ("mode", "table", "small"),
    [
        pytest.param("rebuild", "silver/sales", False, id="a typed day reads what is old, too"),
        pytest.param("rebuild", "gold/sales_mart", True, id="the ledger knows what gold reads"),
        pytest.param("merge", "gold/customer_orders", False, id="a rebuild covers keys"),
    ],
)
def test_where_the_rows_that_are_new_do_not_tell_what_is_read_a_batch_is_a_month(
    mode: str, table: str, small: bool
) -> None:
    sizes = _sizes(_Planned(_rows(DAYS, 10), mode, table))

    assert sizes[0] == (SMALL_DAYS_PER_BATCH if small else DAYS_PER_BATCH)
