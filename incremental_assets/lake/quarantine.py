"""The quarantine of a table: the rows that its gate held back, with all their reasons.

Rows are kept as their text rather than as VARIANT, so that what an abandoned batch or an earlier
judgement left can be dropped without a JVM, and so that any Delta reader can show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import LakeError
from incremental_assets.lake.delta_log import ensure_table, open_table, put_fence, transaction
from incremental_assets.lake.publish import publish
from incremental_assets.lake.stage import discard_batch, stage
from incremental_assets.lake.transaction import Transaction

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
    ensure_table(path, f"quarantine of {table}", _COLUMNS, ("_day",))
    rejected = rows.where(F.size("_reasons") > 0).select(
        F.lit(batch).cast("long").alias("_batch"),
        "_day",
        "_landing_day",
        "_file",
        F.col("_line").alias("row"),
        F.col("_reasons").alias("reasons"),
    )
    staged = stage(rejected, path, batch, ("_day",))
    publish(staged, Transaction(_app_id(table), batch, f'{{"batch":{batch}}}'))


def abandon(path: str, table: str, batch: int) -> None:
    """Drop the rows of a batch that was given up, for good.

    Its writer may still be alive, so its number is fenced here, too, before the rows are dropped.
    """
    if open_table(path) is None:
        return
    while transaction(path, _app_id(table)) < batch:
        put_fence(path, _app_id(table), batch)
    _delete(path, f"_batch = {batch}")
    discard_batch(path, batch)


def supersede(path: str, batch: int, replaced_from: Mapping[date, int]) -> None:
    """Drop what an earlier batch judged of the windows that `batch` judged again.

    `replaced_from` gives per day the first batch number whose rows are replaced.
    """
    conditions = [
        f"(_day = '{day}' AND _batch >= {low} AND _batch < {batch})"
        for day, low in replaced_from.items()
    ]
    if conditions:
        _delete(path, " OR ".join(conditions))


def _app_id(table: str) -> str:
    return f"quarantine of {table}"


def _delete(path: str, predicate: str) -> None:
    if open_table(path) is None:
        return
    try:
        DeltaTable(path).delete(predicate)
    except DeltaError as error:
        raise LakeError(
            f"{path}: rows of an earlier judgement cannot be dropped ({error}). Run again."
        ) from error
