"""What happens to a source, step by step, and what each way of writing makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from incremental_assets.writes import (
    SCD2,
    Append,
    DeleteInsert,
    Merge,
    OverwriteDays,
    ReplaceDay,
    WriteStrategy,
)

MAY_1, MAY_2 = date(2024, 5, 1), date(2024, 5, 2)
SCHEMA = {
    "id": pl.Int64,
    "day": pl.Date,
    "amount": pl.Int64,
    "at": pl.Datetime("us", "UTC"),
    "seq": pl.Int64,
}


@dataclass(frozen=True)
class Row:
    id: int
    day: date
    amount: int
    at: datetime | None
    seq: int | None

    def as_dict(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n in SCHEMA}


def row(id_: int, day: date, amount: int, clock: str | None, seq: int | None) -> Row:
    at = datetime.fromisoformat(f"2024-05-02T{clock}:00+00:00") if clock else None
    return Row(id_, day, amount, at, seq)


@dataclass(frozen=True)
class Step:
    """What lands, what a load takes of it, what it quarantines, and how the load before it dies."""

    name: str
    lands: Sequence[Row] = ()
    takes: Sequence[Row] = ()
    aside: int = 0
    dies: str = ""


def _taken(name: str, *rows: Row, dies: str = "") -> Step:
    return Step(name, rows, rows, dies=dies)


FIRST = (
    row(1, MAY_1, 10, "10:00", 1),
    row(2, MAY_1, 20, "10:10", 2),
    row(3, MAY_2, 30, "10:20", 3),
)
NEW = (row(1, MAY_1, 11, "11:00", 4), row(4, MAY_2, 40, "11:10", 6))
LATE = row(3, MAY_1, 33, "10:55", 5)
EQUAL = row(5, MAY_2, 50, "11:10", 6)
NULL = row(6, MAY_1, 60, None, None)

# What a crash leaves depends on the write; of the detectors one is enough.
BY_TIMESTAMP = (
    _taken("first load", *FIRST),
    _taken("new rows", *NEW, dies="before the write"),
    Step(
        "late rows in and below the lookback, one at the watermark's own instant, one without a "
        "timestamp, and the rows before again",
        lands=(LATE, row(7, MAY_1, 70, "09:00", 7), EQUAL, NULL, *NEW),
        takes=(LATE, EQUAL),
        aside=1,
        dies="when its rows are staged",
    ),
    Step("nothing new"),
    _taken("new rows after all that", row(8, MAY_2, 80, "11:30", 8), dies="after the write"),
)
BY_SEQUENCE = (
    _taken("first load", *FIRST),
    _taken("new rows, with a gap", *NEW),
    Step(
        "a late row in the gap, a number that is taken already, a row without a number, and the "
        "rows before again",
        lands=(LATE, row(7, MAY_1, 70, "09:00", 6), NULL, *NEW),
        takes=(LATE,),
        aside=1,
    ),
    Step("nothing new"),
    _taken("new rows after all that", row(8, MAY_2, 80, "11:30", 8)),
)

# Where the load that replaces rows dies, with new rows and late ones.
DYING = (
    _taken("first load", *FIRST),
    _taken("new rows, and a late one", *NEW, LATE, dies="when its rows are staged"),
)

Shown = tuple[Any, ...]


@dataclass
class Model:
    """What a table should hold, by the plainest means: no incremental logic, no Spark."""

    write: WriteStrategy
    cursor: str
    taken: list[list[Row]] = field(default_factory=list)
    source: list[Row] = field(default_factory=list)

    def shows(self) -> list[Shown]:
        make: Mapping[type, Callable[[], list[Shown]]] = {
            Append: self._appended,
            Merge: self._latest,
            SCD2: self._versions,
            DeleteInsert: self._by_key,
            OverwriteDays: self._by_day,
            ReplaceDay: self._whole_days,
        }
        return sorted(make[type(self.write)](), key=str)

    def _all(self) -> list[Row]:
        return [r for batch in self.taken for r in batch]

    def _cursor(self, r: Row) -> Any:
        return getattr(r, self.cursor)

    def _appended(self) -> list[Shown]:
        return [(r.id, r.day, r.amount) for r in self._all()]

    def _latest(self) -> list[Shown]:
        last: dict[int, Row] = {}
        for r in sorted(self._all(), key=self._cursor):
            last[r.id] = r
        return [(r.id, r.day, r.amount) for r in last.values()]

    def _versions(self) -> list[Shown]:
        found: list[Shown] = []
        for id_ in {r.id for r in self._all()}:
            of_key = sorted((r for r in self._all() if r.id == id_), key=self._cursor)
            ends = [*map(self._cursor, of_key[1:]), None]
            found += [
                (r.id, r.day, r.amount, self._cursor(r), end, end is None)
                for r, end in zip(of_key, ends, strict=True)
            ]
        return found

    def _by_key(self) -> list[Shown]:
        held: dict[int, list[Row]] = {}
        for batch in self.taken:
            held |= {id_: [r for r in batch if r.id == id_] for id_ in {r.id for r in batch}}
        return [(r.id, r.day, r.amount) for rows in held.values() for r in rows]

    def _by_day(self) -> list[Shown]:
        held: dict[date, list[Row]] = {}
        for batch in self.taken:
            held |= {day: [r for r in batch if r.day == day] for day in {r.day for r in batch}}
        return [(r.id, r.day, r.amount) for rows in held.values() for r in rows]

    def _whole_days(self) -> list[Shown]:
        return sorted(self._days, key=str)

    _days: list[Shown] = field(default_factory=list)

    def take(self, step: Step) -> None:
        self.source += step.lands
        if not step.takes:
            return
        self.taken.append(list(step.takes))
        touched = {r.day for r in step.takes}
        good = [r for r in self.source if self._cursor(r) is not None and r.day in touched]
        self._days = [s for s in self._days if s[1] not in touched]
        self._days += [(r.id, r.day, r.amount) for r in good]


WRITES: Mapping[str, WriteStrategy] = {
    "append": Append(),
    "merge": Merge(),
    "history": SCD2(),
    "delete then insert": DeleteInsert(),
    "overwrite the batch's days": OverwriteDays("day"),
    "replace whole days": ReplaceDay("day"),
}


def columns_of(write: WriteStrategy) -> tuple[str, ...]:
    shown = ("id", "day", "amount")
    return (*shown, "valid_from", "valid_to", "is_current") if isinstance(write, SCD2) else shown


__all__ = [
    "BY_SEQUENCE",
    "BY_TIMESTAMP",
    "DYING",
    "SCHEMA",
    "UTC",
    "WRITES",
    "Model",
    "Step",
    "columns_of",
]
