"""Bronze: streaming tables, to which each landed file is appended once."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.careful_script import EVENTS, USERS

spark = SparkSession.active()


# A decorator calls its function at once, so what the function needs stands above it.
def landed(feed: str, schema: str) -> DataFrame:
    """The lines of a feed, with the day of the folder in which they landed."""
    landing = spark.conf.get("benchmark.landing")
    day = F.regexp_extract("_metadata.file_path", r"/(\d{4}-\d\d-\d\d)/[^/]+$", 1)
    rows = spark.readStream.schema(schema).json(f"{landing}/{feed}/*")
    return rows.select("*", day.cast("date").alias("landing_day"))


@dp.table(partition_cols=["landing_day"])
def bronze_events() -> DataFrame:
    return landed("events", EVENTS)


@dp.table(partition_cols=["landing_day"])
def bronze_users() -> DataFrame:
    return landed("users", USERS)
