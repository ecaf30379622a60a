"""The ledger's history of one table: batches, watermarks, held days, rewinds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TypeVar

from incremental_assets.ledger.entry import Entry, FileEntry, is_of_a_load

_K = TypeVar("_K")
_OUTDATING = ("abandoned", "dropped")


@dataclass(frozen=True)
class TableHistory:
    """Everything the ledger knows of one table, oldest first."""

    table: str
    entries: tuple[Entry, ...] = ()

    @cached_property
    def outcomes(self) -> tuple[Entry, ...]:
        """The final entries, by batch; a claim is no outcome."""
        return tuple(e for e in self.entries if e.state != "claimed")

    @cached_property
    def loads(self) -> tuple[Entry, ...]:
        """The outcomes of batches, without manual decisions."""
        return tuple(e for e in self.outcomes if is_of_a_load(e))

    @cached_property
    def committed(self) -> tuple[Entry, ...]:
        """The entries of days that were published."""
        return tuple(e for e in self.outcomes if e.state == "committed")

    @cached_property
    def last_final_batch(self) -> Mapping[date, int]:
        """Per day: the last batch or manual decision."""
        final = ("committed", "held", "accepted")
        return {e.day: e.batch for e in self.outcomes if e.state in final}

    @property
    def last_batch(self) -> int:
        """The highest batch number ever claimed; 0 before the first."""
        return self.entries[-1].batch if self.entries else 0

    @property
    def high(self) -> int:
        """The highest batch number that was published; 0 before the first."""
        return self.committed[-1].batch if self.committed else 0

    @property
    def last(self) -> Entry | None:
        """The newest entry that was published; of several days, that of the last one."""
        return self.committed[-1] if self.committed else None

    @cached_property
    def last_loaded(self) -> Entry | None:
        """As `last`, of the batches of loads: rewinds and retractions are passed over."""
        return next((e for e in self.newest_first() if e.ends_hold), None)

    def newest_first(self, up_to: int | None = None) -> Iterator[Entry]:
        """The published entries, backwards, from batch `up_to` on if it is given."""
        return (e for e in reversed(self.committed) if up_to is None or e.batch <= up_to)

    def above(self, batch: int) -> Sequence[Entry]:
        """The final entries of later batches."""
        return [e for e in self.outcomes if e.batch > batch]

    def of_day(self, day: date) -> Sequence[Entry]:
        """The final entries for a day, oldest first."""
        return [e for e in self.outcomes if e.day == day]

    @cached_property
    def days_with_quarantine(self) -> Collection[date]:
        """The days whose batches quarantined rows, were abandoned, or whose rows were dropped."""
        return {e.day for e in self.outcomes if e.rows_quarantined or e.state in _OUTDATING}

    @property
    def was_rewound(self) -> bool:
        """Whether a watermark was ever rewound."""
        return bool(self._rewinds)

    @cached_property
    def _rewinds(self) -> Mapping[date, int]:
        """Per day: its last rewind, also if it was loaded since."""
        return _rewinds(self.committed)

    @cached_property
    def settled(self) -> frozenset[int]:
        """The batches that have an outcome."""
        return frozenset(e.batch for e in self.outcomes)

    @cached_property
    def unsettled(self) -> tuple[Entry, ...]:
        """The claims of the last load if it has no outcome yet; manual decisions are no outcome."""
        last = max((e.batch for e in self.entries if is_of_a_load(e)), default=0)
        found = tuple(e for e in self.entries if e.batch == last)
        return () if any(e.state != "claimed" for e in found) else found

    @cached_property
    def last_committed(self) -> Mapping[date, Entry]:
        """Per day: the last batch that was published for it."""
        return {e.day: e for e in self.committed}

    @cached_property
    def last_published(self) -> Mapping[date, Entry]:
        """Per day: the last batch that wrote rows; a rewind writes none."""
        return {e.day: e for e in self.committed if e.kind != "rewind"}

    @cached_property
    def held(self) -> Mapping[date, Entry]:
        """The days whose last load failed its gate, with its outcome.

        A rewind or a retraction since then does not end it: what was held was not evaluated again.
        What a source without days had new on a day is part of what it has new on the next one, so
        such a hold ends with the next published batch, whatever its day.
        """
        last = {e.day: e for e in self.outcomes if e.ends_hold or e.state == "held"}
        held = {day: e for day, e in last.items() if e.state == "held"}
        return _still_held(held, self.last_loaded)

    @cached_property
    def accepted(self) -> Mapping[date, Entry]:
        """The held days that were accepted, and not rewound: that voids what was judged."""
        last = {e.day: e for e in self.outcomes if e.state == "accepted"}
        held = self.held
        return {
            day: e
            for day, e in last.items()
            if day in held and e.batch > held[day].batch and not self.is_held_and_rewound(day)
        }

    def judged(self, day: date) -> Entry | None:
        """The hold of a day that no load evaluates again before the day's input changes.

        None for a day that is not held, and for one that was accepted or rewound since: a load of
        it is due.
        """
        is_due = day in self.accepted or self.is_held_and_rewound(day)
        return None if is_due else self.held.get(day)

    def is_held_and_rewound(self, day: date) -> bool:
        """Whether a day was rewound since it was held, so that the next load evaluates it again.

        A source without days has one watermark, so a rewind of any day is one of all.
        """
        held = self.held.get(day)
        if held is None or not self._rewinds:
            return False
        last = self.last_loaded
        is_whole = last is not None and last.is_of_whole_source
        of_day = self._rewinds.get(day, 0)
        return held.batch < (max(self._rewinds.values()) if is_whole else of_day)

    @cached_property
    def rewound(self) -> Mapping[date, Entry]:
        """The days whose watermark was rewound and that were not loaded since."""
        return {day: e for day, e in self.last_committed.items() if e.kind == "rewind"}

    @cached_property
    def to_load_again(self) -> Mapping[date, frozenset[str]]:
        """Per day: the paths of the files that a rewind has taken back, until they are loaded."""
        return _to_load_again({}, self.committed)

    @cached_property
    def published_days(self) -> frozenset[date]:
        """The days of this table's partitions that a batch ever wrote to."""
        return frozenset(t.day for e in self.committed for t in e.touched)

    def watermarks(self, upstream: str) -> Mapping[date, int]:
        """Per day: how far the table has read an upstream; without the days that read nothing."""
        highs = {day: _high(entry, upstream) for day, entry in self.last_committed.items()}
        return {day: high for day, high in highs.items() if high}

    def watermark(self, upstream: str, day: date) -> int:
        """How far the table has read an upstream for a day: the high end of its last window."""
        return _high(self.last_committed.get(day), upstream)

    def published_up_to(self, upstream: str, day: date) -> int:
        """How far the published rows of a day were read: its watermark without rewinds."""
        return _high(self.last_published.get(day), upstream)

    def files(self, day: date) -> Mapping[str, FileEntry]:
        """The files of a landing day as they were last loaded, by path; also retracted ones."""
        return self._files.get(day, {})

    def landing_days(self) -> Mapping[str, date]:
        """The landing day of each file that was loaded, or is held, by path; reads all days."""
        return self._landing_days

    @cached_property
    def _landing_days(self) -> Mapping[str, date]:
        held = {file.path: day for day, entry in self.held.items() for file in entry.files}
        return held | {path: day for day, files in self._files.items() for path in files}

    def retracted(self, day: date) -> frozenset[str]:
        """The paths of the files of a landing day that were retracted, and not loaded since."""
        found: frozenset[str] = frozenset()
        for entry in self.by_day.get(day, ()):
            if entry.kind == "retract":
                found |= _paths(entry)
            elif entry.kind != "rewind":
                found -= _paths(entry)
        return found

    def to_retract(self, day: date) -> frozenset[str]:
        """The paths of retracted files of a landing day whose rows the table has all the same.

        A ledger that was rebuilt has them where the table is older than the retraction: a rewind
        names them after it, until a load removes these rows.
        """
        found = retracted = frozenset[str]()
        for entry in self.by_day.get(day, ()):
            if entry.kind == "retract":
                found, retracted = found - _paths(entry), retracted | _paths(entry)
            elif entry.kind == "rewind":
                found |= _paths(entry) & retracted
            else:
                found = retracted = frozenset()
        return found

    @property
    def days_to_retract(self) -> Collection[date]:
        """The landing days that have such files."""
        return [day for day in self.by_day if self.to_retract(day)]

    @cached_property
    def _files(self) -> Mapping[date, Mapping[str, FileEntry]]:
        found: dict[date, dict[str, FileEntry]] = {}
        for entry in self.committed:
            if entry.files:
                found.setdefault(entry.day, {}).update((f.path, f) for f in entry.files)
        return found

    @cached_property
    def files_read(self) -> Mapping[str, FileEntry]:
        """The files of all days as they were last loaded, without those to be loaded again."""
        found: dict[str, FileEntry] = {}
        for entry in self.committed:
            files = {file.path: file for file in entry.files}
            if entry.kind == "rewind":
                found = {path: file for path, file in found.items() if path not in files}
            else:
                found |= files
        return found

    def has_exactly(self, day: date, files: int) -> bool:
        """Whether the files of this fingerprint are all that was ever loaded for a day.

        It saves reading the day's history, and may be false where only that would show it.
        """
        return False

    def position(self, day: date) -> str:
        """The change detector's position when a day was last published; "" without one."""
        last = self.last_committed.get(day)
        return last.position if last is not None else ""

    @cached_property
    def touching(self) -> Mapping[date, tuple[Entry, ...]]:
        """Per day: the published batches that changed its rows, oldest first."""
        return _more({}, self.committed, _touched)

    @property
    def last_touched(self) -> Mapping[date, int]:
        """Per day: the last published batch that changed its rows."""
        return {day: entries[-1].batch for day, entries in self.touching.items()}

    def changes(self, day: date, low: int) -> tuple[Entry, ...]:
        """The published batches above `low` that changed rows of a day."""
        return _above(self.touching.get(day, ()), low)

    def looked_up_changes(self, day: date, low: int) -> tuple[Entry, ...]:
        """The published batches above `low` whose rows a fact of this day looks up."""
        named = _above(self.looked_up.get(day, ()), low)
        unknown = _above(self.looked_up.get(None, ()), low)
        if named and unknown:
            return tuple(sorted((*named, *unknown), key=_batch))
        return named or unknown

    @cached_property
    def looked_up(self) -> Mapping[date | None, tuple[Entry, ...]]:
        """Per fact day: the published batches that it looks up; None: those that any day may."""
        return _more({}, self.committed, _affected)

    @property
    def last_looked_up(self) -> Mapping[date | None, int]:
        """Per fact day: the last batch of those that it looks up; None: as in `looked_up`."""
        return {day: entries[-1].batch for day, entries in self.looked_up.items()}

    @cached_property
    def by_day(self) -> Mapping[date, tuple[Entry, ...]]:
        """Per day: the batches that were published for it, oldest first."""
        return _more({}, self.committed, lambda entry: (entry.day,))

    def since_rebuilt(self, day: date) -> Iterable[Entry]:
        """The published batches of a day from its last rebuild on, oldest first."""
        entries = self.by_day.get(day, ())
        rebuilt = [at for at, entry in enumerate(entries) if entry.mode == "rebuild"]
        return entries[rebuilt[-1] :] if rebuilt else entries

    def since_rebuilt_with_drops(self, day: date) -> Sequence[Entry]:
        """As `since_rebuilt`, with the drops of the day's rows from quarantine since then."""
        first = next((entry.batch for entry in self.since_rebuilt(day)), None)
        if first is None:
            return ()
        states = ("committed", "dropped")
        return [e for e in self.of_day(day) if e.batch >= first and e.state in states]

    def codes(self, day: date) -> Iterable[str]:
        """The code versions of a day's batches since it was last rebuilt or restated."""
        entries = list(self.since_rebuilt(day))
        restated = [at for at, entry in enumerate(entries) if entry.kind == "restate"]
        return {entry.code_version for entry in entries[restated[-1] if restated else 0 :]}

    def followed_by(self, outcomes: Sequence[Entry]) -> TableHistory:
        """The history after one more batch with these outcomes.

        Cached properties are carried forward and not computed again, so that a plan may add
        hundreds of batches to a long history.
        """
        after = TableHistory(self.table, (*self.entries, *outcomes))
        published = tuple(e for e in outcomes if e.state == "committed")
        after.__dict__.update(  # where cached properties are stored
            outcomes=(*self.outcomes, *outcomes),
            committed=(*self.committed, *published),
            _rewinds={**self._rewinds, **_rewinds(published)},
        )
        days = {e.day for e in outcomes if e.ends_hold or e.state == "held"}
        held = {e.day: e for e in outcomes if e.state == "held"}
        held = {d: e for d, e in self.held.items() if d not in days} | held
        held = _still_held(held, after.last_loaded)
        after.__dict__.update(held=held)
        accepted = {d: e for d, e in self.accepted.items() if d in held and d not in days}
        files: dict[date, Mapping[str, FileEntry]] = {}
        for entry in published:
            if entry.files:
                before = files.get(entry.day, self.files(entry.day))
                files[entry.day] = {**before, **{f.path: f for f in entry.files}}
        after.__dict__.update(
            last_committed={**self.last_committed, **{e.day: e for e in published}},
            accepted={d: e for d, e in accepted.items() if not after.is_held_and_rewound(d)},
            to_load_again=_to_load_again(self.to_load_again, published),
            published_days=self.published_days | {t.day for e in published for t in e.touched},
            touching=_more(self.touching, published, _touched),
            looked_up=_more(self.looked_up, published, _affected),
            by_day=_more(self.by_day, published, lambda entry: (entry.day,)),
            _files={**self._files, **files},
        )
        return after


def _rewinds(published: Iterable[Entry]) -> dict[date, int]:
    return {entry.day: entry.batch for entry in published if entry.kind == "rewind"}


def _still_held(held: dict[date, Entry], last: Entry | None) -> dict[date, Entry]:
    """Without the days whose input was part of that of the `last` load that was published."""
    if last is None or not last.is_of_whole_source:
        return held
    return {day: entry for day, entry in held.items() if entry.batch > last.batch}


def _high(entry: Entry | None, upstream: str) -> int:
    """The high end of a batch's window of an upstream; 0 without one."""
    windows = entry.windows if entry is not None else ()
    return next((w.high for w in windows if w.upstream == upstream), 0)


def _more(
    index: Mapping[_K, tuple[Entry, ...]],
    entries: Iterable[Entry],
    keys: Callable[[Entry], Iterable[_K]],
) -> Mapping[_K, tuple[Entry, ...]]:
    """An index of entries, with further ones under each of their keys."""
    found: dict[_K, list[Entry]] = {}
    for entry in entries:
        for key in keys(entry):
            found.setdefault(key, []).append(entry)
    return {**index, **{key: (*index.get(key, ()), *some) for key, some in found.items()}}


def _to_load_again(
    before: Mapping[date, frozenset[str]], entries: Iterable[Entry]
) -> Mapping[date, frozenset[str]]:
    found = dict(before)
    for entry in entries:
        if entry.kind == "rewind":
            found[entry.day] = found.get(entry.day, frozenset()) | _paths(entry)
        elif entry.day in found:
            found[entry.day] -= _paths(entry)
    return {day: paths for day, paths in found.items() if paths}


def _touched(entry: Entry) -> Iterable[date]:
    return (touched.day for touched in entry.touched)


def _affected(entry: Entry) -> Iterable[date | None]:
    return (None,) if entry.affects is None else entry.affects


def _above(entries: tuple[Entry, ...], low: int) -> tuple[Entry, ...]:
    return entries[bisect_right(entries, low, key=_batch) :]


def _paths(entry: Entry) -> frozenset[str]:
    return frozenset(file.path for file in entry.files)


def _batch(entry: Entry) -> int:
    return entry.batch
