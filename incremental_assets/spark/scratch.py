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
    own = [f.name for f in rows.schema if not isinstance(f.dataType, NullType)]
    kept = rows.select(*map(quoted, own))  # Parquet knows no column without a type
    try:
        kept.write.parquet(path)
        found = rows.sparkSession.read.schema(kept.schema).parquet(path)
        yield found.select(
            *(F.col(quoted(n)) if n in own else F.lit(None).alias(n) for n in rows.columns)
        )
    finally:
        remove(path)
