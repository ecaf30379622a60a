"""Rows of a small Delta table, without a JVM.

By delta-rs's own engine: polars reads a table whose path holds a space by its encoded name, and
finds nothing there.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError


def query(table: DeltaTable, columns: str = "*", where: str = "true") -> pl.DataFrame:
    """These columns of the rows of the table at its version that meet a condition.

    Raises DeltaError or OSError.
    """
    sql = f"SELECT {columns} FROM t WHERE {where}"
    try:
        found = QueryBuilder().register("t", table).execute(sql)
        return pl.DataFrame(pa.table(found.read_all()))
    except Exception as error:
        if type(error) is not Exception:
            raise
        # What its engine finds wrong in a file has no class of its own.
        raise DeltaError(str(error)) from error
