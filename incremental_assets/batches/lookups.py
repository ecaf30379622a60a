"""Which fact days look up what a batch changed, so that just those become stale."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from incremental_assets.batches.batch import Batch
from incremental_assets.intake.intake import HASH
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.read import (
    DataFile,
    TableFiles,
    no_rows,
    plain_files,
    read_files,
    read_version,
)
from incremental_assets.lake.session import own_session
from incremental_assets.ledger.entry import Entry
from incremental_assets.table import AsOf, ByDay, Table


def affected_days(
    batch: Batch, tables: Sequence[Table], entries: Sequence[Entry]
) -> tuple[date, ...] | None:
    """The days of facts that look up another version than before this batch, and no others.

    Asked after the batch's commit, of the facts as they are then: a reader that loads a fact day
    later has this batch in its own window. None (every day) where it is not known which commit the
    batch made.
    """
    readers = [
        (table, read)
        for table in tables
        for read in table.upstreams
        if isinstance(read, AsOf) and read.table.name == batch.table.name
    ]
    loaded = [(table, read) for table, read in readers if batch.view.table(table.name).committed]
    if not loaded or not any(e.touched for e in entries):
        return ()
    version = max((e.target_version for e in entries if e.target_version is not None), default=None)
    if version is None:
        return None
    with own_session(batch.spark(), small=batch.work.small) as session:
        days: set[date] = set()
        for table, read in loaded:
            facts = next(r.table for r in table.upstreams if isinstance(r, ByDay))
            days |= _days_of(session, batch, read, facts, version)
        return tuple(sorted(days))


def _days_of(
    session: SparkSession, batch: Batch, read: AsOf, facts: Table, version: int
) -> set[date]:
    """The days of facts whose version before the commit is not the one after it."""
    before, after = plain_files(batch.path, version - 1), plain_files(batch.path, version)
    columns = [read.key, read.valid_from, HASH]
    keys = _changed_keys(session, before, after, columns)
    path = f"{batch.settings.lake}/{facts.name}"
    rows = read_version(session, path, version_of(path)).select("dt", read.key, read.at)
    rows = rows.join(keys, read.key, "left_semi")
    for side, table in (("_old", before), ("_new", after)):
        versions = _rows(session, table, table.files, columns).join(keys, read.key, "left_semi")
        rows = _looked_up(rows, versions, read, side)
    differs = rows.where("NOT (_old <=> _new)")
    return {row["dt"] for row in differs.select("dt").distinct().collect()}


def _changed_keys(
    session: SparkSession, before: TableFiles, after: TableFiles, columns: Sequence[str]
) -> DataFrame:
    """The keys, in the first of the columns, of which the two versions hold other rows.

    What a file that was written anew carries over stands on both sides.
    """
    gone, new = _only_in(before, after), _only_in(after, before)
    removed = _rows(session, before, gone, columns)
    added = _rows(session, after, new, columns)
    if not (gone and new):  # a side without a row would be no join at all
        return (removed if gone else added).select(columns[0]).distinct()
    same = [removed[name].eqNullSafe(added[name]) for name in columns]
    apart = removed.join(added, same, "left_anti")
    return apart.unionByName(added.join(removed, same, "left_anti")).select(columns[0]).distinct()


def _looked_up(rows: DataFrame, versions: DataFrame, read: AsOf, name: str) -> DataFrame:
    """The facts with the hash of the version that each of them looks up."""
    intervals = validity(versions, read.key, read.valid_from).select(
        F.col(read.key).alias("_key"), "_from", "_to", F.col(HASH).alias(name)
    )
    valid = (
        (F.col(read.key) == F.col("_key"))
        & (F.col("_from").isNull() | (F.col(read.at) >= F.col("_from")))
        & (F.col("_to").isNull() | (F.col(read.at) < F.col("_to")))
    )
    return rows.join(intervals, valid, "left").drop("_key", "_from", "_to")


def _only_in(table: TableFiles, other: TableFiles) -> list[DataFile]:
    there = {file.path for file in other.files}
    return [file for file in table.files if file.path not in there]


def _rows(
    session: SparkSession, table: TableFiles, files: Sequence[DataFile], columns: Sequence[str]
) -> DataFrame:
    """Columns of some files; a table that was just made may lack them, and has no rows then."""
    if set(columns) <= {field.name for field in table.schema.fields}:
        return read_files(session, table, files).select(*columns)
    nothing = StructType([StructField(name, StringType()) for name in columns])
    return no_rows(session, nothing)


def validity(versions: DataFrame, key: str, valid_from: str) -> DataFrame:
    """The versions with the half-open interval [`_from`, `_to`) in which each is looked up.

    Null is without end: the first version of a key holds before it, too.
    """
    order = Window.partitionBy(key).orderBy(valid_from)
    return versions.withColumns(
        {
            "_from": F.when(F.row_number().over(order) > 1, F.col(valid_from)),
            "_to": F.lead(valid_from).over(order),
        }
    )
