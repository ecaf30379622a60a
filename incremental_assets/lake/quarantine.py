"""The quarantine of a table: the rows that its gate held back, with all their reasons.

Rows are kept as their text rather than as VARIANT, so that what an abandoned batch or an earlier
judgement left can be dropped without a JVM, and so that any Delta reader can show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.lake.beside import abandon_beside, delete_beside, put_beside

_COLUMNS = (
    ("_batch", "long"),
    ("_day", "date"),
    ("_landing_day", "date"),
    ("_file", "string"),
    ("row", "string"),
)


def put(rows: DataFrame, path: str, table: str, batch: int) -> None:
    """Add the rows that have reasons: `_batch`, `_day`, `_landing_day`, `_file`, `row`, `reasons`.

    `row` is the line's JSON, or the line as it landed where it is none.
    """
    rejected = rows.where(F.size("_reasons") > 0).select(
        F.lit(batch).cast("long").alias("_batch"),
        "_day",
        "_landing_day",
        "_file",
        F.col("_line").alias("row"),
        F.col("_reasons").alias("reasons"),
    )
    put_beside(rejected, path, _name(table), batch, _COLUMNS, ("_day",))


def abandon(path: str, table: str, batch: int) -> None:
    """Drop the rows of a batch that was given up, for good."""
    abandon_beside(path, _name(table), batch)


def supersede(path: str, batch: int, replaced_from: Mapping[date, int]) -> None:
    """Drop what an earlier batch judged of the windows that `batch` judged again.

    `replaced_from` gives per day the first batch number whose rows are replaced.
    """
    conditions = [
        f"(_day = '{day}' AND _batch >= {low} AND _batch < {batch})"
        for day, low in replaced_from.items()
    ]
    if conditions:
        delete_beside(path, " OR ".join(conditions))


def _name(table: str) -> str:
    return f"quarantine of {table}"
