"""What differs between two versions of a table, read from the files that only one of them has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from incremental_assets.delta.columns import PARTIAL
from incremental_assets.delta.read import DataFile, TableFiles, every_file, no_rows, read_files
from incremental_assets.frames import quoted

_SIDE = "_side"


def differing_rows(
    session: SparkSession,
    before: TableFiles,
    after: TableFiles,
    columns: Sequence[str],
    keep: Callable[[DataFile], bool] = every_file,
) -> DataFrame:
    """The rows, by these columns, that one of the versions has more of than the other.

    Rows carried forward to a rewritten file are on both sides, and cancel out. Equal rows are
    counted: of three where there are two now, one differs. `keep` selects the files to compare. A
    row of the same change has another value where one that it lacks is found elsewhere.
    """
    old = [file for file in only_in(before, after) if keep(file)]
    new = [file for file in only_in(after, before) if keep(file)]
    if any(PARTIAL in table.schema.names for table in (before, after)):
        columns = [*columns, PARTIAL]
    removed = rows_of(session, before, old, columns)
    added = rows_of(session, after, new, columns)
    if not (old and new):  # one side is empty
        return removed if old else added
    sides = removed.withColumn(_SIDE, F.lit(-1)).unionByName(added.withColumn(_SIDE, F.lit(1)))
    apart = sides.groupBy(*map(quoted, columns)).agg(F.sum(_SIDE).alias(_SIDE))
    return apart.where(f"{_SIDE} != 0").drop(_SIDE)


def only_in(table: TableFiles, other: TableFiles) -> list[DataFile]:
    """The files of a version that another one does not have."""
    others = {file.path for file in other.files}
    return [file for file in table.files if file.path not in others]


def rows_of(
    session: SparkSession, table: TableFiles, files: Sequence[DataFile], columns: Sequence[str]
) -> DataFrame:
    """Columns of some files; a table that was just created may lack them, and has no rows."""
    there = set(table.schema.names)
    if set(columns) <= {*there, PARTIAL}:
        partial = F.to_json(PARTIAL) if PARTIAL in there else F.lit(None).cast("string")
        each = (partial.alias(PARTIAL) if n == PARTIAL else F.col(quoted(n)) for n in columns)
        return read_files(session, table, files).select(*each)
    nothing = StructType([StructField(name, StringType()) for name in columns])
    return no_rows(session, nothing)
