"""The script's five tables of all landed days at once, by somebody who knows Spark.

    python -m benchmarks.plain_year --landing DIR --lake DIR

It is the yardstick of `benchmarks.year`: what `benchmarks.careful_script` does for a day, in one
job over every day that landed. Schemas are given, four shuffle partitions, one partition for
Delta's log as the project has, one file a day. It leaves out what cannot be read and what is
negative, keeps no state, and needs an empty lake.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.careful_script import EVENTS, USERS
from benchmarks.tutorial_script import JARS, builder, typed_sales

LANDING_DAY = r"/(\d{4}-\d{2}-\d{2})/[^/]+$"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landing", required=True)
    parser.add_argument("--lake", required=True)
    parser.add_argument("--jars", default=JARS, type=Path, help="The folder of the Delta jars.")
    asked = parser.parse_args()
    spark = (
        builder(asked.jars)
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .getOrCreate()
    )
    lake = asked.lake
    events = write(landed(spark, asked.landing, "events", EVENTS), f"{lake}/bronze/events")
    users = write(landed(spark, asked.landing, "users", USERS), f"{lake}/bronze/users")
    sales = write(newest_sales(events), f"{lake}/silver/sales")
    versions = write(user_versions(users), f"{lake}/silver/users")
    write(sales_mart(sales, versions), f"{lake}/gold/sales_mart")
    spark.stop()


def landed(spark: SparkSession, landing: str, feed: str, schema: str) -> DataFrame:
    """All lines of a feed, with the day on which they landed as `dt`."""
    files = spark.read.schema(schema).option("recursiveFileLookup", "true")
    day = F.regexp_extract(F.col("_metadata.file_path"), LANDING_DAY, 1).cast("date")
    return files.json(f"{landing}/{feed}").withColumn("dt", day)


def write(rows: DataFrame, path: str) -> DataFrame:
    """Write a table by day, and read it from there."""
    rows.repartition("dt").write.format("delta").partitionBy("dt").save(path)
    return rows.sparkSession.read.format("delta").load(path)


def newest_sales(events: DataFrame) -> DataFrame:
    """The sale of each key that arrived last, on the day on which it was sold."""
    good = "order_id IS NOT NULL AND dt IS NOT NULL AND qty >= 0 AND unit_price >= 0"
    return newest(typed_sales(events).where(good), "order_id", "arrival_ts")


def user_versions(users: DataFrame) -> DataFrame:
    return (
        users.where("after IS NOT NULL")
        .select("after.*", "dt")
        .withColumn("updated_at", F.to_timestamp("updated_at"))
        .dropDuplicates(["user_id", "updated_at"])
    )


def sales_mart(sales: DataFrame, versions: DataFrame) -> DataFrame:
    """Join each sale with the newest version of its user."""
    users = newest(versions, "user_id", "updated_at").drop("dt", "updated_at")
    total = F.col("qty") * F.col("unit_price")
    return sales.join(users, "user_id", "left").withColumn("total_price", total)


def newest(rows: DataFrame, key: str, version: str) -> DataFrame:
    latest = Window.partitionBy(key).orderBy(F.col(version).desc())
    return rows.withColumn("rank", F.row_number().over(latest)).where("rank = 1").drop("rank")


if __name__ == "__main__":
    main()
