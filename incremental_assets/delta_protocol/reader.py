"""Delta's own reader, where Spark has all of Delta that it takes."""

from __future__ import annotations

from pyspark.sql import DataFrameReader, SparkSession

from incremental_assets.errors import SparkUnavailableError

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


def delta_reader(session: SparkSession) -> DataFrameReader:
    """The reader of Delta tables. Raises SparkUnavailableError without Delta's extension.

    Where Spark has Delta's catalog alone, the rows that deletion vectors delete come back.
    """
    if EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise SparkUnavailableError(
            "This Spark has no extension of Delta, without which rows that were deleted from a "
            f"Delta table would be read. Start it with spark.sql.extensions={EXTENSION} and "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog."
        )
    return session.read.format("delta")
