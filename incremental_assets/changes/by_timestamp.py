"""Change detector for sources with a column that says when a row last changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.cursor import Cursor
from incremental_assets.changes.detector import NewRows, SourceWindow
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.position import Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import instant_of, own_types, unseen, with_order
from incremental_assets.changes.watermark import (
    Advance,
    Nulls,
    Seen,
    as_text,
    checked,
    furthest,
    instant,
    instant_at,
)
from incremental_assets.delta.columns import ORDER
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.quality.gate import Counted, Value
from incremental_assets.quality.types import Instant


@dataclass(frozen=True)
class Timestamp(Cursor):
    """Rows whose timestamp is at or above the watermark, without those that are loaded already.

    The rows at the watermark's own instant are read again and told apart by their content, so one
    that comes later is neither lost nor loaded twice. `lookback` widens what is read, not what is
    recorded: for rows that become visible late. Rows more than `max_clock_skew` ahead of the clock
    never move the watermark, which would silence the source until then: they are quarantined, or
    loaded (`future="include"`). `nulls` says what becomes of rows without a timestamp. Values
    without an offset are UTC.

    `watermark` is a function of one's own, from the watermark before and what was `Seen` to the
    new one; a subclass may override `next_watermark` instead.
    """

    name: ClassVar[str] = "timestamp"
    expected: ClassVar[str] = "ISO 8601"
    type_of: ClassVar[str] = "timestamp"

    column: str
    lookback: timedelta = timedelta(0)
    nulls: Nulls = "raise"
    max_clock_skew: timedelta = timedelta(minutes=5)
    future: Literal["quarantine", "include"] = "quarantine"
    watermark: Advance | None = None

    def __post_init__(self) -> None:
        if self.lookback < timedelta(0) or self.max_clock_skew < timedelta(0):
            raise DefinitionError(
                f"Timestamp({self.column!r}): lookback and max_clock_skew are not negative; found "
                f"{self.lookback} and {self.max_clock_skew}."
            )

    def read_from(self, watermark: datetime | None) -> datetime | None:
        """Rows at this instant and above may be new; None: all."""
        try:
            return None if watermark is None else watermark - self.lookback
        except OverflowError:
            return None

    def next_watermark(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The watermark after a load; between the one before and the highest that was seen."""
        found: datetime | None = (self.watermark or furthest)(before, seen)
        return found

    def advanced(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The next watermark, checked. Raises WatermarkError."""
        after: datetime | None = checked(
            self.column, before, self.next_watermark(before, seen), seen
        )
        return after

    def cursor_of(self, kind: DataType) -> Column:
        return instant_of(self.column, kind)

    def cursor_in(self, value: Column) -> Column:
        return Instant().typed(F.schema_of_variant(value), value.try_cast("string"))

    def as_number(self, cursor: Column) -> Column:
        return F.unix_micros(cursor)

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        low, high = (None if end is None else instant_at(int(end)) for end in (lowest, highest))
        return as_text(self.advanced(instant(before), Seen(low, high, rows, now)))

    def is_ahead(self, cursor: Column, now: datetime) -> Column:
        """Whether a row is beyond the clock and the skew that is allowed."""
        return F.coalesce(cursor > F.lit(now + self.max_clock_skew), F.lit(False))

    @property
    def _in_future(self) -> str:
        """The reason of a row that is ahead of the clock."""
        return f"{self.column}_in_future"

    def ahead_note(self, rows: int, now: datetime) -> str:
        """What is told of rows that are ahead of the clock."""
        done = "quarantined" if self.future == "quarantine" else "loaded"
        limit = (now + self.max_clock_skew).isoformat()
        return (
            f"{rows} rows have a {self.column} beyond {limit}: they were {done}, and do not move "
            "the watermark"
        )

    def inspect(self, request: ReadRequest) -> Inspection:
        """As usual; rows that were ahead of the clock come without a change of the source."""
        found = super().inspect(request)
        if found.news != "nothing" or self.future != "quarantine":
            return found
        waiting = request.state.count_in_quarantine(self._in_future)
        if not waiting:
            return found
        return Inspection("unknown", f"{waiting} rows were ahead of the clock when they were read")

    def read(self, request: ReadRequest, frames: Frames) -> SourceWindow | None:
        """The rows at or above the watermark that are not loaded yet."""
        state, session = request.state, frames.session
        before = self.position(request)
        low = self.read_from(instant(before.high))
        source = self.source_rows(request, frames)
        if source is None:
            return None
        own = own_types(source)
        every = with_order(source, own, self.cursor_of(own[self.column]))
        cursor = F.col(ORDER)
        # What a target holds that was filled by other means, up to its watermark, is not known.
        above = cursor > F.lit(low) if state.last is None else cursor >= F.lit(low)
        window = every if low is None else every.where(cursor.isNull() | above)
        ahead = self.is_ahead(cursor, request.now)
        reasons, in_future = [self.reason()], self._in_future
        if self.future == "quarantine":
            reasons.append(F.when(ahead, F.lit(in_future)))
        # A quarantined row whose time has come is read again; before that it is known.
        known = state.known_rows(session, low, but_for=in_future)
        new = unseen(frames.cache(window), known)
        quarantined = state.quarantined(session)
        if quarantined and self.future == "quarantine":
            still_ahead = unseen(new.where(ahead), quarantined)
            new = new.where(~ahead).unionByName(still_ahead)
        new = self.bounded(state.without_beaten(session, new, low), request)
        values = self.counts(F.when(~ahead, self.as_number(cursor)))
        values["ahead"] = Value(F.count_if(ahead))
        return SourceWindow(
            frames.cache(request.with_reasons(new, reasons)),
            own,
            before,
            values,
            every=request.with_reasons(every, reasons),
        )

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The watermark at the highest timestamp that was read.

        Raises SourceError for a null timestamp where `nulls` is `raise`.
        """
        self.refuse(request, counted)
        gate, values = counted.whole, counted.values
        if not gate.rows:
            return None
        lowest, highest = values["lowest"], values["highest"]
        high = self.high_after(window.before.high, lowest, highest, gate.rows, request.now)
        ahead = values["ahead"]
        return NewRows(
            window.rows,
            window.own,
            Position(self.name, self.column, high),
            gate.rows,
            gate.quarantined,
            notes=(self.ahead_note(ahead, request.now),) if ahead else (),
            every=window.every,
        )
