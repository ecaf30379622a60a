"""Rows that are marked as deleted by a column of their own: a time, a flag, a word."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, OPERATION, WITHIN
from incremental_assets.errors import DefinitionError

# In any case, and with white space around it; 0E-10 is how decimals write their zero.
_LIVE = r"(?i)^[\s\p{Z}]*(|f|n|false|no|off|[+-]?(0+\.?0*|\.0+)(e[+-]?[0-9]+)?)[\s\p{Z}]*$"


def is_marked(text: Column) -> Column:
    """Whether a marker means that its row is deleted: null, false, no, off and 0 do not."""
    return F.coalesce(~text.rlike(_LIVE), F.lit(False))


def require_own_column(of: str, deleted: str, ordered_by: str) -> None:
    """Raise DefinitionError where the marker is the column of the order, which marks every row."""
    if deleted == ordered_by:
        raise DefinitionError(
            f"{of}: deleted={deleted!r} is the column by which the rows are ordered, so every row "
            "would be deleted; name the column that marks deleted rows."
        )


def deletes(marked: Column) -> dict[str, Column]:
    """`_operation` and `_deleted` of a row, and `_within`: at one instant the delete is the last.

    So a row that is marked in the instant of its last change is gone.
    """
    return {
        OPERATION: F.when(marked, F.lit("delete")).otherwise(F.lit("upsert")),
        DELETED: marked,
        WITHIN: F.when(marked, F.lit(1)).otherwise(F.lit(0)).cast("bigint"),
    }
