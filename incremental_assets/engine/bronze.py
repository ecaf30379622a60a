"""What all bronze tables share: columns, landed lines, and the silver day that judges a line."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.engine.batch import Batch
from incremental_assets.frames import Frames
from incremental_assets.quality.types import Instant
from incremental_assets.sources.archives import UnpackFolder
from incremental_assets.sources.source_file import SourceFile

# `_raw` holds a line that is not JSON, decodable; `payload` any other.
COLUMNS = (
    ("_batch", "long"),
    ("_landing_day", "date"),
    ("_day", "date"),
    ("_file", "string"),
    ("payload", "variant"),
    ("_raw", "string"),
)
PARTITIONS = ("_landing_day", "_day")
_DAY_TEXT = "_of_day_text"


def landed_rows(frames: Frames, batch: Batch, files: Sequence[SourceFile]) -> DataFrame:
    """Every row of landed files: its number, days, file, and payload or raw text.

    Of text, every line that is not blank.
    """
    feed = batch.table.feed
    assert feed is not None
    folder = UnpackFolder(batch.settings.lake, batch.table.name, batch.number)
    rows = feed.rows(frames, batch.settings.landing, files, folder)
    landed = feed.day_column(F.col("_file"))
    if landed is None:
        rows, landed = _with_days(rows, batch), F.col("_landing_day")
    rows = rows.select(
        F.lit(batch.number).cast("long").alias("_batch"),
        landed.alias("_landing_day"),
        "_file",
        "payload",
        "_raw",
    )
    return with_judging_day(rows, batch, F.col("_landing_day")).select(
        "_batch", "_landing_day", "_day", "_file", "payload", "_raw"
    )


def _with_days(rows: DataFrame, batch: Batch) -> DataFrame:
    """Add `_landing_day`, for files whose paths have none: that of the file in the batch."""
    days = {file.path: work.day for work in batch.work.days.values() for file in work.files}
    if len(set(days.values())) == 1:
        return rows.withColumn("_landing_day", F.lit(next(iter(days.values()))))
    table = pa.table({"_file": list(days), "_landing_day": pa.array(days.values(), pa.date32())})
    days_of = F.broadcast(rows.sparkSession.createDataFrame(table))
    unknown = F.raise_error(F.concat(F.lit("no landing day is known of "), "_file"))
    day = F.coalesce("_landing_day", unknown.cast("date"))
    return rows.join(days_of, "_file", "left").withColumn("_landing_day", day)


def with_judging_day(rows: DataFrame, batch: Batch, landed: Column) -> DataFrame:
    """Add `_day`: the day whose silver partition judges the row.

    It is its business day, or the landing day where that cannot be read or is outside the lateness.
    """
    if batch.table.day is None:
        return rows.withColumn("_day", landed)
    # The text is a column of its own, so that it is taken out of the payload once.
    text = F.try_variant_get("payload", f"$.{batch.table.day}", "string")
    rows = rows.withColumn(_DAY_TEXT, text)
    return rows.withColumn("_day", _judging_day(batch, landed, batch.table.day)).drop(_DAY_TEXT)


def _judging_day(batch: Batch, landed: Column, field: str) -> Column:
    table = batch.table
    kind = F.schema_of_variant(F.try_variant_get("payload", f"$.{field}", "variant"))
    business = Instant().typed(kind, F.col(_DAY_TEXT)).cast("date")
    lateness = table.allowed_lateness_in(batch.settings.allowed_lateness)
    in_time = business <= F.date_add(landed, 1)
    if lateness is not None:
        in_time &= business >= F.date_sub(landed, lateness.days)
    inside = business >= F.lit(batch.settings.start_date)
    return F.coalesce(F.when(in_time & inside, business), landed)
