"""What all bronze tables share: their columns, lines as they landed, the day that judges one."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch
from incremental_assets.quality.types import Timestamp
from incremental_assets.settings import local_path
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.storage import spark_path

# `_raw` holds a line that is not JSON; `payload` any other.
COLUMNS = (
    ("_batch", "long"),
    ("_landing_day", "date"),
    ("_day", "date"),
    ("_file", "string"),
    ("payload", "variant"),
    ("_raw", "string"),
)
PARTITIONS = ("_landing_day", "_day")
_BYTE_ORDER_MARK = "\ufeff"
_BLANK = " \t\n\x0b\f\r"
_ALL = 2**31 - 1


def landed_lines(session: SparkSession, batch: Batch, files: Sequence[SourceFile]) -> DataFrame:
    """Every line that is not blank: its number, days, file, and payload or raw text."""
    root = batch.settings.landing
    lines = session.read.text([spark_path(root, file.path) for file in files])
    value = F.col("value")
    text = F.when(value.startswith(_BYTE_ORDER_MARK), F.substring(value, 2, _ALL)).otherwise(value)
    lines = lines.where(F.ltrim(text, F.lit(_BLANK)) != "").select(
        F.lit(batch.number).cast("long").alias("_batch"),
        _relative_path(root).alias("_file"),
        text.alias("_text"),
        F.try_parse_json(text).alias("payload"),
    )
    rows = lines.withColumn("_raw", F.when(F.col("payload").isNull(), F.col("_text")))
    folder = F.substring_index("_file", "/", 2)  # <feed>/YYYY-MM-DD
    rows = rows.withColumn("_landing_day", F.substring(folder, -10, 10).cast("date"))
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
    business = Timestamp().read(F.col("payload"), table.day).cast("date")
    lateness = table.lateness_in(batch.settings.lateness)
    in_time = business <= F.date_add(landed, 1)
    if lateness is not None:
        in_time &= business >= F.date_sub(landed, lateness.days)
    inside = business >= F.lit(batch.settings.start_date)
    return F.coalesce(F.when(in_time & inside, business), landed)


def _relative_path(landing: str) -> Column:
    """The file's path below the landing root, as it was listed.

    Spark gives it as a URI: percent-encoded, but with `+` as it is.
    """
    local = local_path(landing)
    root = str(local) if local is not None else landing.split("://", 1)[1]
    decoded = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    start = F.locate(root, decoded) + F.lit(len(root) + 1)
    return F.substr(decoded, start)
