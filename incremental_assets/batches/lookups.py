"""Which fact days look up what a batch changed, so that just those become stale."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.read import read_version
from incremental_assets.lake.session import own_session
from incremental_assets.ledger.entry import Entry
from incremental_assets.table import AsOf, ByDay, Table


def affected_days(
    batch: Batch, tables: Sequence[Table], entries: Sequence[Entry]
) -> tuple[date, ...] | None:
    """The days of facts whose looked-up version this batch may have changed.

    Asked after the batch's commit, of the facts as they are then: a reader that loads a fact day
    later has this batch in its own window. None (every day) where rows were taken away, because
    then the old versions are not there to be asked.
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
    if batch.work.mode == "rebuild":
        return None
    with own_session(batch.spark(), small=batch.work.small) as session:
        days: set[date] = set()
        for table, read in loaded:
            facts = next(r.table for r in table.upstreams if isinstance(r, ByDay))
            days |= _days_of(session, batch, read, facts)
        return tuple(sorted(days))


def _days_of(session: SparkSession, batch: Batch, read: AsOf, facts: Table) -> set[date]:
    versions = read_version(session, batch.path, version_of(batch.path))
    path = f"{batch.settings.lake}/{facts.name}"
    rows = read_version(session, path, version_of(path)).select("dt", read.key, read.at)
    changed = (
        validity(versions, read.key, read.valid_from)
        .where(F.col("_batch") == F.lit(batch.number))
        .select(F.col(read.key).alias("_key"), "_from", "_to")
    )
    valid = (
        (F.col(read.key) == F.col("_key"))
        & (F.col("_from").isNull() | (F.col(read.at) >= F.col("_from")))
        & (F.col("_to").isNull() | (F.col(read.at) < F.col("_to")))
    )
    return {row["dt"] for row in rows.join(changed, valid).select("dt").distinct().collect()}


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
