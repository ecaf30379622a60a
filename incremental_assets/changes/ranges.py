"""The contiguous ranges of numbers that a column holds (gaps and islands)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

BLOCK = 1_000_000
MOST = 10_000


def contiguous_ranges(rows: DataFrame, column: str) -> tuple[list[tuple[int, int]], bool]:
    """The ranges, both ends included, and whether these are all of them.

    They are found inside blocks of a million numbers, so that no task sorts them all. Where there
    are more than 10,000, one from the lowest to the highest number replaces them.
    """
    numbers = rows.select(F.col(column).alias("n")).where("n IS NOT NULL").distinct()
    ranked = numbers.selectExpr(
        "n",
        f"floor(n / {BLOCK}) AS block",
        f"n - row_number() OVER (PARTITION BY floor(n / {BLOCK}) ORDER BY n) AS run",
    )
    found = (
        ranked.groupBy("block", "run")
        .agg(F.min("n").alias("low"), F.max("n").alias("high"))
        .limit(MOST + 1)
        .collect()
    )
    if len(found) <= MOST:
        return [(int(row["low"]), int(row["high"])) for row in found], True
    ends = numbers.agg(F.min("n").alias("low"), F.max("n").alias("high")).collect()[0]
    return [(int(ends["low"]), int(ends["high"]))], False
