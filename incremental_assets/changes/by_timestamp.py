"""Change detector for sources with a column of when a row last changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any, ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets import plurals
from incremental_assets.changes.as_read import AsRead
from incremental_assets.changes.bronze_events import Events, marked_events
from incremental_assets.changes.cursor import Cursor
from incremental_assets.changes.day_reading import LOAD_DAY, SourceDays
from incremental_assets.changes.detector import NewRows, SourceWindow
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.position import Position
from incremental_assets.changes.progress import SequenceStep
from incremental_assets.changes.request import REWOUND_FROM, ReadRequest
from incremental_assets.changes.soft_deletes import deletes, is_marked, require_own_column
from incremental_assets.changes.source_rows import instant_of, own_types, unseen, with_order
from incremental_assets.changes.watermark import (
    NULLS,
    Advance,
    Nulls,
    Seen,
    as_text,
    checked,
    furthest,
    instant,
    instant_at,
)
from incremental_assets.choices import require_choice, require_column, require_function
from incremental_assets.days import ONE_DAY, named
from incremental_assets.delta.columns import DELETED, HASH, ORDER, WITHIN
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.gate import Counted, Value
from incremental_assets.quality.reasons import is_good
from incremental_assets.quality.types import Instant


@dataclass(frozen=True)
class Timestamp(Cursor):
    """Rows whose timestamp is at or above the watermark, without those that are loaded already.

    The rows at the watermark's own instant are read again and compared by their content, so one
    that comes later is neither lost nor loaded twice. `lookback` widens what is read, not what is
    recorded: for rows that become visible late. Rows more than `max_clock_skew` ahead of the clock
    never move the watermark, which would silence the source until then: they are quarantined, or
    loaded (`future="include"`). A quarantined one is loaded when its time has come, but not where a
    batch replaces others (`OverwriteDays`, `DeleteInsert`): alone it would replace its
    day. `nulls` defines what happens to rows without a timestamp. Values without an offset are UTC.

    `watermark` is a custom function, from the watermark before and what was `Seen` to the
    new one; a subclass may override `next_watermark` instead.

    `deleted` names the column that marks a row as deleted (`deleted_at`, `is_deleted`): such a row
    is a delete of its key, at its timestamp; null, false, no, off, 0 and "" mean that it is live.
    """

    name: ClassVar[str] = "timestamp"
    expected: ClassVar[str] = "ISO 8601"
    cursor_type: ClassVar[str] = "timestamp_ltz"
    watermark_by_day: ClassVar[bool] = True

    column: str
    lookback: timedelta = timedelta(0)
    nulls: Nulls = "raise"
    max_clock_skew: timedelta = timedelta(minutes=5)
    future: Literal["quarantine", "include"] = "quarantine"
    watermark: Advance | None = None
    deleted: str = ""

    def __post_init__(self) -> None:
        this = f"Timestamp({self.column!r})"
        require_column("The column of a Timestamp", self.column)
        if self.deleted:
            require_column(f"{this}: deleted", self.deleted)
        require_function(f"{this}: watermark", self.watermark)
        require_choice(f"{this}: nulls", self.nulls, NULLS)
        require_choice(f"{this}: future", self.future, ("quarantine", "include"))
        if not all(isinstance(s, timedelta) for s in (self.lookback, self.max_clock_skew)):
            raise DefinitionError(
                f"{this}: lookback and max_clock_skew are timedeltas, such as timedelta(days=1); "
                f"found {self.lookback!r} and {self.max_clock_skew!r}."
            )
        if self.lookback < timedelta(0) or self.max_clock_skew < timedelta(0):
            raise DefinitionError(
                f"{this}: lookback and max_clock_skew are not negative; found "
                f"{self.lookback} and {self.max_clock_skew}."
            )
        require_own_column(this, self.deleted, self.column)

    @property
    def finds_deletes(self) -> bool:  # type: ignore[override]
        """Where a column marks them."""
        return bool(self.deleted)

    @property
    def order(self) -> tuple[str, ...]:
        return (ORDER, WITHIN, HASH) if self.deleted else super().order

    @property
    def needed_columns(self) -> tuple[str, ...]:
        return (self.column, self.deleted) if self.deleted else (self.column,)

    @property
    def live(self) -> Column | None:
        return ~F.col(DELETED) if self.deleted else None

    def marked(self, rows: DataFrame) -> DataFrame:
        if not self.deleted:
            return rows
        return rows.withColumns(deletes(is_marked(F.col(quoted(self.deleted)).cast("string"))))

    def events(
        self, frames: Frames, rows: DataFrame, key: Sequence[str], kind: Any, table: str
    ) -> Events:
        if not self.deleted:
            return super().events(frames, rows, key, kind, table)
        fields = F.col("payload").try_cast("map<string,variant>")
        value = F.try_element_at(fields, F.lit(self.column))
        written = value.isNotNull() & ~F.is_variant_null(value)
        why = [F.lit(f"{self.column}_{what}") for what in ("unreadable", "null")]
        reason = F.when(written, why[0]).otherwise(why[1])
        return marked_events(rows, self.deleted, self.cursor_in(value), reason)

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

    @property
    def landing_column(self) -> str:
        return self.column

    @property
    def may_pass_over(self) -> bool:
        return self.lookback < ONE_DAY

    def cursor_of(self, kind: DataType) -> Column:
        return instant_of(self.column, kind)

    def cursor_in(self, value: Column) -> Column:
        return Instant().typed(F.schema_of_variant(value), value.try_cast("string"))

    def as_number(self, cursor: Column) -> Column:
        return F.unix_micros(cursor)

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        low, high = (None if end is None else instant_at(int(end)) for end in (lowest, highest))
        return as_text(self.advanced(instant(before), Seen(low, high, rows, now)))

    def reasons(self, written: Column, now: datetime) -> list[Column]:
        found = super().reasons(written, now)
        if self.future == "quarantine":
            found.append(F.when(self.is_ahead(F.col(ORDER), now), F.lit(self._in_future)))
        return found

    def _releases(self, request: ReadRequest) -> bool:
        """Whether a row ahead of the clock is loaded by itself when its time has come.

        It is not where a batch replaces others: alone it would replace its day or key.
        """
        return self.future == "quarantine" and not request.state.write.replaces_by_batch

    @property
    def _in_future(self) -> str:
        return f"{self.column}_in_future"

    def has_come(self, state: Mapping[str, Any], now: datetime | None) -> bool:
        first = instant(state.get("ahead") or "")
        return first is not None and (now is None or first <= self._latest(now))

    def within(self, days: SourceDays, step: SequenceStep | None) -> Column:
        """The rows of each day at or above its watermark."""
        by_low: dict[datetime | None, list[date]] = {}
        for day, high in days.watermarks.items():
            by_low.setdefault(self.read_from(instant(high)), []).append(day)
        cursor, parts = F.col(ORDER), []
        for low, some in by_low.items():
            here = F.col(LOAD_DAY).isin(some)
            parts.append(here if low is None else here & (cursor.isNull() | (cursor >= low)))
        return reduce(Column.__or__, parts)

    def lowest_instant(self, days: SourceDays) -> datetime | None:
        lows = [self.read_from(instant(high)) for high in days.watermarks.values()]
        if days.landing_column != self.column:
            return None
        return None if None in lows else min(low for low in lows if low is not None)

    def _latest(self, now: datetime) -> datetime:
        """Rows beyond it are ahead of the clock; a skew of `timedelta.max` allows every instant."""
        try:
            return now + self.max_clock_skew
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)

    def is_ahead(self, cursor: Column, now: datetime) -> Column:
        return F.coalesce(cursor > F.lit(self._latest(now)), F.lit(False))

    def ahead_note(self, rows: int, now: datetime) -> str:
        done = "quarantined" if self.future == "quarantine" else "loaded"
        limit = self._latest(now).isoformat()
        return (
            f"{plurals.counted(rows, 'row')} {done} with a {self.column} beyond {limit}; the "
            "watermark stays below that"
        )

    def inspect(self, request: ReadRequest) -> Inspection:
        """By the fingerprint; rows ahead of the clock are new as well when their time has come."""
        found = super().inspect(request)
        if found.status != "nothing" or not self._releases(request):
            return found
        waiting = request.state.count_in_quarantine(self._in_future)
        if not waiting:
            return found
        ahead = plurals.counted(waiting, "row")
        return Inspection(
            "unknown", f"{ahead} in quarantine with a {self.column} ahead of the clock"
        )

    def passed_over_notes(self, days: Mapping[date, int]) -> list[str]:
        remedy = f"let Timestamp({self.column!r}, lookback=timedelta(days=1)) read such days again"
        late = [day for day, rows in days.items() if rows]
        others = [day for day, rows in days.items() if not rows]
        notes = []
        if late:
            notes.append(
                f"{plurals.counted(sum(days.values()), 'row')} of {named(late)} came again, or "
                f"late, their {self.column} below the watermark, and were not read: {remedy}"
            )
        if others:
            notes.append(
                f"rows of {named(others)} changed at the source, their {self.column} below the "
                f"watermark, and were not read: {remedy}"
            )
        return notes

    def rewound(self, last: Position, before: Position) -> Position:
        """As usual, with the watermark that is restored once all is read again."""
        found = super().rewound(last, before)
        highest = _later(last.high, last.state.get(REWOUND_FROM, ""))
        return replace(found, state={**found.state, REWOUND_FROM: highest})

    def as_read(self, request: ReadRequest) -> AsRead:
        """Rows up to the watermark; one that was updated since is read as it is now."""
        changes = replace(self, watermark=None, nulls=self.nulls_again)
        high = instant(self.position(request).high)
        return AsRead(request.source, changes, forgets=True, up_to=high, shown=(self.column,))

    def read(self, request: ReadRequest, frames: Frames) -> SourceWindow | None:
        """The rows at or above the watermark that are not loaded yet."""
        state, session = request.state, frames.session
        before = self.position(request)
        low = self.read_from(instant(before.high))
        source = self.source_rows(request, frames)
        if source is None:
            return None
        own = own_types(source)
        every = with_order(self.marked(source), own, self.cursor_of(own[self.column]))
        cursor = F.col(ORDER)
        window = every
        if low is not None:
            above = cursor >= F.lit(low) if state.last is not None else cursor > F.lit(low)
            window = window.where(cursor.isNull() | above)
        floor = instant(request.floor)
        if floor is not None:
            window = window.where(cursor.isNull() | (cursor > F.lit(floor)))
        ahead = self.is_ahead(cursor, request.now)
        reasons = self.reasons(F.col(quoted(self.column)).isNotNull(), request.now)
        # A quarantined row whose time has come is read again; before that it is known.
        released = self._releases(request)
        known = state.known_rows(session, low, but_for=self._in_future if released else "")
        cached = frames.cache(window)
        every = cached if window is every else every
        new = unseen(cached, known)
        quarantined = state.quarantined(session)
        if quarantined and released:
            still_ahead = unseen(new.where(ahead), quarantined)
            new = new.where(~ahead).unionByName(still_ahead)
        new = self.bounded(self.without_superseded(request, session, new, low), request)
        values = self.counts(F.when(~ahead & is_good(), self.as_number(cursor)))
        values["ahead"] = Value(F.count_if(ahead))
        if self.deleted:
            values["deletes"] = Value(F.count_if(F.col(DELETED) & is_good()))
        return SourceWindow(
            frames.cache(request.with_reasons(new, reasons, self.live, ordered_by=self.column)),
            own,
            before,
            values,
            self.live,
            every=self.every(request, every),
        )

    def advance_again(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows:
        found = super().advance_again(request, frames, window, counted)
        return replace(found, deletes=bool(self.deleted))

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The watermark at the highest timestamp that was read.

        Once all is read again after a rewind, it is not below where it was before that one.
        Raises SourceError for a null timestamp where `nulls` is `raise`.
        """
        self.refuse(request, counted)
        gate, values = counted.whole, counted.values
        rewound_from, high = request.rewound_from, window.before.high
        if not gate.rows and rewound_from is None:
            return None
        if gate.rows:
            ends = (values["lowest"], values["highest"])
            high = self.high_after(high, *ends, gate.rows, request.now)
        state: dict[str, Any] = {}
        if rewound_from is not None and request.is_all(gate.rows):
            high = _later(high, rewound_from)
        elif rewound_from is not None:
            state[REWOUND_FROM] = rewound_from
        ahead = values["ahead"]
        return NewRows(
            window.rows,
            window.own,
            Position(self.name, self.column, high, state),
            gate.rows,
            gate.quarantined,
            bool(values.get("deletes")),
            notes=(self.ahead_note(ahead, request.now),) if ahead else (),
            every=window.every,
        )


def _later(one: str, other: str) -> str:
    """The later of two watermarks."""
    ends = (instant(one), instant(other))
    return as_text(max((end for end in ends if end is not None), default=None))
