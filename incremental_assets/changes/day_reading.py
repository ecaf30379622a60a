"""The part of a detector that reads days of a source in place, for tables of a lake.

The target of a loader is read in one go, by the detector's own `read`. A table of a lake is loaded
by day, and keeps every row as its payload: which of the rows belong to a batch, and how far each
day was read then, the detector decides here. The defaults are those of a change log: it has no
cursor, and all that was not read yet is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType

from incremental_assets.changes.position import without_fingerprints
from incremental_assets.changes.progress import SequenceStep
from incremental_assets.changes.snapshot_comparison import SnapshotComparison
from incremental_assets.days import utc_today
from incremental_assets.delta.columns import ORDER
from incremental_assets.frames import quoted
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.sources.source import Source

LOAD_DAY, WRITTEN = "_load_day", "_written"
Pushdown = Callable[[Mapping[str, DataType]], Column | None]
"""A condition on a typed source's own columns, given their types, that only saves reading."""


@dataclass(frozen=True)
class SourceDays:
    """The days that a batch reads, and how far the source was read before.

    `watermarks` are those that the last load of each day left ("" before the first one), `state`
    what the last load of any day left. `landing_column` is the column whose date is a row's landing
    day; without one, rows land on the day of `now`. `is_of_one_moment`: what is read twice is the
    same.
    """

    table: str
    watermarks: Mapping[date, str]
    state: Mapping[str, Any]
    landing_column: str | None
    now: datetime
    is_of_one_moment: bool = True


class DayReading:
    """How days of a source are read: of rows with `_load_day`, `_order`, `_written` and `_raw`.

    `_load_day` is the day whose batch loads the row, `_order` its cursor, and `_written` whether
    there is any value in the cursor's column. `cursor_type` is the cursor's Spark type.
    `watermark_by_day`: each day has a watermark of its own, else the source has one.
    `state_of_source`: the position is of the source, whichever days were loaded. `reads_once`:
    files and versions that were read are not read again. `needs_offsets`: it reads sources whose
    rows have offsets. `changed_at` is the column of bronze that shows from when a change counts.
    """

    cursor_type: ClassVar[str] = "decimal(38,0)"
    watermark_by_day: ClassVar[bool] = False
    state_of_source: ClassVar[bool] = False
    reads_once: ClassVar[bool] = False
    needs_offsets: ClassVar[bool] = False
    changed_at: ClassVar[str] = "payload"

    @property
    def comparison(self) -> SnapshotComparison | None:
        """How a day is compared with the one before; None where a day has rows of its own."""
        return None

    @property
    def compares_days(self) -> bool:
        """Whether a day has all that there is, and the table what differs from the day before."""
        return self.comparison is not None

    @property
    def cursor_column(self) -> str | None:
        """The column with the time, or the order, of the rows' arrival; None for none."""
        return None

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The columns that a source in place must have."""
        return ()

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that its definition names; rows of some files may lack one."""
        return self.needed_columns

    @property
    def landing_column(self) -> str | None:
        """The column whose date is a row's landing day, where the source names no other."""
        return None

    def reading(self, source: Source) -> Source:
        """The source, as it is read by this detector. Raises DefinitionError where it cannot be."""
        return source.read_by(self.cursor_column)

    def waits(self, state: Mapping[str, Any], now: datetime | None) -> bool:
        """Whether a day has rows to load although its source did not change since.

        `state` is what the last load of the day left. Without `now`, time has come for every row.
        """
        return self.has_come(state, now)

    def has_come(self, state: Mapping[str, Any], now: datetime | None) -> bool:
        """Whether the time has come of a row that was ahead of the clock when it was read."""
        return False

    def holds_back(self, state: Mapping[str, Any], now: datetime) -> bool:
        """Whether a load of the same source would load nothing yet."""
        return False

    def passing_gaps(self) -> Self:
        """The detector that waits for no missing number, for reading again what was loaded."""
        return self

    def rewound_day(self, last: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state `before`, to go on from after `last`: the source is read again from there."""
        return without_fingerprints(before)

    def cursor_of(self, kind: DataType) -> Column:
        """The cursor of typed rows. Raises SourceError for a type that cannot be ordered."""
        return F.lit(None).cast(self.cursor_type)

    def cursor_in(self, value: Column) -> Column:
        """The cursor in a VARIANT; null where it is none."""
        return F.lit(None).cast(self.cursor_type)

    def as_number(self, cursor: Column) -> Column:
        """The cursor as a number that is collected: instants in microseconds since 1970."""
        return cursor

    def window(self, days: SourceDays, step: SequenceStep | None) -> Column:
        """Which rows may be new."""
        return F.col(LOAD_DAY).isin(list(days.watermarks))

    def pushdown(self, days: SourceDays, own: Mapping[str, DataType]) -> Column | None:
        """The window, as far as the columns in the files can express it."""
        column, today = days.landing_column, utc_today(days.now)
        if column is None or column not in own:
            return None
        first, last = (_midnight(end(days.watermarks)) for end in (min, max))
        # Rows without a day are today's.
        rest = today in days.watermarks
        return _between_instants(
            column,
            own[column],
            max(first, self.lowest_instant(days) or first),
            last + timedelta(days=1),
            rest=rest,
            nulls=rest or self.asks_for_nulls,
        )

    def lowest_instant(self, days: SourceDays) -> datetime | None:
        """No row whose landing day's instant is below this one is new; None: any may be."""
        return None

    @property
    def asks_for_nulls(self) -> bool:
        """Whether each batch reads rows without a cursor, whatever their day."""
        return False

    def step(self, days: SourceDays, read: Callable[[Pushdown], DataFrame]) -> SequenceStep | None:
        """How far the source may be read; None for as far as there is something.

        `read` gives the rows of the source, whatever their day.
        """
        return None

    def first_batch_read_again(self, history: TableHistory) -> int | None:
        """The first batch of which this load may read rows again; None where it reads none again.

        Of a table without days; the ledger knows which batches may hold such rows.
        """
        return 1

    def reasons(self, written: Column, now: datetime) -> list[Column]:
        """Why a row is quarantined for its cursor: text or null, each."""
        return []

    def is_ahead(self, cursor: Column, now: datetime) -> Column:
        """Whether a row is beyond the clock and the skew that is allowed."""
        return F.lit(False)

    def refuse_nulls(self, table: str, nulls: int, rows: int, path: str) -> None:
        """Raise SourceError for rows without a cursor, where they are an error."""

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        """The watermark after rows were read whose cursors, `as_number`, go from low to high.

        Raises WatermarkError where a custom function breaks its promise.
        """
        return before

    def ahead_note(self, rows: int, now: datetime) -> str:
        """The note on rows that are ahead of the clock."""
        return ""

    @property
    def may_pass_over(self) -> bool:
        """Whether a row that comes below its day's watermark is not read."""
        return False

    def passed_over_notes(self, days: Mapping[date, int]) -> list[str]:
        """The notes on days that have so many rows below the watermark; 0: others changed."""
        return []


def is_null() -> Column:
    """A row without a cursor; a line that is no row has none to miss."""
    return F.col(ORDER).isNull() & ~F.col(WRITTEN) & F.col("_raw").isNull()


def is_unreadable() -> Column:
    """A row whose cursor holds something else than the detector reads."""
    return F.col(ORDER).isNull() & F.col(WRITTEN)


def _between_instants(
    column: str, kind: DataType, low: datetime, high: datetime, *, rest: bool, nulls: bool
) -> Column | None:
    """The rows between two instants, as a condition on the column as it is in the file.

    `rest` keeps rows from `high` on, `nulls` those without a value. None where the column holds
    no instants or dates.
    """
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        return None
    at = F.col(quoted(column))
    found = at >= F.lit(low).cast(kind)
    if not rest:
        found &= at < F.lit(high).cast(kind)
    return found | at.isNull() if nulls else found


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
