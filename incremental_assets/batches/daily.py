"""A batch of whole days into a gold table: what is asked, made anew for the days that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from incremental_assets.batches.batch import Batch, Outcome, first_partition, from_commit, verdict
from incremental_assets.batches.totals import differences, totals
from incremental_assets.lake.delta_log import Commit
from incremental_assets.lake.literals import sql_days
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import DataFile, no_rows, read_staged, read_version
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import discard, stage
from incremental_assets.ledger.entry import Entry
from incremental_assets.quality.gate import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.table import AsOf, Sums, Table

Totals = Mapping[date, Mapping[str, Any]]


class DailyBatch:
    """Reads the changed days of the facts and all versions looked up; replaces the days."""

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return (("_batch", "long"), ("dt", "date"))

    def partition_by(self, table: Table) -> Sequence[str]:
        return ("dt",)

    def execute(self, batch: Batch) -> Outcome:
        assert batch.table.transform is not None  # refused when it is defined
        with own_session(batch.spark(), batch.size) as session:
            frames = [_upstream(session, batch, read) for read in batch.table.upstreams]
            made = batch.table.transform(*frames)
            own = [name for name in made.columns if not name.startswith("_") and name != "dt"]
            rows = made.select(F.lit(batch.number).cast("long").alias("_batch"), "dt", *own)
            if len(batch.work.days) > 1:
                rows = rows.hint("rebalance", "dt")
            partition_by = self.partition_by(batch.table)
            staged = stage(rows, batch.path, batch.number, partition_by)
            entries, results = _judge(batch, frames[0], read_staged(session, staged, partition_by))
            published = {e.day for e in entries if e.state == "committed"}
            good = staged.only("dt", published)
            if published:
                publish(good, batch.transaction(entries), replaced_days=published)
            discard(staged.without(good))
            if not published:
                return Outcome(entries, results)
            return Outcome(self.settled(batch.table, entries, batch.commit()), results)

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, first_partition)


def _upstream(session: SparkSession, batch: Batch, read: Any) -> DataFrame:
    name = read.table.name
    path = f"{batch.settings.lake}/{name}"
    if name not in batch.versions:  # a table that is looked up and was never loaded
        key = StructField(read.key, StringType())
        ends = filter(None, (read.valid_from, read.valid_to))
        return no_rows(session, StructType([key, *(StructField(n, TimestampType()) for n in ends)]))
    if isinstance(read, AsOf):
        return read_version(session, path, batch.versions[name])

    def of_these_days(file: DataFile) -> bool:
        return file.partition["dt"] in batch.work.days

    days = sql_days(batch.work.days)
    return read_version(session, path, batch.versions[name], of_these_days).where(f"dt IN ({days})")


def _judge(
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
