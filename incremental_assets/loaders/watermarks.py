"""The watermarks of a ledger as the classic table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.read import no_rows
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.watermarks import watermark_rows
from incremental_assets.loaders.options import table_path_of

_COLUMNS = StructType(
    [
        StructField("table_name", StringType()),
        StructField("watermark_value", StringType()),
        StructField("last_updated", TimestampType()),
    ]
)


def read_watermarks(spark: SparkSession, watermark_path: str | Path) -> DataFrame:
    """The watermarks, a row per table.

    `table_name: string`, `watermark_value: string`, `last_updated: timestamp`. A watermark is ISO
    8601 in UTC with microseconds, or digits; it moves with a successful load only. Empty where
    nothing was loaded yet. Raises LedgerError for a table of another shape.
    """
    path = table_path_of("watermark_path", watermark_path)
    if open_table(path) is None:
        return no_rows(spark, _COLUMNS)
    rows = watermark_rows(Ledger(path)).rows()
    return spark.createDataFrame(rows, _COLUMNS) if rows else no_rows(spark, _COLUMNS)
