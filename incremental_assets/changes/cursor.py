"""Detectors by a cursor: a column of the rows that says when, or in which order, they came."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.position import Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.source_rows import own_types, require_columns, require_no_lines
from incremental_assets.changes.watermark import Nulls
from incremental_assets.delta.columns import HASH, ORDER
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.gate import Counted, Value


class Cursor(Detector):
    """Base of the detectors by a cursor.

    `expected` is what a value of the cursor has to be, in words; `type_of` its Spark type.
    """

    column: str
    nulls: Nulls

    expected: ClassVar[str]
    type_of: ClassVar[str]

    def cursor_of(self, kind: DataType) -> Column:
        """The cursor of typed rows. Raises SourceError for a type that cannot be ordered."""
        raise NotImplementedError

    def cursor_in(self, value: Column) -> Column:
        """The cursor in a VARIANT; null where it is none."""
        raise NotImplementedError

    def as_number(self, cursor: Column) -> Column:
        """The cursor as a number that is collected: instants in microseconds since 1970."""
        raise NotImplementedError

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        """The watermark after rows were read whose cursors, `as_number`, go from low to high.

        Raises WatermarkError where a function of somebody's own breaks its promise.
        """
        raise NotImplementedError

    def position(self, request: ReadRequest) -> Position:
        return request.state.position(Position(self.name, self.column, request.start))

    def reason(self) -> Column:
        """Why a row is quarantined for its cursor; text that is none, whatever becomes of nulls."""
        gone = F.col(ORDER).isNull()
        unreadable = F.when(
            gone & F.col(quoted(self.column)).isNotNull(), F.lit(f"{self.column}_unreadable")
        )
        if self.nulls == "include":
            return unreadable
        return F.coalesce(unreadable, F.when(gone, F.lit(f"{self.column}_null")))

    def counts(self, cursor: Column) -> dict[str, Value]:
        """What is counted of the rows: nulls, a value that is no cursor, the ends of the others."""
        unreadable = F.col("_raw").isNotNull() | F.array_contains("_unreadable", self.column)
        gone, written = F.col(ORDER).isNull(), F.col(quoted(self.column))
        return {
            "nulls": Value(F.count_if(gone & written.isNull() & ~unreadable)),
            "odd": Value(F.min(F.when(gone, written.cast("string"))), min),
            "lowest": Value(F.min(cursor), min),
            "highest": Value(F.max(cursor), max),
        }

    def source_rows(self, request: ReadRequest, frames: Frames) -> DataFrame | None:
        """The rows of the source; None for one without a file, which has no columns, either."""
        rows = request.source.rows(frames, request.state.known_types())
        own = own_types(rows)
        if not own:
            require_no_lines(request, rows)
            return None
        require_columns(request, own, (self.column, *request.key, *request.partition_by))
        return rows

    def bounded(self, rows: DataFrame, request: ReadRequest) -> DataFrame:
        """At most as many rows as the load may take, those with the lowest cursor."""
        if request.max_records is None:
            return rows
        return rows.orderBy(F.col(ORDER).asc_nulls_first(), HASH).limit(request.max_records)

    def refuse(self, request: ReadRequest, counted: Counted) -> None:
        """Raise SourceError for rows without a cursor, and a first load that can read none."""
        values, path = counted.values, request.source.path
        if self.nulls == "raise" and values["nulls"]:
            raise SourceError(
                f"{request.name}: {values['nulls']} of {counted.whole.rows} new rows have no "
                f"{self.column}, so nobody can say whether they are new ({path}). Nothing was "
                "loaded and the watermark did not move; repair them, or say nulls='quarantine' to "
                "quarantine them or nulls='include' to load each of them once."
            )
        odd, none = values["odd"], values["highest"] is None
        # With a bound, odd ones come first.
        first = request.state.last is None and request.max_records is None
        if first and odd is not None and none and not values.get("ahead"):
            raise SourceError(
                f"{request.name}: not one value of {self.column} is {self.expected}, such as "
                f"{odd[:60]!r} ({path}). Nothing was loaded; convert the column at the source, or "
                "name another one."
            )
