"""Change detector for sources whose rows have an ever-growing number, each number once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, ClassVar, Literal, Self
from warnings import warn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from incremental_assets.changes.as_read import AsRead
from incremental_assets.changes.batches_read_again import first_batch_read_again
from incremental_assets.changes.cursor import Cursor
from incremental_assets.changes.day_reading import Pushdown, SourceDays
from incremental_assets.changes.detector import NewRows, SourceWindow
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.position import Position
from incremental_assets.changes.progress import (
    Progress,
    SequenceStep,
    next_step,
    progress_from,
    state_of_progress,
    whole,
)
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import number_of, own_types, unseen, with_order
from incremental_assets.changes.watermark import (
    NULLS,
    Advance,
    Nulls,
    Seen,
    as_text,
    checked,
    furthest,
    number,
)
from incremental_assets.choices import require_choice, require_column, require_function
from incremental_assets.delta.columns import ORDER
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames, quoted
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.quality.gate import Counted

_WHOLE_NUMBER = r"^\s*[+-]?[0-9]{1,38}\s*$"
MOST_GAPS = "most_gaps is deprecated: it is named max_gaps."


@dataclass(frozen=True)
class Sequence(Cursor):
    """Rows above the highest number read so far, and those that fill a gap below it.

    Numbers that are missing between others are a gap: of a row that is still to come, or that
    never will. `report` remembers an open gap and loads its rows when they come; `wait` stops
    the watermark before the gap until it fills or `deadline` has passed since it was seen; `fail`
    refuses to load. The newest `max_gaps` are remembered, others reported and forgotten.
    The first number of the first load opens the sequence. `lookback` reads again so many numbers
    below the watermark, for rows that were written with a number that was given out before.

    `watermark` and `next_watermark` are as for `Timestamp`.
    """

    name: ClassVar[str] = "sequence"
    expected: ClassVar[str] = "a whole number"
    state_of_source: ClassVar[bool] = True

    column: str
    on_gap: Literal["report", "wait", "fail"] = "report"
    nulls: Nulls = "raise"
    deadline: timedelta = timedelta(hours=1)
    max_gaps: int = 1000
    lookback: int = 0
    watermark: Advance | None = None
    most_gaps: int | None = field(default=None, kw_only=True, repr=False, compare=False)
    """Deprecated in 0.1: `max_gaps`."""

    def __post_init__(self) -> None:
        if self.most_gaps is not None:
            warn(MOST_GAPS, DeprecationWarning, stacklevel=3)  # the call of Sequence
            object.__setattr__(self, "max_gaps", self.most_gaps)
            object.__setattr__(self, "most_gaps", None)
        require_column("The column of a Sequence", self.column)
        require_function(f"Sequence({self.column!r}): watermark", self.watermark)
        require_choice(f"Sequence({self.column!r}): nulls", self.nulls, NULLS)
        require_choice(
            f"Sequence({self.column!r}): on_gap", self.on_gap, ("report", "wait", "fail")
        )
        for name in ("lookback", "max_gaps"):
            count = getattr(self, name)
            if not isinstance(count, int) or count < 0:
                raise DefinitionError(
                    f"Sequence({self.column!r}): {name} is a count of numbers, not {count!r}."
                )
        if not isinstance(self.deadline, timedelta):
            raise DefinitionError(
                f"Sequence({self.column!r}): the deadline of a gap is a timedelta, not "
                f"{self.deadline!r}."
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
        return F.when(text.rlike(_WHOLE_NUMBER), F.trim(text).try_cast(self.cursor_type))

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        low, high = (None if end is None else int(end) for end in (lowest, highest))
        return as_text(self.advanced(number(before), Seen(low, high, rows, now)))

    def inspect(self, request: ReadRequest) -> Inspection:
        """By the fingerprint; after the deadline, rows that wait for a gap are new as well."""
        found, state = super().inspect(request), self.position(request).state
        if found.status != "nothing" or not self.waits(state, request.now):
            return found
        waits = f"it waits for a gap since {state['waiting_since']}"
        if self.holds_back(state, request.now):
            return Inspection("nothing", f"{waits}, for {self.deadline}")
        return Inspection("new", f"{waits}, which is long enough")

    def rewound(self, last: Position, before: Position) -> Position:
        """The loaded numbers, and the gaps in them, stay known; the watermark alone goes back."""
        progress = progress_from(last.state, number(last.high))
        state = state_of_progress(progress, number(before.high))
        return replace(before, state=state)

    def as_read(self, request: ReadRequest) -> AsRead:
        """Rows up to the highest number; one that was updated since is read as it is now."""
        changes = replace(self, watermark=None, nulls=self.nulls_again, on_gap="report")
        high = self._progress(request).high
        return AsRead(request.source, changes, forgets=True, up_to=high, shown=(self.column,))

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
        reasons = self.reasons(F.col(quoted(self.column)).isNotNull(), request.now)
        start = number(request.floor)
        above = F.lit(True) if start is None else cursor.isNull() | (cursor > whole(start))
        candidates = frames.cache(every.where(wanted & above))
        again = candidates.where(~F.coalesce(certain, F.lit(False)))
        there = state.last is not None or before.high
        known = state.known_rows(session, None) if there else state.quarantined(session)
        rest = self.without_superseded(request, session, unseen(again, known), None)
        new = self.bounded(candidates.where(certain).unionByName(rest), request)
        rows = frames.cache(request.with_reasons(new, reasons))
        step = next_step(self, progress, rows, ORDER, request.now, request.name)
        if step.stop is not None:
            up_to = cursor.isNull() | (cursor <= whole(step.stop))
            rows, every = rows.where(up_to), every.where(up_to)
        return SourceWindow(
            rows,
            own,
            before,
            self.counts(cursor),
            every=self.every(request, every),
            found=(progress, step),
        )

    def bounded(self, rows: DataFrame, request: ReadRequest) -> DataFrame:
        """With all rows of the highest number: what shares it would not be read later."""
        taken = super().bounded(rows, request)
        if request.max_records is None:
            return taken
        top = taken.agg(F.max(ORDER)).collect()[0][0]
        return taken if top is None else rows.where(F.col(ORDER).isNull() | (F.col(ORDER) <= top))

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The watermark at the highest number, and the gaps below it.

        Raises SourceError for a null number where `nulls` is `raise`.
        """
        self.refuse(request, counted)
        progress, step = window.found
        gate, values = counted.whole, counted.values
        own = self.watermark is not None or type(self) is not Sequence  # a custom function
        rewound = not own and number(window.before.high) != progress.high
        if not gate.rows and step.after == progress and not rewound:
            return None
        high = step.after.high
        if rewound and not request.is_all(gate.rows):  # there may be more below what was read
            high = min(n for n in (values["highest"], high) if n is not None)
        if own:
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
            identity=None,  # what is quarantined is not read again
        )

    def _windows(self, progress: Progress, watermark: int | None) -> tuple[Column, Column]:
        """Which rows may be new, and which of them certainly are."""
        cursor = F.col(ORDER)
        if progress.high is None:
            return F.lit(True), cursor.isNotNull()
        gaps = [cursor.between(whole(low), whole(high)) for low, high in progress.gaps]
        new = reduce(Column.__or__, gaps, cursor > whole(progress.high))
        if watermark is None:
            return F.lit(True), new
        low = min(watermark, progress.high) - self.lookback
        return cursor.isNull() | (cursor > whole(low)) | new, new

    def waits(self, state: Mapping[str, Any], now: datetime | None) -> bool:
        return bool(state.get("waiting_since"))

    def holds_back(self, state: Mapping[str, Any], now: datetime) -> bool:
        since = state.get("waiting_since")
        return since is not None and now - datetime.fromisoformat(since) < self.deadline

    def passing_gaps(self) -> Self:
        """The detector that passes gaps, for reading again what was loaded."""
        return replace(self, on_gap="report")

    def within(self, days: SourceDays, step: SequenceStep | None) -> Column:
        """The numbers above the watermark and in gaps; of a table with days, all of a day's."""
        cursor, found = F.col(ORDER), super().within(days, step)
        before = progress_from(days.state, None)
        if days.landing_column is None and before.high is not None:
            gaps = [cursor.between(whole(low), whole(high)) for low, high in before.gaps]
            above = cursor > whole(before.high - self.lookback)
            found &= cursor.isNull() | reduce(Column.__or__, gaps, above)
        if step is not None and step.stop is not None:
            found &= cursor.isNull() | (cursor <= whole(step.stop))
        if step is not None and not days.is_of_one_moment and days.landing_column is None:
            # What came after the numbers were read is for the next load.
            high = step.after.high
            later = [cursor.between(whole(low), whole(end)) for low, end in step.after.gaps]
            later += [cursor > whole(high)] if high is not None else [cursor.isNotNull()]
            found &= cursor.isNull() | ~reduce(Column.__or__, later)
        return found

    def pushdown(self, days: SourceDays, own: Mapping[str, DataType]) -> Column | None:
        if days.landing_column is None:
            return self._above(own, self._lowest(days))
        return super().pushdown(days, own)

    def step(self, days: SourceDays, read: Callable[[Pushdown], DataFrame]) -> SequenceStep | None:
        """How far the sequence may be read.

        Gaps are of the source, whatever days are loaded, so its numbers are read for all of them:
        one column, above what is known to be without a gap.
        """
        low = self._lowest(days)
        numbers = read(lambda own: self._above(own, low)).select(ORDER)
        if low is not None:
            numbers = numbers.where(F.col(ORDER) > whole(low))
        before = progress_from(days.state, None)
        return next_step(self, before, numbers, ORDER, days.now, days.table)

    def first_batch_read_again(self, history: TableHistory) -> int | None:
        return first_batch_read_again(history, self.lookback)

    def _lowest(self, days: SourceDays) -> int | None:
        """Above this number something may be new."""
        before = progress_from(days.state, None)
        if before.high is None:
            return None
        return min(before.high - self.lookback, *(low - 1 for low, _ in before.gaps), before.high)

    def _above(self, own: Mapping[str, DataType], low: int | None) -> Column | None:
        """The rows above a number or without one, as a condition on the column in the file."""
        kind = own.get(self.column)
        if low is None or kind is None or isinstance(kind, StringType):
            return None
        at = F.col(quoted(self.column))
        return (at > whole(low)) | at.isNull()
