"""Rows that are marked as deleted by a column of their own: a time, a flag, a word."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, OPERATION, WITHIN

_LIVE = ("", "f", "F", "n", "N", "false", "False", "FALSE", "no", "No", "NO")
_ZERO = r"^[+-]?0+(\.0*)?$"


def is_marked(text: Column) -> Column:
    """Whether the text of a marker says that its row is deleted: null, false, no and 0 do not."""
    word = F.trim(text)
    live = word.isin(*_LIVE) | word.rlike(_ZERO)
    return F.coalesce(~live, F.lit(False))


def deletes(marked: Column) -> dict[str, Column]:
    """`_operation` and `_deleted` of a row, and `_within`: at one instant the delete is the last.

    So a row that is marked in the instant of its last change is gone.
    """
    return {
        OPERATION: F.when(marked, F.lit("delete")).otherwise(F.lit("upsert")),
        DELETED: marked,
        WITHIN: F.when(marked, F.lit(1)).otherwise(F.lit(0)).cast("bigint"),
    }
