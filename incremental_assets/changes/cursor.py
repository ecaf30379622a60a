"""Detectors by a cursor: a column of the rows with the time, or the order, of their arrival."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from incremental_assets.changes.day_reading import SourceDays, is_null
from incremental_assets.changes.detector import Detector, SourceWindow
from incremental_assets.changes.progress import SequenceStep
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import (
    own_types,
    require_columns,
    require_no_lines,
    unseen,
    with_order,
)
from incremental_assets.changes.watermark import Nulls
from incremental_assets.delta.columns import HASH, ORDER
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.gate import Counted, Value


class Cursor(Detector):
    """Base of the detectors by a cursor.

    `expected` is what a value of the cursor has to be, in words.
    """

    column: str
    nulls: Nulls

    expected: ClassVar[str]

    @property
    def cursor_column(self) -> str:
        return self.column

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The columns that the source must have."""
        return (self.column,)

    def marked(self, rows: DataFrame) -> DataFrame:
        """The rows with a mark on those that are deletes, where there may be some."""
        return rows

    @property
    def live(self) -> Column | None:
        """The rows that rules apply to; None: all."""
        return None

    @property
    def nulls_again(self) -> Nulls:
        """How rows without a cursor are treated where a target is rebuilt."""
        return "quarantine" if self.nulls == "raise" else self.nulls

    @property
    def asks_for_nulls(self) -> bool:
        return self.nulls == "raise"

    def reasons(self, written: Column, now: datetime) -> list[Column]:
        """Why a row is quarantined for its cursor: text or null, each.

        `written` is whether there is any value in the cursor's column. A line that is no row has
        none to miss.
        """
        no_cursor = F.col(ORDER).isNull()
        found = [F.when(no_cursor & written, F.lit(f"{self.column}_unreadable"))]
        if self.nulls == "quarantine":
            missing = no_cursor & ~written & F.col("_raw").isNull()
            found.append(F.when(missing, F.lit(f"{self.column}_null")))
        return found

    def window(self, days: SourceDays, step: SequenceStep | None) -> Column:
        found = self.within(days, step)
        return found | is_null() if self.asks_for_nulls else found

    def within(self, days: SourceDays, step: SequenceStep | None) -> Column:
        """The window, but for rows without a cursor that are an error whatever their day."""
        return super().window(days, step)

    def refuse_nulls(self, table: str, nulls: int, rows: int, path: str) -> None:
        """Raise SourceError for rows without a cursor, where they are an error."""
        if nulls and self.nulls == "raise":
            raise SourceError(
                f"{table}: {nulls} of {rows} new rows have no {self.column}, so it is unknown "
                f"whether they are new ({path}). Nothing was loaded and the watermark did not "
                "move; repair them, or set nulls='quarantine' to quarantine them or "
                "nulls='include' to load each of them once."
            )

    def counts(self, cursor: Column) -> dict[str, Value]:
        """What is counted of the rows: nulls, a value that is no cursor, the ends of the others."""
        no_cursor, written = F.col(ORDER).isNull(), F.col(quoted(self.column))
        return {
            "nulls": Value(F.count_if(self._is_null())),
            "odd": Value(F.min(F.when(no_cursor, written.cast("string"))), min),
            "readable": Value(F.count_if(~no_cursor)),
            "lowest": Value(F.min(cursor), min),
            "highest": Value(F.max(cursor), max),
        }

    def _is_null(self) -> Column:
        """Whether the row has no value of the cursor, rather than one that cannot be read."""
        unreadable = F.col("_raw").isNotNull() | F.array_contains("_unreadable", self.column)
        return F.col(ORDER).isNull() & F.col(quoted(self.column)).isNull() & ~unreadable

    def without_superseded(
        self, request: ReadRequest, session: SparkSession, rows: DataFrame, low: datetime | None
    ) -> DataFrame:
        """The rows without those that a later one of their key, of an earlier load, has replaced.

        One without a cursor is older than any other of its key, however long ago that one is.
        """
        if self.nulls != "include":
            return request.state.without_superseded(session, rows, low, F.lit(False))
        return request.state.without_superseded(session, rows, None, self._is_null())

    def source_rows(self, request: ReadRequest, frames: Frames) -> DataFrame | None:
        """The rows of the source; None for one without a file, which has no columns, either."""
        rows = request.source.rows(frames, request.state.known_types())
        own = own_types(rows)
        if not own:
            require_no_lines(request, rows)
            return None
        require_columns(request, own, (*self.needed_columns, *request.key, *request.partition_by))
        return rows

    def read_again(
        self, request: ReadRequest, frames: Frames, quarantined: DataFrame
    ) -> SourceWindow | None:
        """The rows of the source, read whole, that are in quarantine."""
        source = self.source_rows(request, frames)
        if source is None:
            return None
        own = own_types(source)
        every = with_order(self.marked(source), own, self.cursor_of(own[self.column]))
        rows = unseen(_as_often(every, quarantined), request.state.loaded(frames.session))
        judged = self.every(request, rows)
        return SourceWindow(
            frames.cache(judged),
            own,
            self.position(request),
            live=self.live,
            every=self.every(request, every),
        )

    def every(self, request: ReadRequest, rows: DataFrame) -> DataFrame:
        """Rows that were judged before, with their reasons.

        One without a cursor is bad also where a new one is an error.
        """
        written = F.col(quoted(self.column)).isNotNull()
        reasons = self.reasons(written, request.now)
        if self.nulls == "raise":
            no_cursor = F.col(ORDER).isNull() & ~written & F.col("_raw").isNull()
            reasons.append(F.when(no_cursor, F.lit(f"{self.column}_null")))
        return request.with_reasons(rows, reasons, self.live, ordered_by=self.column)

    def bounded(self, rows: DataFrame, request: ReadRequest) -> DataFrame:
        """About as many rows as the load may take, those with the lowest cursor.

        Rows that equal the last one come with it: later they would be taken for it.
        """
        if request.max_records is None:
            return rows
        position = F.struct(F.col(ORDER).isNotNull(), ORDER, HASH)
        taken = rows.orderBy(F.col(ORDER).asc_nulls_first(), HASH).limit(request.max_records)
        last = F.broadcast(taken.agg(F.max(position).alias("_last")))
        return rows.crossJoin(last).where(position <= F.col("_last")).drop("_last")

    def refuse(self, request: ReadRequest, counted: Counted) -> None:
        """Raise SourceError for rows without a cursor, and a first load that can read none."""
        values, path = counted.values, request.source.path
        self.refuse_nulls(request.name, values["nulls"], counted.whole.rows, path)
        odd, none = values["odd"], not values["readable"]
        # With a bound, odd ones come first.
        first = request.state.last is None and request.max_records is None
        if first and odd is not None and none:
            raise SourceError(
                f"{request.name}: not one value of {self.column} is {self.expected}, such as "
                f"{odd[:60]!r} ({path}). Nothing was loaded; convert the column at the source, or "
                "name another one."
            )


def _as_often(rows: DataFrame, quarantined: DataFrame) -> DataFrame:
    """The rows that are in quarantine, as often as there.

    A row that came again was not put there again, and would not be loaded again.
    """
    times = quarantined.groupBy(HASH).agg(F.count(F.lit(1)).alias("_times"))
    nth = F.row_number().over(Window.partitionBy(HASH).orderBy(HASH))
    found = rows.join(times, HASH).withColumn("_nth", nth)
    return found.where("_nth <= _times").drop("_nth", "_times")
