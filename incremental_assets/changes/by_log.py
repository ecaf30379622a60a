"""Change detector for change logs: what is new in a log is what has not been read yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.as_read import AsRead
from incremental_assets.changes.bronze_events import Events, debezium_events, flat_log_events
from incremental_assets.changes.debezium import UNKNOWN_OPERATION
from incremental_assets.changes.detector import Detector, NewRows, SourceWindow
from incremental_assets.changes.event_identity import EVENT, not_yet_quarantined, with_identity
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.lacking import events_with_reasons, with_partial
from incremental_assets.changes.log_events import (
    MOST_SHOWN,
    OP_WORD,
    LogEvents,
    envelope_events,
    flat_events,
    key_reasons,
)
from incremental_assets.changes.log_truncates import Truncated, truncate_values, with_truncates
from incremental_assets.changes.new_files import LogFiles, bounded, new_files
from incremental_assets.changes.operations import Operation, folded_words
from incremental_assets.changes.position import FINGERPRINT, Position, version_read
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.soft_deletes import require_own_column
from incremental_assets.changes.source_rows import hash_of
from incremental_assets.changes.unchanged import (
    DEBEZIUM,
    NoEarlier,
    Unchanged,
    require_unchanged,
)
from incremental_assets.changes.watermark import (
    Advance,
    Seen,
    as_text,
    checked,
    furthest,
    instant,
    instant_at,
    number,
)
from incremental_assets.choices import require_function
from incremental_assets.delta.columns import (
    DELETED,
    HASH,
    OPERATION,
    ORDER,
    PARTIAL,
    REASONS,
    WITHIN,
)
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.plurals import counted
from incremental_assets.quality.gate import Counted, Value
from incremental_assets.quality.reasons import is_good

_OPERATION = "operation"


@dataclass(frozen=True)
class _Read:
    """What a load has found out of a log: what it reads of it, and the kind of its positions."""

    log: LogFiles
    kind: str | None
    is_timed: bool


@dataclass(frozen=True)
class ChangeLog(Detector):
    """The files, or the commits of a Delta table, that have not been read yet.

    Not what has a higher number: an event that is written late with a lower number still counts,
    and is applied in the order of the log. `operation` and `sequence` are the columns of a flat
    log; they are of the log and not of the row, so they do not come into the target. `operations`
    adds further words. `ChangeLog.debezium()` reads Debezium's envelopes, which need neither.

    `time` is the field of a flat log's row with the moment of its change, for an SCD2 table that is
    measured in time. Under Debezium it makes a line without an envelope count, too: as the row as
    it was from that moment on. So land the rows of a connector that unwraps its messages and adds
    nothing, or of a feed that never had a log; such lines record no deletes, and a log has either
    kind, not both. A flattened row without a position or a time of its own is ordered by it, too.

    `deleted` is for rows that have no operation, but a column that marks them as deleted
    (`deleted_at`, `is_deleted`): null, false, no, off, 0 and "" mean that the row is live. All of
    its columns, `sequence` too, are the row's own.

    `unchanged` are the fields of an update that did not change, and keep the value that the version
    before it in the order of the log has: those that are "marked" by the `placeholder` (Debezium's
    `unavailable.value.placeholder`), also those that are "absent", or also those that are "null".
    `no_earlier` is what happens to an event of which no earlier version is known: it is put into
    "quarantine", or the field is "null" until such a version comes.
    """

    name: ClassVar[str] = "change log"
    finds_deletes: ClassVar[bool] = True
    finds_truncates: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True
    reads_once: ClassVar[bool] = True

    operation: str = _OPERATION
    sequence: str = "sequence_num"
    operations: Mapping[str, Operation] = field(default_factory=dict)
    envelope: Literal["flat", "debezium"] = "flat"
    watermark: Advance | None = None
    time: str = ""
    deleted: str = ""
    unchanged: Unchanged = "marked"
    no_earlier: NoEarlier = "quarantine"
    placeholder: str = ""

    def __post_init__(self) -> None:
        require_unchanged("ChangeLog", self.unchanged, self.no_earlier)
        require_function("ChangeLog: watermark", self.watermark)
        folded_words(self.operations)
        if not self.deleted:
            return
        if self.is_debezium or self.operations or self.operation not in ("", _OPERATION):
            raise DefinitionError(
                f"ChangeLog: deleted={self.deleted!r} is for rows without an operation, and this "
                "log has some; leave deleted out, or operation, operations and the envelope."
            )
        require_own_column("ChangeLog", self.deleted, self.sequence)

    @classmethod
    def debezium(
        cls,
        watermark: Advance | None = None,
        time: str = "",
        unchanged: Unchanged = "marked",
        no_earlier: NoEarlier = "quarantine",
        placeholder: str = DEBEZIUM,
    ) -> ChangeLog:
        """Debezium's change events, with or without the schema wrapper."""
        return cls(
            *("", ""),
            envelope="debezium",
            watermark=watermark,
            time=time,
            unchanged=unchanged,
            no_earlier=no_earlier,
            placeholder=placeholder or DEBEZIUM,
        )

    @property
    def may_lack_fields(self) -> bool:
        """Whether an event may lack fields that did not change."""
        return bool(self.placeholder) or self.unchanged != "marked"

    def next_watermark(self, before: Any, seen: Seen) -> Any:
        """The watermark after a load, for people: what is new does not depend on it."""
        return (self.watermark or furthest)(before, seen)

    def advanced(self, before: Any, seen: Seen) -> Any:
        """The next watermark, checked. Raises WatermarkError."""
        name = self.sequence or "the log position"
        return checked(name, before, self.next_watermark(before, seen), seen)

    @property
    def is_debezium(self) -> bool:
        """Whether the log is of Debezium's envelopes."""
        return self.envelope == "debezium"

    @property
    def order(self) -> tuple[str, ...]:
        return (ORDER, WITHIN, HASH) if self.is_debezium or self.deleted else (ORDER, HASH)

    @property
    def named_columns(self) -> tuple[str, ...]:
        own = (self.deleted or self.operation, self.sequence, self.time)
        return () if self.is_debezium else tuple(filter(None, own))

    @property
    def left_out(self) -> tuple[str, ...]:
        return () if self.is_debezium or self.deleted else (self.operation, self.sequence)

    @property
    def positioned_by(self) -> str:
        """What the ledger calls the order of the log."""
        return self.sequence or "log position"

    def inspect(self, request: ReadRequest) -> Inspection:
        """By its files, or its version."""
        source, most = request.source, request.max_records
        before, log = self.position(request).state.get("version"), self._unread(request, most)
        paths = tuple(file.path for file in log.files)
        if log.nothing:
            if log.version is None:
                return Inspection("nothing", "all files were read")
            return Inspection("nothing", f"{source.version_text(before)} of the log was read")
        if log.version is None:
            bound = f", of which a load takes {most} events at most" if most is not None else ""
            unread = counted(len(paths), "unread file")
            return Inspection("new", f"{unread}{bound}", paths)
        read = "it was never" if before is None else f"{source.version_text(before)} was"
        return Inspection("new", f"the log has {source.version_text(source.version)}; {read} read")

    def rewound(self, last: Position, before: Position) -> Position:
        """The state of the log, its truncates too, stays; the log is read again."""
        read = ("version", FINGERPRINT)
        known = {name: value for name, value in last.state.items() if name not in read}
        then = {name: value for name, value in before.state.items() if name in read}
        return replace(before, state=known | then)

    def as_read(self, request: ReadRequest) -> AsRead:
        """The whole log. Raises SourceError where files are missing, or were not read yet."""
        source, known = request.source, request.state.files
        there = {file.path for file in source.files}
        missing = [path for path in known if path not in there] if source.version is None else []
        if missing:
            raise SourceError(
                f"{request.name}: {len(missing):,} of the {counted(len(known), 'file')} of the "
                f"log that were read are missing from {source.path}, such as {missing[0]}. Their "
                "events cannot be rebuilt, so nothing was compared: restore them, then verify."
            )
        if not self._unread(request, None).nothing:
            raise SourceError(
                f"{request.name}: the log {source.path} has events that were not read yet. Load "
                "them, then verify."
            )
        return AsRead(source, replace(self, watermark=None), forgets=not source.has_all_it_had)

    def _unread(self, request: ReadRequest, most: int | None) -> LogFiles:
        """What of the log was not read yet; of versions as many as have about so many events."""
        read = version_read(request.source, self.position(request).state)
        return new_files(self, request.source, request.state.files, read, most)

    def events(
        self, frames: Frames, rows: DataFrame, key: Sequence[str], kind: Any, table: str
    ) -> Events:
        if self.is_debezium:
            return debezium_events(frames, rows, self, key, kind, table)
        return flat_log_events(frames, rows, self, kind)

    def read(self, request: ReadRequest, frames: Frames) -> SourceWindow | None:
        """The events of what has not been read yet."""
        state = request.state
        before = self.position(request)
        unread = self._unread(request, request.max_records)
        if unread.nothing:
            return None
        log = bounded(frames, unread, request.max_records)
        of_good = state.quarantine_rows(frames.session) is not None
        events = self._events(request, frames, log, of_good=of_good)
        while events is None and len(log.files) < len(unread.files):
            # Files that hold no row name no column; with the next ones they are read.
            passed = {file.path for file in log.files}
            log = bounded(frames, unread, request.max_records, passed)
            events = self._events(request, frames, log, of_good=of_good)
        most = request.max_records or 0
        while events is None and log.version != request.source.version:
            most *= 2  # versions without a row name none, either
            log = self._unread(request, most)
            events = self._events(request, frames, log, of_good=of_good)
        if events is None:
            return None
        return self._window(frames, events, log, not_yet_quarantined(events.rows, state), before)

    def read_again(
        self, request: ReadRequest, frames: Frames, quarantined: DataFrame
    ) -> SourceWindow | None:
        """The events that are in quarantine, from the files that they came from."""
        source, log = request.source, LogFiles(request.source, version=request.source.version)
        if source.version is None:
            names = {row["_file"] for row in quarantined.select("_file").distinct().collect()}
            there = (f for f in source.files if f.path in names)
            files = tuple(FileEntry(f.path, f.size, f.tag, f.modified) for f in there)
            if not files:
                return None
            log = LogFiles(source, files)
        events = self._events(request, frames, log, of_good=True)
        if events is None:
            return None
        known = quarantined.select(F.col(HASH).alias(EVENT)).distinct()
        rows = events.rows.join(known, EVENT, "left_semi")
        return self._window(frames, events, log, rows, self.position(request))

    def advance_again(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows:
        """The events, and the deletes that truncates among them make, or those that are known."""
        before, truncated = window.before, Truncated.of(window.before.state, counted.values)
        state = {**before.state, "kind": window.found.kind, **truncated.state}
        return NewRows(
            with_truncates(frames, request, window.rows, truncated, self),
            window.own,
            replace(before, state=state),
            counted.whole.rows,
            counted.whole.quarantined,
            bool(counted.values["deletes"] or truncated.counts),
            notes=self._notes(counted.values["first_unknown"], counted.values["last_unknown"]),
            identity=EVENT,
        )

    def _events(
        self, request: ReadRequest, frames: Frames, log: LogFiles, *, of_good: bool
    ) -> LogEvents | None:
        """The events of a part of the log, with `_reasons`, and identified by `_event`."""
        read = envelope_events if self.is_debezium else flat_events
        events = read(request, frames, self, self.position(request), log)
        if events is None:
            return None
        lacking, hashed, state = events.lacking, hash_of(events.own), request.state
        if lacking is not None:
            hashed = lacking.hashed(events.own, hashed)
        rows = events.rows.withColumns({DELETED: F.col(OPERATION) == "delete", HASH: hashed})
        reasons = [*events.reasons, *key_reasons(request.key)]
        rows = events_with_reasons(
            *(request, frames, rows, reasons, _is_upsert(), lacking),
            *(list(events.own), self.order, self.sequence),
        )
        rows = with_identity(rows, events.stated, of_good=of_good)
        rows = with_partial(rows, lacking, events.own, self.order, state.columns)
        partial = {PARTIAL: rows.schema[PARTIAL].dataType} if PARTIAL in rows.columns else {}
        return replace(events, rows=rows, own={**events.own, **partial})

    def _window(
        self, frames: Frames, events: LogEvents, log: LogFiles, rows: DataFrame, before: Position
    ) -> SourceWindow:
        rows = frames.cache(rows)
        timed = rows.schema[ORDER].dataType.typeName() == "timestamp"
        position = F.unix_micros(ORDER) if timed else F.col(ORDER)
        unknown = F.when(F.array_contains(REASONS, UNKNOWN_OPERATION), F.col(OP_WORD))
        values = {
            "highest": Value(F.max(F.when(is_good(), position)), max),
            "deletes": Value(F.count_if(F.col(DELETED) & is_good())),
            "first_unknown": Value(F.min(unknown), min),
            "last_unknown": Value(F.max(unknown), max),
        }
        values |= truncate_values(self.order, position)
        found = _Read(log, events.kind, timed)
        return SourceWindow(rows, events.own, before, values, _is_upsert(), found=found)

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The events, with the deletes that truncates make."""
        values, found, before = counted.values, window.found, window.before
        truncated = Truncated.of(before.state, values)
        rows = with_truncates(frames, request, window.rows, truncated, self)
        high = self._high_after(before.high, counted, request, timed=found.is_timed)
        state: dict[str, Any] = {"kind": found.kind, **truncated.state}
        if found.log.version is not None:
            state["version"] = found.log.version
            if found.log.version == request.source.version:
                state[FINGERPRINT] = request.source.fingerprint
        return NewRows(
            rows,
            window.own,
            Position(self.name, self.positioned_by, high, state),
            counted.whole.rows,
            counted.whole.quarantined,
            bool(values["deletes"] or truncated.counts),
            found.log.files,
            (
                *(found.log.added.notes if found.log.added is not None else ()),
                *self._notes(values["first_unknown"], values["last_unknown"]),
            ),
            identity=EVENT,
        )

    def _notes(self, *words: str | None) -> tuple[str, ...]:
        """The notes on unknown operations, of which these are the first and last."""
        there = sorted({word for word in words if word is not None})
        if not there or self.is_debezium:
            return ()
        shown = ", ".join(repr(word[:MOST_SHOWN]) for word in there)
        note = (
            f"unknown operations, such as {shown} (column {self.operation!r}): define what "
            "they mean with operations={'word': 'upsert' | 'delete' | 'truncate' | 'ignore'}, and "
            "replay the quarantine"
        )
        return (note,)

    def _high_after(
        self, before: str, counted: Counted, request: ReadRequest, *, timed: bool
    ) -> str:
        """The highest log position that was ever read, for people: it decides nothing."""
        highest, rows = counted.values["highest"], counted.whole.rows
        top: Any = None if highest is None else int(highest)
        top = instant_at(top) if timed and top is not None else top
        known = instant(before) if timed else number(before)
        return as_text(self.advanced(known, Seen(top, top, rows, request.now)))


def _is_upsert() -> Column:
    return F.coalesce(F.col(OPERATION) == "upsert", F.lit(False))
