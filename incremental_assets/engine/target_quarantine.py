"""The quarantine of a target: putting rows there, releasing them, removing outdated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.detector import NewRows
from incremental_assets.changes.source_rows import unseen
from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.columns import BATCH, HASH, REASONS, TABLE
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.literals import sql_text
from incremental_assets.delta.read import data_files
from incremental_assets.delta.side_table import cleanup, delete_side_rows, put_side_rows
from incremental_assets.engine.target import TargetTable
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.reasons import is_good
from incremental_assets.writes.replace_day import days_in, is_of_days

_COLUMNS = ((BATCH, "long"), (TABLE, "string"), (HASH, "string"))


def does_leave(state: TargetState, session: SparkSession, leaving: Sequence[DataFrame]) -> bool:
    """Whether a row in quarantine is among those that leave it, by `_hash`."""
    there = state.quarantine_rows(session) if leaving else None
    if there is None:
        return False
    hashes = reduce(lambda some, more: some.union(more), (rows.select(HASH) for rows in leaving))
    return not there.join(hashes, HASH, "left_semi").isEmpty()


def put(
    target: TargetTable,
    state: TargetState,
    new: NewRows,
    batch: int,
    leaving: Sequence[DataFrame] | None,
) -> None:
    """Put the bad rows of a batch into quarantine; where some leave it, also those that stay."""
    own = F.to_json(F.struct(*(F.col(quoted(n)) for n in new.own)))
    number = F.lit(batch).cast("long").alias(BATCH)
    rows = new.rows.where(~is_good()).select(
        number,
        F.lit(target.name).alias(TABLE),
        HASH,
        F.col("_file"),
        F.coalesce(F.col("_raw"), own).alias("row"),
        F.col(REASONS).alias("reasons"),
    )
    there = state.quarantine_rows(new.rows.sparkSession) if leaving is not None else None
    if there is not None and leaving is not None:
        staying = unseen(there, leaving).withColumn(BATCH, number)
        rows = rows.unionByName(staying.select(rows.columns))
    put_side_rows(rows, state.quarantine, target.quarantine_name, batch, _COLUMNS)


def with_rows_of_days(
    target: TargetTable, state: TargetState, frames: Frames, new: NewRows
) -> NewRows:
    """The new rows, and those that their days will be without, where days are read whole again.

    These were loaded, and are bad by the rules of today: they go to quarantine.
    """
    day, loaded = target.write.replaced_partition, state.loaded(frames.session)
    if not day or target.write.replaces_by_batch or new.every is None or not loaded:
        return new
    days = days_in(new.rows.where(is_good()), day)
    bad = new.every.where(~is_good() & is_of_days(day, days))
    hashes = reduce(lambda some, more: some.union(more), (rows.select(HASH) for rows in loaded))
    bad = unseen(
        bad.join(hashes, HASH, "left_semi"), [new.rows, *state.quarantined(frames.session)]
    )
    more = frames.cache(bad.select(new.rows.columns))
    count = more.count()
    if not count:
        return new
    note = (
        f"{count} rows that were loaded break a rule now: their days were read again without them"
    )
    return replace(
        new,
        rows=new.rows.unionByName(more),
        read=new.read + count,
        quarantined=new.quarantined + count,
        notes=(*new.notes, note),
    )


def tidy(target: TargetTable, counts_from: int, log: Callable[[str], None]) -> None:
    """Remove the rows from quarantine that are outdated by the ledger.

    No result depends on it: a failure is logged, and a later load tries again.
    """
    path = target.state.quarantine
    there = open_table(path) if counts_from else None
    if there is None:
        return
    with cleanup(f"{target.name}: outdated rows in quarantine", log):
        files = data_files(path, there.version())
        if any(file.first_batch is None or file.first_batch < counts_from for file in files):
            mine = f"{TABLE} = {sql_text(target.name)}"
            delete_side_rows(path, f"{BATCH} < {counts_from} AND {mine}")
