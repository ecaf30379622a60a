"""Change detector for sources whose rows carry an ever-growing number, each number once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, ClassVar, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.cursor import Cursor
from incremental_assets.changes.detector import NewRows, SourceWindow
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.position import Position
from incremental_assets.changes.progress import (
    Progress,
    next_step,
    progress_from,
    state_of_progress,
)
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import number_of, own_types, unseen, with_order
from incremental_assets.changes.watermark import (
    Advance,
    Nulls,
    Seen,
    as_text,
    checked,
    furthest,
    number,
)
from incremental_assets.delta.columns import ORDER
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.quality.gate import Counted

_WHOLE_NUMBER = r"^\s*[+-]?[0-9]{1,38}\s*$"


@dataclass(frozen=True)
class Sequence(Cursor):
    """Rows above the highest number read so far, and those that fill a gap below it.

    Numbers that are missing between others are a gap: of a row that is still to come, or that
    never will. `report` remembers an open gap and loads its rows when they come; `wait` stops
    the watermark before the gap until it fills or `deadline` has passed since it was seen; `fail`
    refuses to load. At most `most_gaps` are remembered, the newest; what is given up is reported.
    The first number of the first load opens the sequence. `lookback` reads again so many numbers
    below the watermark, for rows that were written with a number that was given out before.

    `watermark` and `next_watermark` are as for `Timestamp`.
    """

    name: ClassVar[str] = "sequence"
    expected: ClassVar[str] = "a whole number"
    type_of: ClassVar[str] = "decimal(38,0)"

    column: str
    on_gap: Literal["report", "wait", "fail"] = "report"
    nulls: Nulls = "raise"
    deadline: timedelta = timedelta(hours=1)
    most_gaps: int = 1000
    lookback: int = 0
    watermark: Advance | None = None

    def __post_init__(self) -> None:
        if self.on_gap not in ("report", "wait", "fail"):
            raise DefinitionError(
                f"Sequence({self.column!r}): on_gap is report, wait or fail, not {self.on_gap!r}."
            )

    def next_watermark(self, before: int | None, seen: Seen) -> int | None:
        """The watermark after a load; between the one before and the highest that was seen."""
        found: int | None = (self.watermark or furthest)(before, seen)
        return found

    def advanced(self, before: int | None, seen: Seen) -> int | None:
        """The next watermark, checked. Raises WatermarkError."""
        after: int | None = checked(self.column, before, self.next_watermark(before, seen), seen)
        return after

    def cursor_of(self, kind: DataType) -> Column:
        return number_of(self.column, kind)

    def cursor_in(self, value: Column) -> Column:
        text = value.try_cast("string")
        return F.when(text.rlike(_WHOLE_NUMBER), F.trim(text).try_cast(self.type_of))

    def as_number(self, cursor: Column) -> Column:
        return cursor

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        low, high = (None if end is None else int(end) for end in (lowest, highest))
        return as_text(self.advanced(number(before), Seen(low, high, rows, now)))

    def inspect(self, request: ReadRequest) -> Inspection:
        """As usual; once the deadline is over, what waits for a gap comes without a change."""
        found, since = super().inspect(request), self._progress(request).waiting_since
        if found.news != "nothing" or since is None:
            return found
        if request.now - since >= self.deadline:
            return Inspection("new", f"it waits for a gap since {since}, which is long enough")
        return Inspection("nothing", f"it waits for a gap since {since}, for {self.deadline}")

    def _progress(self, request: ReadRequest) -> Progress:
        before = self.position(request)
        return progress_from(before.state, number(before.high))

    def read(self, request: ReadRequest, frames: Frames) -> SourceWindow | None:
        """The rows above the watermark and in open gaps.

        Raises SourceError for a gap where `on_gap` is `fail`.
        """
        state, session = request.state, frames.session
        before = self.position(request)
        progress = self._progress(request)
        source = self.source_rows(request, frames)
        if source is None:
            return None
        own = own_types(source)
        every = with_order(source, own, self.cursor_of(own[self.column]))
        cursor = F.col(ORDER)
        wanted, certain = self._windows(progress, number(before.high))
        reasons = [self.reason()]
        candidates = frames.cache(every.where(wanted))
        again = candidates.where(~F.coalesce(certain, F.lit(False)))
        known = state.known_rows(session, None) if before.high else state.quarantined(session)
        rest = state.without_beaten(session, unseen(again, known), None)
        new = self.bounded(candidates.where(certain).unionByName(rest), request)
        rows = frames.cache(request.with_reasons(new, reasons))
        step = next_step(self, progress, rows, ORDER, request.now, request.name)
        if step.stop is not None:
            up_to = cursor.isNull() | (cursor <= step.stop)
            rows, every = rows.where(up_to), every.where(up_to)
        return SourceWindow(
            rows,
            own,
            before,
            self.counts(cursor),
            every=request.with_reasons(every, reasons),
            found=(progress, step),
        )

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The watermark at the highest number, and the gaps below it.

        Raises SourceError for a null number where `nulls` is `raise`.
        """
        self.refuse(request, counted)
        progress, step = window.found
        gate, values = counted.whole, counted.values
        if not gate.rows and step.after == progress:
            return None
        high = step.after.high
        if self.watermark is not None or type(self) is not Sequence:  # one of somebody's own
            before, ends = window.before.high, (values["lowest"], values["highest"])
            high = number(self.high_after(before, *ends, gate.rows, request.now))
        return NewRows(
            window.rows,
            window.own,
            Position(self.name, self.column, as_text(high), state_of_progress(step.after, high)),
            gate.rows,
            gate.quarantined,
            notes=step.notes,
            every=window.every,
        )

    def _windows(self, progress: Progress, watermark: int | None) -> tuple[Column, Column]:
        """Which rows may be new, and which of them certainly are."""
        cursor = F.col(ORDER)
        if progress.high is None or watermark is None:
            return F.lit(True), cursor.isNotNull()
        gaps = [cursor.between(low, high) for low, high in progress.gaps]
        new = reduce(Column.__or__, gaps, cursor > progress.high)
        low = min(watermark, progress.high) - self.lookback
        return cursor.isNull() | (cursor > low) | new, new
