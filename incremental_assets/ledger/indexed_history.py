"""A table's history that reads few of the ledger's files, by the ledger's index.

A question about all days is answered by the index, one about a single day by the files that may
hold its batches. Only `entries` reads them all: the commands that show or check a history do so,
and few loads (docs/how-a-load-works.md names them).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import cast

from incremental_assets.ledger.day_index import summaries_of
from incremental_assets.ledger.day_summaries import DaySummaries
from incremental_assets.ledger.entry import Entry, FileEntry, State, is_of_a_load
from incremental_assets.ledger.lazy_mapping import LazyMapping
from incremental_assets.ledger.reader import TableReader
from incremental_assets.ledger.table_history import TableHistory


class IndexedHistory(TableHistory):
    """The history of a table, followed by expected batches, if there are any in `later`."""

    def __init__(
        self,
        reader: TableReader,
        later: tuple[Entry, ...] = (),
        days: DaySummaries | None = None,
    ) -> None:
        # The attributes of a frozen dataclass can be set in no other way.
        self.__dict__.update(table=reader.table, _reader=reader, _later=later)
        self.__dict__.update(_index=reader.days if days is None else days, _histories={})

    _reader: TableReader
    _later: tuple[Entry, ...]
    _index: DaySummaries
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
        return max(self._index.numbers("committed").values(), default=0)

    @cached_property
    def unsettled(self) -> tuple[Entry, ...]:
        return () if any(map(is_of_a_load, self._later)) else self._reader.tail.unsettled

    @cached_property
    def days_with_quarantine(self) -> Collection[date]:
        return self._days("quarantined").keys()

    @property
    def _rewinds(self) -> Mapping[date, int]:
        return self._days("rewound")

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
    def last_final_batch(self) -> Mapping[date, int]:
        last: dict[date, int] = {}
        for name in ("committed", "held", "accepted"):
            for day, batch in self._days(name).items():
                last[day] = max(batch, last.get(day, 0))
        return last

    @cached_property
    def last_committed(self) -> Mapping[date, Entry]:
        days = self._days("committed")
        return LazyMapping(days, lambda day: self._of(day).last_committed[day])

    @cached_property
    def last_published(self) -> Mapping[date, Entry]:
        days = self._days("published")
        return LazyMapping(days, lambda day: self._of(day).last_published[day])

    @cached_property
    def held(self) -> Mapping[date, Entry]:
        days = self._later_than("held", "loaded")
        held = LazyMapping(days, lambda day: self._last_of(day, "held"))
        last = self.last_loaded if days else None
        if last is None or not last.is_of_whole_source:
            return held
        since = {day: batch for day, batch in days.items() if batch > last.batch}
        return LazyMapping(since, held.__getitem__)

    @cached_property
    def accepted(self) -> Mapping[date, Entry]:
        accepted = self._later_than("accepted", "held").items()
        days = {
            day: n for day, n in accepted if day in self.held and not self.is_held_and_rewound(day)
        }
        return LazyMapping(days, lambda day: self._last_of(day, "accepted"))

    @cached_property
    def rewound(self) -> Mapping[date, Entry]:
        committed = self._days("committed")
        days = {day: n for day, n in self._rewinds.items() if n == committed.get(day)}
        return LazyMapping(days, lambda day: self._of(day).rewound[day])

    @cached_property
    def to_load_again(self) -> Mapping[date, frozenset[str]]:
        """As there; a day that was rewound and loaded since has no paths."""
        return LazyMapping(
            self._rewinds, lambda day: self._of(day).to_load_again.get(day, frozenset())
        )

    @cached_property
    def days_to_retract(self) -> Collection[date]:
        # Since its last load such a day was retracted from and rewound: only numbers are compared.
        retracted = self._later_than("published", "loaded").keys()
        days = retracted & self._later_than("rewound", "loaded").keys()
        return [day for day in days if self.to_retract(day)]

    @cached_property
    def published_days(self) -> frozenset[date]:
        return frozenset(self.last_touched)

    @cached_property
    def touching(self) -> Mapping[date, tuple[Entry, ...]]:
        return LazyMapping(self.last_touched, lambda day: self._touching(day, 0))

    @property
    def last_touched(self) -> Mapping[date, int]:
        return self._days("last_touched")

    @property
    def last_looked_up(self) -> Mapping[date | None, int]:
        return self._index.numbers("last_affected")

    @cached_property
    def by_day(self) -> Mapping[date, tuple[Entry, ...]]:
        return LazyMapping(self._days("committed"), lambda day: self._of(day).by_day[day])

    @cached_property
    def _files(self) -> Mapping[date, Mapping[str, FileEntry]]:
        return LazyMapping(self._days("committed"), lambda day: self._of(day).files(day))

    def watermarks(self, upstream: str) -> Mapping[date, int]:
        return _of_days(self._index.watermarks(upstream))

    def watermark(self, upstream: str, day: date) -> int:
        return self.watermarks(upstream).get(day, 0)

    def published_up_to(self, upstream: str, day: date) -> int:
        rewound = day in self.rewound
        return (super().published_up_to if rewound else self.watermark)(upstream, day)

    def has_exactly(self, day: date, files: int) -> bool:
        # A file that is to be loaded again after a rewind may look as it did.
        was_rewound = day in self._rewinds
        return not was_rewound and 0 < self._days("files").get(day, 0) == files

    def position(self, day: date) -> str:
        return self._index.positions.get(day, "")

    def codes(self, day: date) -> Iterable[str]:
        return self._index.codes.get(day, ())

    def changes(self, day: date, low: int) -> tuple[Entry, ...]:
        return self._touching(day, low) if self.last_touched.get(day, 0) > low else ()

    def looked_up_changes(self, day: date, low: int) -> tuple[Entry, ...]:
        if max(self.last_looked_up.get(each, 0) for each in (day, None)) <= low:
            return ()
        later = (e for e in self._published_later(low) if e.affects is None or day in e.affects)
        return (*self._reader.affecting(day, low), *later)

    def followed_by(self, outcomes: Sequence[Entry]) -> IndexedHistory:
        index = self._index.followed_by(summaries_of(outcomes))
        after = IndexedHistory(self._reader, (*self._later, *outcomes), index)
        changed = {entry.day for entry in outcomes}
        after._histories.update((d, h) for d, h in self._histories.items() if d not in changed)
        return after

    def _of(self, day: date) -> TableHistory:
        """All entries of a day, as a history of its own."""
        if day not in self._histories:
            later = (entry for entry in self._later if entry.day == day)
            found = (*self._reader.of_day(day), *later)
            self._histories[day] = TableHistory(self.table, found)
        return self._histories[day]

    def _last_of(self, day: date, state: State) -> Entry:
        return next(e for e in reversed(self._of(day).outcomes) if e.state == state)

    def _touching(self, day: date, low: int) -> tuple[Entry, ...]:
        later = (e for e in self._published_later(low) if any(t.day == day for t in e.touched))
        return (*self._reader.touching(day, low), *later)

    def _published_later(self, low: int) -> Iterator[Entry]:
        return (e for e in self._later if e.state == "committed" and e.batch > low)

    def _days(self, name: str) -> Mapping[date, int]:
        """The days that have a number in this field of their summary."""
        return _of_days(self._index.numbers(name))

    def _later_than(self, name: str, other: str) -> Mapping[date, int]:
        """The days of which one number is above another one."""
        others = self._days(other)
        return {day: n for day, n in self._days(name).items() if n > others.get(day, 0)}


def _of_days(numbers: Mapping[date | None, int]) -> Mapping[date, int]:
    """None is a day only of what is looked up."""
    return cast("Mapping[date, int]", numbers)
