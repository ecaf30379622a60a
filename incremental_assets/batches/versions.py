"""Writing versions into a silver table: one row per key stays, the last in the total order.

Without a key every row stays.

Of two versions that only their hash tells apart, the greater one stays by convention and not by
what anybody said, so the other is written down beside the table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch
from incremental_assets.batches.typed import all_rows, days_as_shown, typed
from incremental_assets.changes.row_hash import row_hash
from incremental_assets.frames import persisted, quoted
from incremental_assets.intake.intake import TABLE
from incremental_assets.intake.write import BESIDE
from incremental_assets.lake.beside import put_beside
from incremental_assets.lake.delta_log import version_of
from incremental_assets.lake.history import DELETED, WHY
from incremental_assets.lake.literals import sql_days
from incremental_assets.lake.merge import (
    GONE,
    LOST,
    OLD,
    Merged,
    Ties,
    join_by_key,
    last_of_each,
    merge,
)
from incremental_assets.lake.read import DataFile, read_version
from incremental_assets.lake.stage import stage
from incremental_assets.lake.strategy import Merge
from incremental_assets.quality.contract import Contract
from incremental_assets.table import Table

_HASH = "_hash"


def write_versions(
    session: SparkSession,
    batch: Batch,
    rows: DataFrame,
    days: Collection[date],
    grown: Sequence[str],
) -> Merged:
    """Stage the rows of these days, merged where the table has rows of their keys."""
    table = batch.table
    if batch.work.mode == "rebuild" and table.day is None and isinstance(table.write, Merge):
        return _rebuilt_keys(session, batch, days, grown)
    good = rows.where(f"dt IN ({sql_days(days)}) AND size(_reasons) = 0")
    if table.write.appends:
        every = _columns(good, batch, grown).withColumn(LOST, F.lit(False))
        return _staged(batch, every, spread=len(days) > 1)
    latest = _ranked(_columns(good, batch, grown), table)
    if batch.work.mode in ("append", "rebuild"):
        return _staged(batch, latest, spread=len(days) > 1)
    order = [*table.version_by, _HASH]
    incoming, present = _struct(order), _struct(order, f"{OLD}.")
    wins, compared = f"{incoming} > {present}", order
    key = table.key
    if table.day is not None:
        key = (*table.key, "dt")
    else:
        # Of two equal copies the one that landed first stays, whichever is loaded first.
        wins = f"{wins} OR ({incoming} = {present} AND dt < {OLD}.dt)"
        compared = [*order, "dt"]
    if len(days) > 1:
        latest = latest.hint("rebalance", "dt")
    same = f"{_struct(table.version_by)} <=> {_struct(table.version_by, f'{OLD}.')}"
    tie = f"{LOST} OR ({OLD} IS NOT NULL AND {same} AND {_HASH} != {OLD}.{_HASH})"

    def may_hold(file: DataFile) -> bool:
        return table.day is None or file.partition["dt"] in days

    def record(pairs: DataFrame) -> None:
        lower = f"if({LOST}, {_HASH}, least({_HASH}, {OLD}.{_HASH}))"
        _put_ties(batch, pairs.withColumn(_HASH, F.expr(lower)))

    return merge(
        session,
        latest.withColumn(GONE, F.col(LOST)),
        batch.path,
        batch.folder,
        key,
        F.expr(f"({wins}) AND NOT {LOST}"),
        compared,
        may_hold,
        ties=Ties(F.expr(tie), record),
        marks=(LOST,),
    )


def _staged(batch: Batch, latest: DataFrame, *, spread: bool) -> Merged:
    """Stage the rows as they are; how many were lost is counted by the way."""
    seen = Observation("ties")
    kept = latest.observe(seen, F.count_if(LOST).alias("lost")).where(f"NOT {LOST}").drop(LOST)
    if spread:
        kept = kept.hint("rebalance", "dt")
    staged = stage(kept, batch.path, batch.folder, ("dt",))
    # A row that lost leaves one that stays; of a plan that was found empty nothing is observed.
    if staged.files and seen.get.get("lost"):
        _put_ties(batch, latest.where(LOST))
    return Merged(staged, (), {day: n for (day,), n in staged.rows.items()})


def _put_ties(batch: Batch, lost: DataFrame) -> None:
    """Write down the versions that only their hash made lose, with their keys."""
    table = batch.table
    names = dict.fromkeys((*table.key, *table.version_by, _HASH, "dt", "_landing_day", "_file"))
    rows = lost.select(
        F.lit(batch.number).cast("long").alias("_batch"),
        F.lit(table.name).alias(TABLE),
        F.lit(False).alias(DELETED),
        F.lit("lost by its hash alone").alias(WHY),
        *map(quoted, names),
    )
    put_beside(rows, f"{batch.path}/_beside", f"ties of {table.name}", batch.number, BESIDE)


def _ranked(rows: DataFrame, table: Table) -> DataFrame:
    """The last row of each key (and day, where that is unchanging), and those of `_lost`."""
    key = (*table.key, *(["dt"] if table.day is not None else []))
    order = ", ".join(f"{quoted(n)} DESC NULLS LAST" for n in (*table.version_by, _HASH))
    return last_of_each(rows, key, f"{order}, dt", _struct(table.version_by))


def _struct(names: Sequence[str], prefix: str = "") -> str:
    parts = (f"'{n}', {prefix}{quoted(n)}" for n in names)
    return f"named_struct({', '.join(parts)})" if names else "true"


def _columns(rows: DataFrame, batch: Batch, grown: Sequence[str]) -> DataFrame:
    """The columns of the table: the batch, the day, its own and grown ones, and `_hash`."""
    own = [n for n in rows.columns if not n.startswith("_") and n != "dt"]
    new = [name for name in grown if name.lower() not in {n.lower() for n in own}]
    undeclared = {name: Contract.undeclared(name) for name in new}
    grown_rows = rows.withColumns(undeclared) if undeclared else rows
    types = {f.name: f.dataType for f in grown_rows.schema.fields if f.name in {*own, *new}}
    return grown_rows.select(
        F.lit(batch.number).cast("long").alias("_batch"),
        "dt",
        *own,
        *new,
        "_landing_day",
        "_file",
        row_hash(types).alias(_HASH),
    )


def _rebuilt_keys(
    session: SparkSession, batch: Batch, days: Collection[date], grown: Sequence[str]
) -> Merged:
    """Derive anew every key that these landing days hold, or held before they were repaired.

    Another landing day may hold a copy of a key that its own day has lost, so the keys are read
    from all of bronze, as far as each day's gate has let it pass, and from what the table shows of
    days whose rows bronze has replaced meanwhile.
    """
    table, here = batch.table, f"dt IN ({sql_days(days)})"
    key = list(table.key)
    with typed(all_rows(session, batch, days), batch) as every:
        rows = every.rows.where("size(_reasons) = 0")
        table_now = read_version(session, batch.path, version_of(batch.path))
        keys = table_now.where(here).select(*key).union(rows.where(here).select(*key)).distinct()
        wanted = _columns(rows.join(keys, key, "left_semi"), batch, grown)
        if shown := days_as_shown(batch, days):
            there = table_now.where(f"dt IN ({sql_days(shown)})").join(keys, key, "left_semi")
            there = there.withColumn("_batch", F.lit(batch.number).cast("long"))
            same = [*key, "dt", *table.version_by]
            others = join_by_key(wanted, there.select(*same), same, "left_anti", nulls=True)
            wanted = others.unionByName(there, allowMissingColumns=True)
        with persisted(_ranked(wanted, table)) as kept:
            lost = kept.where(f"{LOST} AND {here}")
            if lost.limit(1).collect():
                _put_ties(batch, lost)
            last = kept.where(f"NOT {LOST}").drop(LOST)
            incoming = keys.join(last, key, "left").withColumn(GONE, F.col("dt").isNull())
            return merge(
                session, incoming, batch.path, batch.folder, table.key, F.lit(True), nulls=True
            )
