"""What batches of gold tables share: the frames that they read, the rows they make, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from incremental_assets.batches.batch import Batch, verdict
from incremental_assets.batches.totals import differences, totals
from incremental_assets.frames import quoted
from incremental_assets.lake.literals import sql_days
from incremental_assets.lake.read import DataFile, no_rows, read_version
from incremental_assets.ledger.entry import Entry
from incremental_assets.quality.gate import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.table import AsOf, ByDay, Sums


def upstream_rows(session: SparkSession, batch: Batch, read: ByDay | AsOf) -> DataFrame:
    """The batch's days of the facts, or all versions of a table that is looked up."""
    name = read.table.name
    path = f"{batch.settings.lake}/{name}"
    if isinstance(read, AsOf) and name not in batch.versions:  # it was never loaded
        key = StructField(read.key, StringType())
        ends = filter(None, (read.valid_from, read.valid_to))
        return no_rows(session, StructType([key, *(StructField(n, TimestampType()) for n in ends)]))
    if isinstance(read, AsOf):
        return read_version(session, path, batch.versions[name])

    def of_these_days(file: DataFile) -> bool:
        return file.partition["dt"] in batch.work.days

    days = sql_days(batch.work.days)
    return read_version(session, path, batch.versions[name], of_these_days).where(f"dt IN ({days})")


def made_rows(batch: Batch, frames: Sequence[DataFrame]) -> DataFrame:
    """What the table's transform makes of the frames: `_batch`, `dt` and its own columns."""
    assert batch.table.transform is not None  # refused when it is defined
    made = batch.table.transform(*frames)
    own = [quoted(name) for name in made.columns if not name.startswith("_") and name != "dt"]
    rows = made.select(F.lit(batch.number).cast("long").alias("_batch"), "dt", *own)
    return rows.hint("rebalance", "dt") if len(batch.work.days) > 1 else rows


def judge(
    batch: Batch, facts: DataFrame, rows: DataFrame
) -> tuple[list[Entry], dict[date, list[RuleResult]]]:
    """Reconcile what was written with the facts, which are read a second time on purpose.

    Sums of the rows that came out of the join would agree with themselves. Only the few summed
    columns of either side are scanned, in one job.
    """
    sums = batch.table.sums or Sums()
    left = totals(facts, {name: sql for name, (sql, _) in sums.sums.items()}, 0)
    right = totals(rows, {name: sql for name, (_, sql) in sums.sums.items()}, 1)
    found: dict[int, dict[date, Mapping[str, Any]]] = {0: {}, 1: {}}
    for row in left.unionByName(right).collect():
        found[row["side"]][row["dt"]] = row.asDict()
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    for claim in batch.claims:
        before, after = found[0].get(claim.day, {}), found[1].get(claim.day, {})
        read, made = before.get("rows", 0), after.get("rows", 0)
        counts = DayCounts(made, 0, made, 0, differences=differences(sums, before, after))
        results[claim.day] = judge_day(batch.table.rules, counts)
        entries.append(
            replace(
                claim,
                **verdict(results[claim.day]),
                rows_read=read,
                rows_inserted=made,
                rows_counted=made,
            )
        )
    return entries, results
