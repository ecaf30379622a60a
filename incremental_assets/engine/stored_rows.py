"""The rows of a stored source as bronze keeps them, with where each of them stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StringType, TimestampNTZType, TimestampType

from incremental_assets.changes.cursor import Cursor
from incremental_assets.changes.new_files import LogFiles, commits_since
from incremental_assets.changes.source_rows import instant_of, own_types
from incremental_assets.engine.batch import Batch
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, quoted
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.quality.types import Instant
from incremental_assets.row_hash import payload_hash, row_hash
from incremental_assets.sources.payloads import payload_of, row_objects
from incremental_assets.sources.stored import FixedSource

AT, HASH, LANDED, WRITTEN = "_at", "_hash", "_landed", "_written"
_TYPED = ("delta", "parquet")
Reach = Callable[[Mapping[str, DataType]], Column | None]


def stored_rows(frames: Frames, batch: Batch, fixed: FixedSource, reach: Reach) -> DataFrame:
    """`payload`, `_raw`, `_file`, `_hash`, `_at`, `_written` and `_landed` of each row.

    `_at` is the detector's cursor (null for a log), `_written` whether there is any value in its
    place, `_landed` the landing day that the row names (null without one). `reach`, a condition on
    the columns of a typed source, only saves reading. Raises SourceError for a column that is
    missing or of a type that cannot be ordered.
    """
    is_log, typed = batch.table.changes.is_log, fixed.format in _TYPED
    if not typed:
        source = _log(batch, fixed) if is_log else fixed
        return _from_payload(source.objects(frames), batch)
    rows = _log(batch, fixed).rows(frames, {}) if is_log else fixed.rows(frames)
    wanted = reach(own_types(rows))
    rows = rows if wanted is None else rows.where(wanted)
    return _from_payload(row_objects(rows), batch) if is_log else _typed(rows, batch, fixed)


def _log(batch: Batch, fixed: FixedSource) -> LogFiles:
    """The part of a log that one of the batch's days has not read yet.

    Of a Delta table whose rows say their day, just the files that may hold the batch's days are
    read: the commits since a day was last loaded would be read whole, and there is no end to them.
    """
    works = batch.work.days.values()
    if fixed.version is not None and batch.table.landing_column is not None:
        return commits_since(fixed, None)
    if fixed.version is None:
        files = {file.path: file for work in works for file in work.files}
        entries = (FileEntry(f.path, f.size, f.tag, f.modified) for f in files.values())
        return LogFiles(fixed, tuple(entries))
    read = [work.since for work in works if work.since is not None]
    return commits_since(fixed, min(read) if len(read) == len(works) else None)


def _typed(rows: DataFrame, batch: Batch, fixed: FixedSource) -> DataFrame:
    own = own_types(rows)
    changes, day = batch.table.changes, batch.table.landing_column
    cursor = getattr(changes, "column", None)
    missing = sorted({name for name in (cursor, day) if name and own and name not in own})
    if missing:
        raise SourceError(
            f"{batch.table.name}: the source {fixed.path} has no column "
            f"{', '.join(map(repr, missing))}; it has {sorted(own)}. Nothing was loaded; name a "
            "column that is there."
        )
    at, landed = _nothing(changes), F.lit(None).cast("date")
    if own and isinstance(changes, Cursor):
        at = changes.cursor_of(own[changes.column]).cast(changes.type_of)
    if own and day is not None:
        landed = instant_of(day, own[day]).cast("date")
    written = F.col(quoted(cursor)).isNotNull() if own and cursor else F.lit(False)
    return rows.select(
        payload_of(rows).alias("payload"),
        "_raw",
        "_file",
        row_hash(own).alias(HASH),
        at.alias(AT),
        written.alias(WRITTEN),
        landed.alias(LANDED),
    )


def _from_payload(rows: DataFrame, batch: Batch) -> DataFrame:
    changes, day = batch.table.changes, batch.table.landing_column
    fields = F.col("payload").try_cast("map<string,variant>")
    rows = rows.withColumn("_fields", fields)
    at, written = _nothing(changes), F.lit(False)
    if isinstance(changes, Cursor):
        value = F.try_element_at("_fields", F.lit(changes.column))
        written = value.isNotNull() & ~F.is_variant_null(value)
        at = changes.cursor_in(value)
    landed = F.lit(None).cast("date")
    if day is not None:
        landed = _instant(F.try_element_at("_fields", F.lit(day))).cast("date")
    line = F.concat(F.lit("line:"), F.substring(F.sha2(F.col("_raw"), 256), 1, 32))
    hashed = F.when(F.col("_raw").isNotNull(), line).otherwise(payload_hash("payload"))
    return rows.select(
        "payload",
        "_raw",
        "_file",
        hashed.alias(HASH),
        at.alias(AT),
        F.coalesce(written, F.lit(False)).alias(WRITTEN),
        landed.alias(LANDED),
    )


def _instant(value: Column) -> Column:
    return Instant().typed(F.schema_of_variant(value), value.try_cast("string"))


def _nothing(changes: object) -> Column:
    return F.lit(None).cast(changes.type_of if isinstance(changes, Cursor) else "decimal(38,0)")


def reach_of(
    column: str, kind: DataType, low: datetime, high: datetime, *, rest: bool, nulls: bool
) -> Column | None:
    """The rows between two instants, as a condition on the column as it lies in the file.

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


def reach_of_numbers(column: str, kind: DataType | None, low: int | None) -> Column | None:
    """The rows above a number or without one, likewise."""
    if low is None or kind is None or isinstance(kind, StringType):
        return None
    at = F.col(quoted(column))
    return (at > F.lit(low)) | at.isNull()
