"""The same day as `benchmarks.tutorial_script`, by somebody who knows Spark.

    python -m benchmarks.careful_script --landing DIR --lake DIR --day 2017-01-05

The schema is given, so nothing is read to infer it; four shuffle partitions for two cores; memory
as the project takes by default. As the other one it keeps no state and sets no bad row aside.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.tutorial_script import (
    arguments,
    builder,
    load_sales_mart,
    load_silver_sales,
    load_silver_users,
)

EVENTS = (
    "order_id string, user_id string, store_id string, product_id string, basket_id string, "
    "qty string, unit_price string, retail_disc string, coupon_disc string, "
    "coupon_match_disc string, event_ts string, arrival_ts string"
)
USER = (
    "user_id string, age string, income string, home_ownership string, marital_status string, "
    "household_size string, household_comp string, kids_count string, updated_at string"
)
USERS = f"before struct<{USER}>, after struct<{USER}>, op string, ts_ms bigint"


def main() -> None:
    args = arguments(__doc__)
    spark = (
        builder(args.jars)
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    events = load_bronze(spark, args.landing, args.lake, "events", args.day, EVENTS)
    users = load_bronze(spark, args.landing, args.lake, "users", args.day, USERS)
    load_silver_sales(events, args.lake, args.day)
    load_silver_users(users, args.lake, args.day)
    load_sales_mart(spark, args.lake, args.day)
    spark.stop()


def load_bronze(
    spark: SparkSession, landing: str, lake: str, feed: str, day: str, schema: str
) -> DataFrame:
    """Append what landed on the day to bronze, and read it from there."""
    path = f"{lake}/bronze/{feed}"
    rows = spark.read.schema(schema).json(f"{landing}/{feed}/{day}")
    (
        rows.withColumn("landing_day", F.lit(day).cast("date"))
        .write.format("delta")
        .mode("append")
        .partitionBy("landing_day")
        .save(path)
    )
    return spark.read.format("delta").load(path).where(F.col("landing_day") == F.lit(day))


if __name__ == "__main__":
    main()
