"""Change detector for change logs: what is new in a log is what has not been read yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.bronze_events import Events, debezium_events, flat_log_events
from incremental_assets.changes.detector import Detector, NewRows, SourceWindow
from incremental_assets.changes.event_identity import not_yet_quarantined, with_identity
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.log_events import (
    MOST_SHOWN,
    OP_WORD,
    envelope_events,
    flat_events,
    key_reasons,
)
from incremental_assets.changes.log_truncates import Truncated, truncate_values, with_truncates
from incremental_assets.changes.new_files import LogFiles, bounded, new_files
from incremental_assets.changes.operations import Operation
from incremental_assets.changes.position import Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import hash_of
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
from incremental_assets.delta.columns import DELETED, HASH, OPERATION, ORDER, WITHIN
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.quality.gate import Counted, Value, is_good


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
    adds words of one's own. `ChangeLog.debezium()` reads Debezium's envelopes, which need neither.

    `time` is the field of a flat log's row that says when it changed, for a history that is
    measured in time. Under Debezium it makes a line without an envelope count, too: as the row as
    it was from that moment on. So land the rows of a connector that unwraps its messages and adds
    nothing, or of a feed that never had a log; such lines tell of no deletes, and a log has either
    kind, not both.
    """

    name: ClassVar[str] = "change log"
    is_log: ClassVar[bool] = True
    finds_deletes: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True

    operation: str = "operation"
    sequence: str = "sequence_num"
    operations: Mapping[str, Operation] = field(default_factory=dict)
    envelope: Literal["flat", "debezium"] = "flat"
    watermark: Advance | None = None
    time: str = ""

    @classmethod
    def debezium(cls, watermark: Advance | None = None, time: str = "") -> ChangeLog:
        """Debezium's change events, with or without the schema wrapper."""
        return cls("", "", envelope="debezium", watermark=watermark, time=time)

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
        return (ORDER, WITHIN, HASH) if self.is_debezium else (ORDER, HASH)

    @property
    def positioned_by(self) -> str:
        """What the ledger calls the order of the log."""
        return self.sequence or "log position"

    def inspect(self, request: ReadRequest) -> Inspection:
        """Its files, or its version, tell."""
        before, log = self.position(request).state.get("version"), self._unread(request)
        paths = tuple(file.path for file in log.files)
        if log.nothing:
            read = f"version {before}" if log.version is not None else "all files"
            return Inspection("nothing", f"{read} of the log was read")
        if log.version is None:
            most = request.max_records
            bound = f", of which a load takes {most} events at most" if most is not None else ""
            return Inspection("new", f"{len(paths)} files were not read{bound}", paths)
        since = "it was never read" if before is None else f"version {before} was read"
        return Inspection("new", f"the log has version {request.source.version}; {since}")

    def rewound(self, last: Position, before: Position) -> Position:
        """What the target knows of the log, its truncates among it, stays; it is read again."""
        state = {name: value for name, value in last.state.items() if name != "version"}
        if "version" in before.state:
            state["version"] = before.state["version"]
        return replace(before, state=state)

    def _unread(self, request: ReadRequest) -> LogFiles:
        """What of the log was not read yet."""
        one_by_one = request.max_records is not None
        before = self.position(request)
        return new_files(request.source, request.state.files, before, one_by_one=one_by_one)

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
        log = self._unread(request)
        if log.nothing:
            return None
        log = bounded(frames, log, request.max_records)
        read = envelope_events if self.is_debezium else flat_events
        events = read(request, frames, self, before, log)
        if events is None:
            return None
        rows = events.rows.withColumns(
            {DELETED: F.col(OPERATION) == "delete", HASH: hash_of(events.own)}
        )
        live = F.coalesce(F.col(OPERATION) == "upsert", F.lit(False))
        reasons = [*events.reasons, *key_reasons(request.key)]
        rows = request.with_reasons(rows, reasons, live, keyed=False)
        rows = frames.cache(not_yet_quarantined(with_identity(rows, events.stated), state))
        timed = rows.schema[ORDER].dataType.typeName() == "timestamp"
        place = F.unix_micros(ORDER) if timed else F.col(ORDER)
        unknown = F.when(F.col(OPERATION).isNull() & is_good(), F.coalesce(OP_WORD, F.lit("null")))
        values = {
            "highest": Value(F.max(F.when(is_good(), place)), max),
            "deletes": Value(F.count_if(F.col(DELETED) & is_good())),
            "first_unknown": Value(F.min(unknown), min),
            "last_unknown": Value(F.max(unknown), max),
        }
        values |= truncate_values(self.order, place)
        return SourceWindow(
            rows, events.own, before, values, live, found=_Read(log, events.kind, timed)
        )

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The events, with the deletes that truncates make.

        Raises SourceError for an operation that nobody knows.
        """
        values, found, before = counted.values, window.found, window.before
        self._refuse_unknown(request, values["first_unknown"], values["last_unknown"])
        truncated = Truncated.of(before.state, values)
        rows = with_truncates(frames, request, window.rows, truncated, self)
        high = self._high_after(before.high, counted, request, timed=found.is_timed)
        state: dict[str, Any] = {"kind": found.kind, **truncated.state}
        if found.log.version is not None:
            state["version"] = found.log.version
        return NewRows(
            rows,
            window.own,
            Position(self.name, self.positioned_by, high, state),
            counted.whole.rows,
            counted.whole.quarantined,
            bool(values["deletes"] or truncated.counts),
            found.log.files,
        )

    def _high_after(
        self, before: str, counted: Counted, request: ReadRequest, *, timed: bool
    ) -> str:
        """The highest log position that was ever read, for people: it decides nothing."""
        highest, rows = counted.values["highest"], counted.whole.rows
        top: Any = None
        if highest is not None:
            top = instant_at(int(highest)) if timed else int(highest)
        known = instant(before) if timed else number(before)
        return as_text(self.advanced(known, Seen(top, top, rows, request.now)))

    def _refuse_unknown(self, request: ReadRequest, *words: str | None) -> None:
        there = sorted({word for word in words if word is not None})
        if there:
            shown = ", ".join(repr(word[:MOST_SHOWN]) for word in there)
            raise SourceError(
                f"{request.name}: the change log {request.source.path} has operations that nobody "
                f"knows, such as {shown} (column {self.operation!r}). Nothing was loaded; say what "
                "they mean with operations={'word': 'upsert' | 'delete' | 'truncate' | 'ignore'}."
            )
