"""What all bronze tables share: columns, landed lines, and the silver day that judges a line."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.engine.batch import Batch
from incremental_assets.quality.types import Instant
from incremental_assets.sources.lines import read_lines, unread
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import DataFiles

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


def landed_lines(session: SparkSession, batch: Batch, files: Sequence[SourceFile]) -> DataFrame:
    """Every line that is not blank: its number, days, file, and payload or raw text."""
    lines = read_lines(session, DataFiles(batch.settings.landing, tuple(files)))
    folder = F.substring_index("_file", "/", 2)  # <feed>/YYYY-MM-DD
    rows = lines.select(
        F.lit(batch.number).cast("long").alias("_batch"),
        F.substring(folder, -10, 10).cast("date").alias("_landing_day"),
        "_file",
        "payload",
        unread(),
    )
    return rows.withColumn("_day", judging_day(batch, F.col("_landing_day"))).select(
        "_batch", "_landing_day", "_day", "_file", "payload", "_raw"
    )


def judging_day(batch: Batch, landed: Column) -> Column:
    """The day whose silver partition judges the row.

    Its business day, or the landing day where that cannot be read or lies outside the lateness.
    """
    table = batch.table
    if table.day is None:
        return landed
    business = Instant().read(F.col("payload"), table.day).cast("date")
    lateness = table.allowed_lateness_in(batch.settings.allowed_lateness)
    in_time = business <= F.date_add(landed, 1)
    if lateness is not None:
        in_time &= business >= F.date_sub(landed, lateness.days)
    inside = business >= F.lit(batch.settings.start_date)
    return F.coalesce(F.when(in_time & inside, business), landed)
