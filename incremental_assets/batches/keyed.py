"""A batch of typed rows into a silver table: one row per key, the latest version."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch, Outcome, first_partition, from_commit
from incremental_assets.changes.row_hash import row_hash
from incremental_assets.errors import DefinitionError
from incremental_assets.lake import quarantine
from incremental_assets.lake.delta_log import Commit, columns_of, version_of
from incremental_assets.lake.literals import sql_days
from incremental_assets.lake.merge import GONE, OLD, Merged, merge
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import DataFile, read_version
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import stage
from incremental_assets.ledger.entry import Entry
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.gate import (
    Counted,
    DayGate,
    RuleResult,
    count,
    judge_day,
    judge_rows,
    with_reasons,
)
from incremental_assets.quality.rules import DayCounts
from incremental_assets.table import Table


@dataclass(frozen=True)
class _Judged:
    entries: list[Entry]
    results: dict[date, list[RuleResult]]
    published: list[date]


class KeyedBatch:
    """Types the payload, sets bad rows aside, and publishes the days that pass.

    Where the business day is declared unchanging for a key, a day is a world of its own: a merge
    looks only into the days of the batch, and a restated day is replaced whole. Where it is not
    (the rows lie under their landing day), keys are looked up in the whole table.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return (("_batch", "long"), ("dt", "date"))

    def partition_by(self, table: Table) -> Sequence[str]:
        return ("dt",)

    def execute(self, batch: Batch) -> Outcome:
        with own_session(batch.spark(), small=batch.work.small) as session:
            rows = _typed(session, batch).persist(StorageLevel.MEMORY_AND_DISK)
            try:
                contract = _contract(batch.table)
                late = F.col("_landing_day") > F.col("_day")
                counted = count(rows, batch.table.rules, "_day", late)
                judged = _judge(batch, counted)
                if any(gate.quarantined for gate in counted.days.values()):
                    quarantine.put(rows, batch.quarantine_path, batch.table.name, batch.number)
                if not judged.published:
                    return Outcome(judged.entries, judged.results)
                grown = contract.grown(counted.fields, columns_of(batch.path))
                days = set(judged.published)
                written = _written(session, batch, rows, days, grown)
            finally:
                rows.unpersist()
            entries = _with_changes(judged.entries, written)
            rebuilt = days if batch.work.mode == "rebuild" and batch.table.day is not None else ()
            publish(
                written.staged,
                batch.transaction(entries),
                replaced_days=rebuilt,
                replaced_files=written.replaced,
            )
            return Outcome(self.settled(batch.table, entries, batch.commit()), judged.results)

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, first_partition)


def _contract(table: Table) -> Contract:
    if table.schema is None:
        raise DefinitionError(f"{table.name}: a table that merges needs a schema contract.")
    return table.schema


def _typed(session: SparkSession, batch: Batch) -> DataFrame:
    """The windows' rows, typed and transformed, with `_reasons`, `_line` and `dt`."""
    table = batch.table
    landed = _window_rows(session, batch)
    rows = _contract(table).apply(landed)
    if table.transform is not None:
        rows = table.transform(rows)
    rows = with_reasons(rows, table.rules, _time_reasons(batch))
    rows = rows.withColumns(
        {
            "dt": F.col("_day"),
            "_line": F.when(
                F.size("_reasons") > 0, F.coalesce(F.col("_raw"), F.to_json("payload"))
            ),
        }
    )
    return rows.drop("payload", "_raw", "_unreadable", "_batch")


def _window_rows(session: SparkSession, batch: Batch) -> DataFrame:
    by_window: dict[tuple[int, int], list[date]] = {}
    for work in batch.work.days.values():
        window = work.windows[0]
        low = 0 if batch.work.mode == "rebuild" else window.low
        by_window.setdefault((low, window.high), []).append(work.day)
    condition = " OR ".join(
        f"(_day IN ({sql_days(days)}) AND _batch > {low} AND _batch <= {high})"
        for (low, high), days in by_window.items()
    )

    def may_be_new(file: DataFile) -> bool:
        return any(
            file.partition["_day"] in days and file.may_hold_batches(low, high)
            for (low, high), days in by_window.items()
        )

    upstream = batch.table.upstreams[0].table.name
    path = f"{batch.settings.lake}/{upstream}"
    return read_version(session, path, batch.versions[upstream], may_be_new).where(condition)


def _time_reasons(batch: Batch) -> list[Column]:
    """Why a row's business day does not belong to the day that judges it."""
    table = batch.table
    if table.day is None:
        return [F.lit(None).cast("string")]
    business = F.col(table.day).cast("date")
    early = (business > F.col("_day")) | (business > F.date_add("_landing_day", 1))
    late: Column = business < F.col("_day")
    lateness = table.lateness_in(batch.settings.lateness)
    if lateness is not None:
        late = late | (business < F.date_sub("_landing_day", lateness.days))
    return [
        F.when(business < F.lit(batch.settings.start_date), F.lit("before_start"))
        .when(late, F.lit("too_late"))
        .when(early, F.lit("too_early"))
    ]


def _judge(batch: Batch, counted: Counted) -> _Judged:
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    history = batch.view.table(batch.table.name)
    for claim in batch.claims:
        gate = counted.days.get(claim.day) or DayGate(claim.day)
        before = [] if batch.work.mode == "rebuild" else list(history.since_rebuilt(claim.day))
        counts = DayCounts(
            rows=gate.rows,
            quarantined=gate.quarantined,
            total_rows=gate.counted + sum(e.rows_counted for e in before),
            total_quarantined=gate.counted_quarantined
            + sum(e.rows_counted_quarantined for e in before),
        )
        found = judge_rows(gate, batch.table.rules, counted)
        results[claim.day] = found + judge_day(batch.table.rules, counts)
        failed = [r for r in results[claim.day] if r.severity == "fail" and not r.passed]
        entries.append(
            replace(
                claim,
                state="held" if failed else "committed",
                held_by="; ".join(f"{r.rule}: {r.found}" for r in failed),
                rows_read=gate.rows,
                rows_quarantined=gate.quarantined,
                rows_late=gate.late,
                rows_counted=gate.counted,
                rows_counted_quarantined=gate.counted_quarantined,
            )
        )
    published = [e.day for e in entries if e.state == "committed"]
    return _Judged(entries, results, published)


def _written(
    session: SparkSession,
    batch: Batch,
    rows: DataFrame,
    days: Collection[date],
    grown: Sequence[str],
) -> Merged:
    """Stage the rows of the days that passed, merged where the table has rows of their keys."""
    table = batch.table
    if batch.work.mode == "rebuild" and table.day is None:
        return _rebuilt_keys(session, batch, days, grown)
    good = rows.where(f"dt IN ({sql_days(days)}) AND size(_reasons) = 0")
    latest = _latest(_columns(good, batch, grown), table)
    if len(days) > 1:
        latest = latest.hint("rebalance", "dt")
    if batch.work.mode in ("append", "rebuild"):
        staged = stage(latest, batch.path, batch.number, ("dt",))
        return Merged(staged, (), {day: n for (day,), n in staged.rows.items()})
    order = [*table.order_by, "_hash"]
    incoming = F.struct(*order)
    present = F.struct(*(F.col(f"{OLD}.{name}") for name in order))
    if table.day is not None:

        def of_these_days(file: DataFile) -> bool:
            return file.partition["dt"] in days

        key = (*table.key, "dt")
        wins = incoming > present
        return merge(session, latest, batch.path, batch.number, key, wins, order, of_these_days)
    # Of two equal copies the one that landed first stays, whichever is loaded first.
    earlier = (incoming == present) & (F.col("dt") < F.col(f"{OLD}.dt"))
    wins = (incoming > present) | earlier
    return merge(session, latest, batch.path, batch.number, table.key, wins, [*order, "dt"])


def _with_changes(entries: Sequence[Entry], written: Merged) -> list[Entry]:
    """The entries with the rows that the batch inserts, updates and deletes.

    Deletions are not of a day of the batch; they stand at its first published day.
    """
    first = next(e.day for e in entries if e.state == "committed")
    return [
        replace(
            e,
            rows_inserted=written.inserted.get(e.day, 0),
            rows_updated=written.updated.get(e.day, 0),
            rows_deleted=written.deleted if e.day == first else 0,
        )
        for e in entries
    ]


def _latest(rows: DataFrame, table: Table) -> DataFrame:
    """One row per key (and day, where the day is unchanging): the last in the total order."""
    key = [*table.key, *(["dt"] if table.day is not None else [])]
    order = [F.col(name).desc_nulls_last() for name in (*table.order_by, "_hash")]
    window = Window.partitionBy(*key).orderBy(*order, F.col("dt").asc())
    return rows.withColumn("_rank", F.row_number().over(window)).where("_rank = 1").drop("_rank")


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
        row_hash(types).alias("_hash"),
    )


def _rebuilt_keys(
    session: SparkSession, batch: Batch, days: Collection[date], grown: Sequence[str]
) -> Merged:
    """Derive anew every key that these landing days hold, or held before they were repaired.

    Another landing day may hold a copy of a key that its own day has lost, so the keys are read
    from all of bronze; the days of the batch count only if their gate passed.
    """
    table = batch.table
    upstream = table.upstreams[0].table.name
    source = read_version(
        session, f"{batch.settings.lake}/{upstream}", batch.versions[upstream]
    ).where(f"_batch <= {max(w.windows[0].high for w in batch.work.days.values())}")
    held = sorted(set(batch.work.days) - set(days))
    if held:
        source = source.where(f"NOT _day IN ({sql_days(held)})")
    loaded = batch.view.table(table.name).last_committed
    source = source.where(f"_day IN ({sql_days({*loaded, *days})})")
    rows = _contract(table).apply(source)
    if table.transform is not None:
        rows = table.transform(rows)
    rows = with_reasons(rows, table.rules, _time_reasons(batch))
    rows = rows.withColumn("dt", F.col("_day")).where("size(_reasons) = 0")
    rows = rows.drop("payload", "_raw", "_unreadable", "_batch", "_reasons")
    key = list(table.key)
    table_now = read_version(session, batch.path, version_of(batch.path))
    before = table_now.where(f"dt IN ({sql_days(days)})")
    now = rows.where(f"dt IN ({sql_days(days)})")
    keys = before.select(*key).union(now.select(*key)).distinct()
    kept = _latest(_columns(rows.join(keys, key, "left_semi"), batch, grown), table)
    incoming = keys.join(kept, key, "left").withColumn(GONE, F.col("dt").isNull())
    return merge(session, incoming, batch.path, batch.number, table.key, F.lit(True))
