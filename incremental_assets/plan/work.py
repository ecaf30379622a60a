"""What a plan consists of: the work of a day, of a batch, and of all days."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from incremental_assets.ledger.entry import FileEntry, Kind, Mode, Window
from incremental_assets.sources.source import FixedSource, Version
from incremental_assets.sources.source_file import SourceFile


@dataclass(frozen=True, slots=True)
class DayWork:
    """What there is to do for one day: its windows, its files, or its stored source, and why.

    `rows` is the estimated number of rows to read; 0 where the files' sizes are known. `source` is
    what a stored feed holds now; of a source of versions, the version `since` was read before.
    `seen` and `listed` are the fingerprints of the rows and of the files that it has for the day,
    where they can be taken without Spark. `accepted` are the rules that do not hold the day this
    time, because a manual decision accepted what they found.
    """

    day: date
    why: str
    windows: tuple[Window, ...] = ()
    files: tuple[SourceFile, ...] = ()
    rows: int = 0
    source: FixedSource | None = None
    since: Version | None = None
    seen: str = ""
    listed: str = ""
    accepted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Work:
    """The days that one batch can do together: they are written in the same mode."""

    mode: Mode
    kind: Kind
    days: Mapping[date, DayWork]

    @property
    def source(self) -> FixedSource | None:
        """The stored source that all of the days are read from, if they are."""
        return next((day.source for day in self.days.values()), None)

    @property
    def files(self) -> list[SourceFile]:
        """The landed files that are read, of all days."""
        return [file for day in self.days.values() for file in day.files]

    @property
    def rows(self) -> int:
        """The estimated number of rows to read; 0 where `bytes` has the size."""
        return sum(day.rows for day in self.days.values())

    @property
    def bytes(self) -> int:
        """How many bytes of a source will be read; 0 where `rows` has the size."""
        if self.source is not None:
            return self.source.size()
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to load, and what not: `refused` days with the reason, `idle` ones without.

    `notes` are for the log. `waits` names, by day, the files that are there and not to be read yet.
    `now` is the clock reading by which the days of stored sources were planned.
    """

    work: tuple[Work, ...] = ()
    refused: Mapping[date, str] = field(default_factory=dict)
    idle: tuple[date, ...] = ()
    notes: tuple[str, ...] = ()
    waits: Mapping[date, str] = field(default_factory=dict)
    now: datetime | None = None

    @property
    def days(self) -> tuple[date, ...]:
        """The days that there is something to do for."""
        return tuple(sorted(day for work in self.work for day in work.days))

    def with_days(self, change: Callable[[DayWork], DayWork]) -> Plan:
        """The plan with the work of each day as `change` makes it."""
        works = [replace(w, days={d: change(t) for d, t in w.days.items()}) for w in self.work]
        return replace(self, work=tuple(works))


FIRST_LOAD = "first load of this day"
"""Why a day is loaded that the ledger has no load of."""


def first_load(of: str) -> str:
    """The same, with what is read."""
    return f"{FIRST_LOAD} ({of})"


def why_of_days(why: str) -> str:
    """The reason of a day as that of several, which have it in common."""
    rest = why.removeprefix(FIRST_LOAD)
    return why if rest == why else f"first load of these days{rest}"


def file_entries(files: Sequence[SourceFile]) -> tuple[FileEntry, ...]:
    """Landed files as the ledger records them."""
    return tuple(FileEntry(f.path, f.size, f.tag, f.modified) for f in files)
