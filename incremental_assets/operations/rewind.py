"""Lowering a watermark: what was loaded since is loaded again, once; the old entries stay.

A table of the lake is rewound by day, the target of a loader as a whole. What they hold is known
and not loaded twice, so a rewind brings what the loads since have missed: rows that came below the
watermark, files that were repaired in a way that did not show.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from incremental_assets.changes.position import state_of
from incremental_assets.changes.target_state import QUARANTINE_FROM, START
from incremental_assets.days import DayRange
from incremental_assets.engine.settling import TargetSettling
from incremental_assets.engine.target import TargetTable, request_of
from incremental_assets.errors import DefinitionError, SourceError, WatermarkError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Entry, FileEntry, Window
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record_decision, settle
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.plurals import counted
from incremental_assets.settings import user_name
from incremental_assets.table import Table

_SHOWN = 3


@dataclass(frozen=True)
class Rewound:
    """What a rewind did: the days whose watermark it lowered, to what it was after batch `to`.

    Of a loader's target, `watermark` is where the next load goes on ("": at the beginning of the
    source), and `files` are those of a change log that it reads again.
    """

    table: str
    to: int
    days: tuple[date, ...]
    watermark: str = ""
    files: tuple[str, ...] = ()


class Rewind(ABC):
    """A rewind of one table: which batch it goes back to, and the record of that.

    The two kinds of tables differ in the entries. `lock` is where the table's lock is. In messages,
    `load` loads it, and `batches` lists its batches. `why_not_again` is the reason that nothing
    can be read again; "" where something can.
    """

    name: str
    ledger: Ledger
    lock: str
    now: Callable[[], datetime]
    log: Callable[[str], None]
    load: str
    batches: str
    why_not_again: str

    @abstractmethod
    def _settled(self) -> TableHistory:
        """The history, after an unfinished batch was given its outcome."""

    @abstractmethod
    def _entries(
        self, history: TableHistory, found: Rewound, why: str, now: datetime
    ) -> list[Entry]:
        """The entries that lower the watermark."""

    def record(self, to: int | datetime, why: str, days: DayRange | None = None) -> Rewound:
        """Record that the table is to load again what its batches above `to` loaded.

        No row is removed before that load. An unfinished batch is given its outcome first. Raises
        as `found`, and ConflictError if a load claims a batch meanwhile.
        """
        if not isinstance(why, str) or not why.strip():
            raise DefinitionError("A rewind needs a reason, which stays in the ledger: give one.")
        with table_lock(self.lock, self.name, f"a rewind of {self.name}", self.log):
            history = self._settled()
            found = self.found(history, to, days)
            entries = self._entries(history, found, why.strip(), self.now())
            record_decision(self.ledger, self.name, history.last_batch, entries, "rewound")
        files = tuple(file.path for entry in entries for file in entry.files)
        return replace(found, watermark=entries[-1].high, files=files)

    def found(self, history: TableHistory, to: int | datetime, days: DayRange | None) -> Rewound:
        """What a rewind would do. Changes nothing.

        `to` is a batch of the table (0: before the first), or a moment: the last batch that was
        recorded by then. Raises WatermarkError where there is nothing to rewind, and
        DefinitionError for a table that cannot be.
        """
        if self.why_not_again:
            raise DefinitionError(
                f"{self.name}: {self.why_not_again}. {self.load} compares all of the present one."
            )
        number = self._batch_at(history, to) if isinstance(to, datetime) else to
        if not isinstance(number, int) or isinstance(number, bool):
            raise DefinitionError(
                f"{self.name}: {to!r} is neither the number of a batch nor a datetime. Name the "
                "batch that is to be the last again (0: none), or a datetime with its zone."
            )
        last = max((entry.batch for entry in history.loads), default=0)
        if number < 0 or number > last:
            raise WatermarkError(
                f"{self.name} has no batch {number} yet: its last is {last}. A watermark is only "
                f"ever lowered by hand; {self.load} loads what is new."
            )
        later = [day for day, entry in history.last_committed.items() if entry.batch > number]
        asked = sorted(day for day in later if days is None or day in days)
        if not asked:
            of = f" of {days}" if days else ""
            raise WatermarkError(
                f"{self.name}: nothing{of} was loaded after batch {number}, so there is nothing to "
                f"rewind. {self.batches} lists its batches."
            )
        return Rewound(self.name, number, tuple(asked))

    def _batch_at(self, history: TableHistory, at: datetime) -> int:
        if at.tzinfo is None:
            raise DefinitionError(f"{self.name}: {at} has no time zone; name it, as UTC.")
        if at > self.now():
            raise WatermarkError(
                f"{self.name}: {at.isoformat()} is in the future. Name a batch, or a moment at "
                "which the table was right."
            )
        return max((e.batch for e in history.loads if e.recorded_at <= at), default=0)


class TableRewind(Rewind):
    """Of a table of the lake, by day.

    The next load of these days reads files again and replaces their rows, and rows of a stored
    source from the lower watermark (one that is loaded is not added twice); a silver or gold day is
    rebuilt.
    """

    def __init__(self, lakehouse: Lakehouse, table: Table) -> None:
        self.name, self.lock = table.name, lakehouse.settings.lake
        self.ledger, self.now, self.log = lakehouse.ledger, lakehouse.now, lakehouse.log
        self.load = f"`incremental-assets run {table.name}`"
        self.batches = f"`incremental-assets watermarks history {table.name}`"
        self.why_not_again = table.why_not_again
        self._lakehouse, self._table = lakehouse, table

    def _settled(self) -> TableHistory:
        return self._lakehouse.settle(self._table).table(self.name)

    def _entries(
        self, history: TableHistory, found: Rewound, why: str, now: datetime
    ) -> list[Entry]:
        return rewind_entries(self._table, history, found, why, now)


class TargetRewind(Rewind):
    """Of a loader's target: the next load reads its source again from the lower watermark."""

    def __init__(
        self, target: TargetTable, now: Callable[[], datetime], log: Callable[[str], None]
    ) -> None:
        self.name, self.lock = target.name, target.ledger
        self.ledger, self.now, self.log = Ledger(target.ledger), now, log
        self.load = "`target.load()`"
        self.batches = f"The ledger {target.ledger}"
        self.why_not_again = target.changes.why_not_again
        self._target = target

    def _settled(self) -> TableHistory:
        settling = TargetSettling.of(self._target, self.log)
        settle(self.ledger, self.name, settling, self.now(), self.log)
        return self.ledger.view_if_any().table(self.name)

    def found(self, history: TableHistory, to: int | datetime, days: DayRange | None) -> Rewound:
        if self._target.write.replaces_by_batch:
            raise DefinitionError(
                f"{self.name}: {self._target.write} replaces loaded rows by those of a load, and "
                "rows that are loaded already would not be among them: they would be lost. Load "
                "into another target, under another table_name."
            )
        return super().found(history, to, days)

    def _entries(
        self, history: TableHistory, found: Rewound, why: str, now: datetime
    ) -> list[Entry]:
        target, batches = self._target, history.committed
        request = request_of(target, target.state.with_ledger(batches[-1], history), now)
        state = replace(request.state, last=_before(batches, found.to))
        changes, then = target.changes, replace(request, state=state)
        position = changes.rewound(changes.position(request), changes.position(then))
        known = {QUARANTINE_FROM: request.state.quarantine_from, START: request.start}
        remembered = {n: v for n, v in {**position.state, **known}.items() if v or n not in known}
        entry = replace(
            _entry(history, found, batches[-1], batches, why, now),
            day=now.date(),
            mode=batches[-1].mode,  # by which a load knows whether the target holds versions
            high=position.high,
            position=replace(position, state=remembered).as_json(),
        )
        self._require_there(entry.files, {file.path for file in request.source.files})
        return [entry]

    def _require_there(self, files: Sequence[FileEntry], there: Collection[str]) -> None:
        """Raise SourceError for files that are to be read again and are missing."""
        missing = [file.path for file in files if file.path not in there]
        if missing:
            shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
            of = f"{len(missing):,} of the {counted(len(files), 'file')}"
            raise SourceError(
                f"{self.name}: {of} of the log that are to be read again are missing from "
                f"{self._target.source.path}: {shown}. Nothing was rewound: restore them, or "
                "rewind to a later batch."
            )


def rewind_entries(
    table: Table, history: TableHistory, found: Rewound, why: str, now: datetime
) -> list[Entry]:
    """The entries that rewind a table of the lake: one a day, or one for a whole source."""
    is_whole = table.reads_whole_source
    of_source = _before(history.committed, found.to)
    entries = []
    for day in found.days[-1:] if is_whole else found.days:
        last, batches = history.last_committed[day], history.by_day[day]
        if is_whole:  # all days have one watermark
            batches = history.committed
        entry = _entry(history, found, last, batches, why, now)
        retracted = history.retracted(day)
        entry = replace(entry, files=tuple(f for f in entry.files if f.path not in retracted))
        before = of_source if table.changes.state_of_source else _before(batches, found.to)
        state = table.changes.rewound_day(state_of(last), state_of(before))
        entries.append(replace(entry, position=json.dumps(state) if state else ""))
    return entries


def _entry(
    history: TableHistory,
    found: Rewound,
    last: Entry,
    batches: Sequence[Entry],
    why: str,
    now: datetime,
) -> Entry:
    """The entry that lowers the watermark that `last` left, the last of these batches.

    Its files are to be loaded again, as they were last loaded.
    """
    before = _before(batches, found.to)
    highs = {window.upstream: window.high for window in before.windows} if before else {}
    since = [e for e in batches if e.batch > found.to and e.day in found.days]
    return Entry(
        table=found.table,
        batch=history.last_batch + 1,
        day=last.day,
        state="committed",
        kind="rewind",
        mode="replace",
        detector=last.detector,
        recorded_at=now,
        windows=tuple(Window(w.upstream, w.high, highs.get(w.upstream, 0)) for w in last.windows),
        files=tuple({file.path: file for entry in since for file in entry.files}.values()),
        affects=(),
        low=last.high,
        high=before.high if before else "",
        who=user_name(),
        why=why,
    )


def _before(batches: Sequence[Entry], to: int) -> Entry | None:
    """The last batch that remains."""
    return next((entry for entry in reversed(batches) if entry.batch <= to), None)
