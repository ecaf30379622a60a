"""Which fact days look up what a batch changed, so that just those become stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.as_of import is_valid, validity
from incremental_assets.delta.columns import HASH, PARTIAL
from incremental_assets.delta.compare import differing_rows, rows_of
from incremental_assets.delta.delta_table import bytes_of, open_table, version_of
from incremental_assets.delta.read import plain_files, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.spark.load_session import own_session, size_of
from incremental_assets.table import AsOf, SameDay, Table


def affected_days(
    batch: Batch, tables: Sequence[Table], entries: Sequence[Entry]
) -> tuple[date, ...] | None:
    """The days of facts that look up another version than before this batch, and no others.

    Asked after the batch's commit, of the facts as they are then: a reader that claims a load of a
    fact day later reads this commit, and one that claimed before is asked for here, also if that is
    its first load and under way still. None (every day) where it is not known which commit the
    batch made.
    """
    readers = [
        (table, read)
        for table in tables
        for read in table.upstreams
        if isinstance(read, AsOf) and read.table.name == batch.table.name
    ]
    if not readers or not any(e.touched for e in entries):
        return ()
    loaded = [(table, read) for table, read in readers if _is_begun(batch, table)]
    if not loaded:
        return ()
    version = max((e.target_version for e in entries if e.target_version is not None), default=None)
    if version is None:
        return None
    facts = {table.name: _facts_of(table) for table, _ in loaded}
    paths = [batch.path, *(f"{batch.settings.lake}/{found.name}" for found in facts.values())]
    size = size_of(batch.work.rows, [bytes_of(path) for path in paths])
    with own_session(batch.spark(), size) as session:
        days: set[date] = set()
        for table, read in loaded:
            days |= _days_of(session, batch, read, facts[table.name], version)
        return tuple(sorted(days))


def looked_up_versions(table: Table, lake: str) -> Mapping[str, int]:
    """The newest version of each table that a table looks up, by the tables' own logs.

    A table whose first batch is published but not recorded yet is included.
    """
    found = {}
    for read in table.upstreams:
        if isinstance(read, AsOf):
            there = open_table(f"{lake}/{read.table.name}")
            columns = {f.name for f in there.schema().fields} if there is not None else set()
            if there is not None and {read.key, read.valid_from} <= columns:
                found[read.table.name] = there.version()
    return found


def _is_begun(batch: Batch, table: Table) -> bool:
    """Whether a table was ever claimed, by the ledger's tail: a held load has looked up, too."""
    if batch.view.table(table.name).high:
        return True
    return bool(Ledger(ledger_path(batch.settings.lake)).tail(table.name).last_batch)


def _facts_of(table: Table) -> Table:
    return next(read.table for read in table.upstreams if isinstance(read, SameDay))


def _days_of(
    session: SparkSession, batch: Batch, read: AsOf, facts: Table, version: int
) -> set[date]:
    """The days of facts whose version before the commit is not the one after it."""
    before, after = plain_files(batch.path, version - 1), plain_files(batch.path, version)
    ends = [read.valid_to] if read.valid_to else []
    columns = [read.key, read.valid_from, *ends, HASH]
    keys = differing_rows(session, before, after, columns).select(read.key).distinct()
    path = f"{batch.settings.lake}/{facts.name}"
    rows = read_version(session, path, version_of(path)).select("dt", read.key, read.at)
    rows = rows.join(keys, read.key, "left_semi")
    for side, table in (("_old", before), ("_new", after)):
        versions = rows_of(session, table, table.files, [*columns, PARTIAL])
        versions = versions.join(keys, read.key, "left_semi")
        rows = _looked_up(rows, versions, read, side)
    differs = rows.where("NOT (_old <=> _new)")
    return {row["dt"] for row in differs.select("dt").distinct().collect()}


def _looked_up(rows: DataFrame, versions: DataFrame, read: AsOf, name: str) -> DataFrame:
    """The facts with what identifies the version that each of them looks up."""
    intervals = validity(versions, read).select(
        F.col(read.key).alias("_key"), "_from", "_to", F.concat_ws(" ", HASH, PARTIAL).alias(name)
    )
    return rows.join(intervals, is_valid(read), "left").drop("_key", "_from", "_to")
