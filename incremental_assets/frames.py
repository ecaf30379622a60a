"""What everything that works with frames needs: names as Spark takes them, rows that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def quoted(name: str) -> str:
    """A column's name as Spark takes it, with dots and back quotes as they are."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows, kept while they are worked with, so that their source is read once."""
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()
