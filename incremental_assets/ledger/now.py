"""A table's history as the ledger has it now, of which only what is asked for is read.

What is asked of all days is answered by where they stand, what is asked of one day by the files
that have a word on it. Only who asks for all entries reads them all: the commands that show or
check a history, and few loads (docs/how-a-load-works.md names them).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import TypeVar

from incremental_assets.ledger.entry import Entry, FileEntry, is_of_a_load
from incremental_assets.ledger.reader import TableReader
from incremental_assets.ledger.standing import NOWHERE, DayStanding, fingerprint, standing_of
from incremental_assets.ledger.view import TableHistory

_K = TypeVar("_K")
_V = TypeVar("_V")


class Asked(Mapping[_K, _V]):
    """Answers by key, each found when it is first asked for; which keys there are is known."""

    def __init__(self, keys: Collection[_K], find: Callable[[_K], _V]) -> None:
        self._keys = keys
        self._find = find

    def __getitem__(self, key: _K) -> _V:
        if key not in self._keys:
            raise KeyError(key)
        return self._find(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[_K]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class TableNow(TableHistory):
    """The history of a table, and, if they are named, of batches that are only expected."""

    def __init__(
        self,
        reader: TableReader,
        later: tuple[Entry, ...] = (),
        standing: Mapping[date | None, DayStanding] | None = None,
    ) -> None:
        stands = reader.standing if standing is None else standing
        # A frozen dataclass takes no other way.
        self.__dict__.update(table=reader.table, _reader=reader, _later=later)
        self.__dict__.update(_standing=stands, _histories={})

    _reader: TableReader
    _later: tuple[Entry, ...]
    _standing: Mapping[date | None, DayStanding]
    _histories: dict[date, TableHistory]

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        return (*self._reader.entries, *self._later)

    @property
    def last_batch(self) -> int:
        return self._later[-1].batch if self._later else self._reader.tail.last_batch

    @property
    def last(self) -> Entry | None:
        published = [e for e in self._later if e.state == "committed"]
        return published[-1] if published else self._reader.tail.last

    @cached_property
    def high(self) -> int:
        return max((each.committed for each in self._standing.values()), default=0)

    @cached_property
    def unsettled(self) -> tuple[Entry, ...]:
        return () if any(map(is_of_a_load, self._later)) else self._reader.tail.unsettled

    @cached_property
    def days_aside(self) -> Collection[date]:
        return self._where(lambda stands: stands.aside).keys()

    @property
    def was_rewound(self) -> bool:
        return any(each.rewound for each in self._standing.values())

    def newest_first(self, up_to: int | None = None) -> Iterator[Entry]:
        for entry in reversed(self._later):
            if entry.state == "committed" and (up_to is None or entry.batch <= up_to):
                yield entry
        yield from self._reader.newest_first(up_to)

    def above(self, batch: int) -> Sequence[Entry]:
        return [*self._reader.above(batch), *(e for e in self._later if e.batch > batch)]

    def of_day(self, day: date) -> Sequence[Entry]:
        return self._of(day).outcomes

    @cached_property
    def last_said(self) -> Mapping[date, int]:
        last = {d: max(s.committed, s.held, s.accepted) for d, s in self._days().items()}
        return {day: batch for day, batch in last.items() if batch}

    @cached_property
    def last_committed(self) -> Mapping[date, Entry]:
        return Asked(self._where(_committed), lambda day: self._of(day).last_committed[day])

    @cached_property
    def last_published(self) -> Mapping[date, Entry]:
        days = self._where(lambda stands: stands.published)
        return Asked(days, lambda day: self._of(day).last_published[day])

    @cached_property
    def held(self) -> Mapping[date, Entry]:
        days = self._where(lambda stands: stands.is_held)
        return Asked(days, lambda day: self._of(day).held[day])

    @cached_property
    def accepted(self) -> Mapping[date, Entry]:
        days = self._where(lambda stands: stands.is_held and stands.accepted > stands.held)
        return Asked(days, lambda day: self._of(day).accepted[day])

    @cached_property
    def rewound(self) -> Mapping[date, Entry]:
        days = self._where(lambda stands: stands.is_rewound)
        return Asked(days, lambda day: self._of(day).rewound[day])

    @cached_property
    def to_load_again(self) -> Mapping[date, frozenset[str]]:
        """The same; of a day that was rewound and loaded since, no paths."""
        days = self._where(lambda stands: stands.rewound)
        return Asked(days, lambda day: self._of(day).to_load_again.get(day, frozenset()))

    @cached_property
    def published_days(self) -> frozenset[date]:
        return frozenset(self._where(_touched))

    @cached_property
    def touching(self) -> Mapping[date, tuple[Entry, ...]]:
        return Asked(self._where(_touched), lambda day: self._touching(day, 0))

    @cached_property
    def by_day(self) -> Mapping[date, tuple[Entry, ...]]:
        return Asked(self._where(_committed), lambda day: self._of(day).by_day[day])

    @cached_property
    def _files(self) -> Mapping[date, Mapping[str, FileEntry]]:
        return Asked(self._where(_committed), lambda day: self._of(day).files(day))

    def watermark(self, upstream: str, day: date) -> int:
        return self._standing.get(day, NOWHERE).read.get(upstream, 0)

    def published_up_to(self, upstream: str, day: date) -> int:
        rewound = self._standing.get(day, NOWHERE).is_rewound
        return (super().published_up_to if rewound else self.watermark)(upstream, day)

    def has_just(self, day: date, files: Iterable[FileEntry]) -> bool:
        stands = self._standing.get(day, NOWHERE)
        # A file that is to be loaded again after a rewind may look as it did.
        return not stands.rewound and 0 < stands.files == fingerprint(files)

    def position(self, day: date) -> str:
        return self._standing.get(day, NOWHERE).position

    def codes(self, day: date) -> Iterable[str]:
        return self._standing.get(day, NOWHERE).codes

    def changes(self, day: date, low: int) -> tuple[Entry, ...]:
        changed = self._standing.get(day, NOWHERE).last_touched > low
        return self._touching(day, low) if changed else ()

    def looked_up_changes(self, day: date, low: int) -> tuple[Entry, ...]:
        ends = [self._standing.get(each, NOWHERE).last_affected for each in (day, None)]
        if max(ends) <= low:
            return ()
        later = (e for e in self._published_later(low) if e.affects is None or day in e.affects)
        return (*self._reader.affecting(day, low), *later)

    def followed_by(self, outcomes: Sequence[Entry]) -> TableNow:
        more = standing_of(outcomes)
        standing = dict(self._standing)
        for day, stands in more.items():
            standing[day] = standing[day].followed_by(stands) if day in standing else stands
        after = TableNow(self._reader, (*self._later, *outcomes), standing)
        told = {entry.day for entry in outcomes}
        after._histories.update((d, h) for d, h in self._histories.items() if d not in told)
        return after

    def _of(self, day: date) -> TableHistory:
        """All that is said for a day, as a history of its own."""
        if day not in self._histories:
            later = (entry for entry in self._later if entry.day == day)
            found = (*self._reader.of_day(day), *later)
            self._histories[day] = TableHistory(self.table, found)
        return self._histories[day]

    def _touching(self, day: date, low: int) -> tuple[Entry, ...]:
        later = (e for e in self._published_later(low) if any(t.day == day for t in e.touched))
        return (*self._reader.touching(day, low), *later)

    def _published_later(self, low: int) -> Iterator[Entry]:
        return (e for e in self._later if e.state == "committed" and e.batch > low)

    def _days(self) -> dict[date, DayStanding]:
        return {day: stands for day, stands in self._standing.items() if day is not None}

    def _where(self, wanted: Callable[[DayStanding], object]) -> dict[date, None]:
        return {day: None for day, stands in self._days().items() if wanted(stands)}


def _committed(stands: DayStanding) -> int:
    return stands.committed


def _touched(stands: DayStanding) -> int:
    return stands.last_touched
