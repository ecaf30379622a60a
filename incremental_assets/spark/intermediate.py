"""Intermediate results of a load, in files: also where an executor or a session may be lost."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from incremental_assets.frames import quoted
from incremental_assets.storage import remove, spark_folder, spark_path


@contextmanager
def in_files(rows: DataFrame, path: str, prefix: str) -> Iterator[DataFrame]:
    """The rows, written as Parquet into a new folder inside `path`, which is removed at the end.

    Its name begins with `prefix`. What cannot be removed is no error: the rows are loaded.
    """
    folder = f"{prefix}{secrets.token_hex(4)}"
    own = [f.name for f in rows.schema if not isinstance(f.dataType, NullType)]
    typed = rows.select(*map(quoted, own))  # Parquet knows no column without a type
    writer = typed.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    try:
        writer.parquet(spark_folder(f"{path}/{folder}"))
        found = rows.sparkSession.read.schema(typed.schema).parquet(spark_path(path, folder))
        yield found.select(
            *(F.col(quoted(n)) if n in own else F.lit(None).alias(n) for n in rows.columns)
        )
    finally:
        with suppress(OSError):
            remove(f"{path}/{folder}")
