"""The rows of a stored source as bronze keeps them, with the origin of each of them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.day_reading import WRITTEN, Pushdown
from incremental_assets.changes.new_files import LogFiles, commits_since
from incremental_assets.changes.source_rows import instant_of, own_types
from incremental_assets.delta.columns import HASH, ORDER
from incremental_assets.engine.batch import Batch
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, quoted
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.quality.types import Instant
from incremental_assets.row_hash import payload_hash, row_hash
from incremental_assets.sources.payloads import LANDED, payload_of, row_objects
from incremental_assets.sources.source import Added, FixedSource


def stored_rows(frames: Frames, batch: Batch, fixed: FixedSource, pushdown: Pushdown) -> DataFrame:
    """`payload`, `_raw`, `_file`, `_hash`, `_order`, `_written` and `_landed` of each row.

    `_order` is the detector's cursor (null for a log), `_written` whether there is any value in its
    column, `_landed` the landing day that the row names (null without one). Raises SourceError for
    a column that is missing or of a type that cannot be ordered. A source with columns of its own
    for bronze gives these, `_hash` and `_landed` itself.
    """
    planned = _planned(batch, fixed)
    if not fixed.is_typed:
        return _from_payload(planned.objects(frames), batch)
    rows = planned.rows(frames, {})
    wanted = pushdown(own_types(rows))
    rows = rows if wanted is None else rows.where(wanted)
    events = batch.table.changes.finds_deletes and batch.table.changes.cursor_column is None
    return _from_payload(row_objects(rows), batch) if events else _typed(rows, batch, fixed)


def _planned(batch: Batch, fixed: FixedSource) -> Added | LogFiles:
    """The part of the source that the batch is to read: days, some files, some commits, or all.

    Of a Delta table whose rows have their day, just the files that may hold the batch's days are
    read: the commits since a day was last loaded would be read whole, and there is no end to them.
    """
    if fixed.days is not None:
        return fixed.on(batch.work.days)
    works = batch.work.days.values()
    files = {file.path: file for work in works for file in work.files}
    if files:
        entries = (FileEntry(f.path, f.size, f.tag, f.modified) for f in files.values())
        return LogFiles(fixed, tuple(entries))
    read = [work.since for work in works if work.since is not None]
    if len(read) < len(works) or batch.table.landing_column is not None:
        return fixed
    return commits_since(fixed, min(read))


def _typed(rows: DataFrame, batch: Batch, fixed: FixedSource) -> DataFrame:
    own = own_types(rows)
    changes, day = batch.table.changes, batch.table.landing_column
    cursor = changes.cursor_column
    needed = {*changes.needed_columns, *([day] if day else [])}
    missing = sorted(name for name in needed if own and name not in own)
    if missing:
        raise SourceError(
            f"{batch.table.name}: the source {fixed.path} has no column "
            f"{', '.join(map(repr, missing))}; it has {sorted(own)}. Nothing was loaded; name a "
            "column that it has."
        )
    order, landed = F.lit(None), F.lit(None).cast("date")
    if own and cursor is not None:
        order = changes.cursor_of(own[cursor])
    if own and day is not None:
        landed = instant_of(day, own[day]).cast("date")
    written = F.col(quoted(cursor)).isNotNull() if own and cursor else F.lit(False)
    return rows.select(
        payload_of(rows, fixed.json_columns).alias("payload"),
        "_raw",
        "_file",
        row_hash(own).alias(HASH),
        order.cast(changes.cursor_type).alias(ORDER),
        written.alias(WRITTEN),
        landed.alias(LANDED),
    )


def _from_payload(rows: DataFrame, batch: Batch) -> DataFrame:
    changes, day = batch.table.changes, batch.table.landing_column
    rows = rows.withColumn("_fields", F.col("payload").try_cast("map<string,variant>"))
    order, written, landed = F.lit(None), F.lit(False), F.lit(None).cast("date")
    if changes.cursor_column is not None:
        value = F.try_element_at("_fields", F.lit(changes.cursor_column))
        written = value.isNotNull() & ~F.is_variant_null(value)
        order = changes.cursor_in(value)
    if day is not None:
        landed = _instant(F.try_element_at("_fields", F.lit(day))).cast("date")
    line = F.concat(F.lit("line:"), F.substring(F.sha2(F.col("_raw"), 256), 1, 32))
    hashed = F.when(F.col("_raw").isNotNull(), line).otherwise(payload_hash("payload"))
    own = batch.table.source_columns
    return rows.select(
        "payload",
        "_raw",
        "_file",
        F.col(HASH) if own else hashed.alias(HASH),
        order.cast(changes.cursor_type).alias(ORDER),
        F.coalesce(written, F.lit(False)).alias(WRITTEN),
        F.col(LANDED) if own else landed.alias(LANDED),
        *(name for name, _ in own),
    )


def _instant(value: Column) -> Column:
    return Instant().typed(F.schema_of_variant(value), value.try_cast("string"))
