"""How many rows days have, by the ledger and Delta's log: the counts that rules compare with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import overload

from incremental_assets.delta.delta_table import rows_by_file
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.lazy_mapping import LazyMapping
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.quality.rule import DayRule, Rule

RowCounts = Mapping[date, int]


def judges_volume(rules: Iterable[Rule]) -> bool:
    """Whether a rule needs the count of all rows of a day, or of the days before it."""
    return any(isinstance(rule, DayRule) and rule.of_volume for rule in rules)


def added_up(history: TableHistory, counted: Callable[[Entry], int]) -> RowCounts:
    """Per day: the sum of the rows of its published batches from its last rebuild on.

    Rows that were dropped from quarantine since are taken off.
    """

    def of_day(day: date) -> int:
        return sum(map(counted, history.since_rebuilt_with_drops(day)))

    return LazyMapping(history.by_day.keys(), of_day)


def last_ones(history: TableHistory, counted: Callable[[Entry], int]) -> RowCounts:
    """Per day: the rows of its last published batch, where that counts the whole day."""
    last = history.last_published
    return LazyMapping(last.keys(), lambda day: counted(last[day]))


def landed(path: str, written: StagedWrite | None, days: Collection[date]) -> RowCounts:
    """The rows of every landing day, once what was written for these days is published."""
    found: dict[date, int] = {}
    replaced = set(written.replaced) if written else set()
    for file, day, rows in rows_by_file(path, "_landing_day"):
        if day is not None and not (day in days and file in replaced):
            found[day] = found.get(day, 0) + rows
    for partition, rows in (written.staged.rows if written else {}).items():
        if partition[0] is not None:
            found[partition[0]] = found.get(partition[0], 0) + rows
    return found


class RowsBefore(Sequence[int]):
    """The rows of the days before one, newest first; found as far back as they are asked for."""

    def __init__(self, rows: RowCounts, day: date) -> None:
        self._rows = rows
        self._days = sorted((d for d in rows if d < day), reverse=True)

    def __len__(self) -> int:
        return len(self._days)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        if isinstance(at, slice):
            return [self._rows[day] for day in self._days[at]]
        return self._rows[self._days[at]]
