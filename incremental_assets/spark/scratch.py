"""Rows that a load needs until its end, in files: where a checkpoint of Spark's does not stay."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from incremental_assets.frames import quoted
from incremental_assets.storage import remove


@contextmanager
def written(rows: DataFrame, scratch: str) -> Iterator[DataFrame]:
    """The rows, written as Parquet into a folder whose name begins so, for the context."""
    path = f"{scratch}-{secrets.token_hex(4)}"
    empty = [field.name for field in rows.schema if isinstance(field.dataType, NullType)]
    try:
        rows.drop(*map(quoted, empty)).write.parquet(path)  # which knows no column without a type
        found = rows.sparkSession.read.schema(rows.drop(*map(quoted, empty)).schema).parquet(path)
        found = found.withColumns({name: F.lit(None) for name in empty})
        yield found.select(*(quoted(name) for name in rows.columns))
    finally:
        remove(path)
