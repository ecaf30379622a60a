"""Which days are loaded together: a year of small ones, and each large one by itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from incremental_assets.plan.batches import (
    BYTES_PER_BATCH,
    DAYS_OF_A_LARGE_SOURCE,
    DAYS_PER_BATCH,
    ROWS_PER_BATCH,
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

    def __init__(self, work: dict[date, DayWork], mode: str = "append") -> None:
        self.work, self.mode = work, mode
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
    found = [sorted([*plan.days, *plan.idle]) for plan in in_batches(days, planned)]
    assert [day for some in found for day in some] == list(days)
    return found


def test_a_year_of_small_days_is_one_batch_and_is_planned_once() -> None:
    planned = _Planned(_rows(DAYS, 4_000))

    assert [len(days) for days in _loaded(DAYS, planned)] == [DAYS_PER_BATCH, 400 - DAYS_PER_BATCH]
    assert len(planned.asked) == 2


def test_days_with_many_rows_are_loaded_as_many_at_a_time_as_fit() -> None:
    days = DAYS[:10]

    third = _Planned(_rows(days, ROWS_PER_BATCH // 3))
    assert [len(some) for some in _loaded(days, third)] == [3, 3, 3, 1]

    apart = _Planned(_rows(days, ROWS_PER_BATCH * 5))
    assert [len(some) for some in _loaded(days, apart)] == [1] * 10
    # A large day costs one more plan, and not one over all days that are left.
    assert max(len(asked) for asked in apart.asked[1:]) <= 2


def test_after_large_days_small_ones_are_loaded_together_again() -> None:
    work = _rows(DAYS[:3], ROWS_PER_BATCH) | _rows(DAYS[3:], 10)

    sizes = [len(some) for some in _loaded(DAYS, _Planned(work))]

    assert sizes[:3] == [1, 1, 1]
    assert max(sizes) > 300


def test_files_count_by_their_bytes_and_days_without_work_by_nothing() -> None:
    half = SourceFile("day.json", BYTES_PER_BATCH // 2)
    work = {day: DayWork(day, "1 new file", files=(half,)) for day in DAYS[:8:2]}

    assert _loaded(DAYS[:8], _Planned(work)) == [DAYS[:4], DAYS[4:8]]


def test_a_large_stored_source_is_read_for_a_month_at_a_time_and_a_small_one_for_a_year() -> None:
    def work(size: int) -> dict[date, DayWork]:
        source = _Source(size)
        return {day: DayWork(day, "new", source=source) for day in DAYS}  # type: ignore[arg-type]

    large = _loaded(DAYS, _Planned(work(BYTES_PER_BATCH + 1)))
    assert len(large[0]) == DAYS_OF_A_LARGE_SOURCE
    small = _loaded(DAYS, _Planned(work(BYTES_PER_BATCH)))
    assert len(small[0]) == DAYS_PER_BATCH
