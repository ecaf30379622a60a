"""One day of the demo feed as tutorials load it: Spark's and Delta's defaults, a job a table.

    python -m benchmarks.tutorial_script --landing DIR --lake DIR --day 2017-01-05

It is the yardstick of `benchmarks.quick`, so it is written as one would write it by hand, not to
lose. It keeps no state, sets no bad row aside and is not exactly-once: events run twice for the
same day are in bronze twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

JARS = Path(__file__).resolve().parent.parent / ".cache" / "jars"


def main() -> None:
    args = arguments(__doc__)
    spark = builder(args.jars).getOrCreate()
    events = load_bronze(spark, args.landing, args.lake, "events", args.day)
    users = load_bronze(spark, args.landing, args.lake, "users", args.day)
    load_silver_sales(events, args.lake, args.day)
    load_silver_users(users, args.lake, args.day)
    load_sales_mart(spark, args.lake, args.day)
    spark.stop()


def arguments(description: str | None) -> argparse.Namespace:
    """Where the feeds and the tables lie, and which day to load."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--landing", required=True)
    parser.add_argument("--lake", required=True)
    parser.add_argument("--day", required=True)
    parser.add_argument("--jars", default=JARS, type=Path, help="The folder of the Delta jars.")
    return parser.parse_args()


def builder(jars: Path) -> SparkSession.Builder:
    """As `configure_spark_with_delta_pip` does, but with the jars of the cache: no network."""
    return (
        SparkSession.builder.appName("sales")
        .master("local[*]")
        .config("spark.jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.sql.session.timeZone", "UTC")
    )


def load_bronze(spark: SparkSession, landing: str, lake: str, feed: str, day: str) -> DataFrame:
    """Append what landed on the day to bronze; the rows are handed on to silver."""
    rows = spark.read.json(f"{landing}/{feed}/{day}").withColumn(
        "landing_day", F.lit(day).cast("date")
    )
    (
        rows.write.format("delta")
        .mode("append")
        .option("mergeSchema", "true")
        .partitionBy("landing_day")
        .save(f"{lake}/bronze/{feed}")
    )
    return rows


def typed_sales(events: DataFrame) -> DataFrame:
    # Spark casts strictly: try_cast makes null of what cannot be read, as Spark 3's cast did.
    return events.select(
        "order_id",
        "user_id",
        "store_id",
        "product_id",
        F.col("qty").try_cast("int").alias("qty"),
        F.col("unit_price").try_cast("decimal(18,4)").alias("unit_price"),
        F.col("event_ts").try_cast("timestamp").alias("event_ts"),
        F.col("arrival_ts").try_cast("timestamp").alias("arrival_ts"),
    ).withColumn("dt", F.to_date("event_ts"))


def load_silver_sales(events: DataFrame, lake: str, day: str) -> None:
    sales = typed_sales(events)
    whole = F.col("order_id").isNotNull() & F.col("qty").isNotNull() & F.col("dt").isNotNull()
    bad = sales.where(~whole).count()
    if bad:
        print(f"{bad} rows with nulls are left out")
    latest = Window.partitionBy("order_id").orderBy(F.col("arrival_ts").desc())
    rows = (
        sales.where(whole & (F.col("dt") == F.lit(day).cast("date")))
        .withColumn("rank", F.row_number().over(latest))
        .where("rank = 1")
        .drop("rank")
    )
    replace_day(rows, f"{lake}/silver/sales", day)


def load_silver_users(users: DataFrame, lake: str, day: str) -> None:
    rows = (
        users.where("after IS NOT NULL")
        .select("after.*", "landing_day")
        .withColumn("updated_at", F.to_timestamp("updated_at"))
        .withColumnRenamed("landing_day", "dt")
        .dropDuplicates(["user_id", "updated_at"])
    )
    replace_day(rows, f"{lake}/silver/users", day)


def load_sales_mart(spark: SparkSession, lake: str, day: str) -> None:
    """Join the day's sales with the newest version of each user."""
    sales = spark.read.format("delta").load(f"{lake}/silver/sales").where(F.col("dt") == day)
    newest = Window.partitionBy("user_id").orderBy(F.col("updated_at").desc())
    users = (
        spark.read.format("delta")
        .load(f"{lake}/silver/users")
        .withColumn("rank", F.row_number().over(newest))
        .where("rank = 1")
        .drop("rank", "dt", "updated_at")
    )
    mart = sales.join(users, "user_id", "left").withColumn(
        "total_price", F.col("qty") * F.col("unit_price")
    )
    replace_day(mart, f"{lake}/gold/sales_mart", day)


def replace_day(rows: DataFrame, path: str, day: str) -> None:
    (
        rows.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", f"dt = '{day}'")
        .partitionBy("dt")
        .save(path)
    )


if __name__ == "__main__":
    main()
