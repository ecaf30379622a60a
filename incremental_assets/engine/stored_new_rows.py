"""Which rows of a stored source a table does not have yet, for the days of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.day_reading import LOAD_DAY, WRITTEN, SourceDays
from incremental_assets.changes.position import state_of
from incremental_assets.changes.progress import SequenceStep
from incremental_assets.changes.source_rows import unseen
from incremental_assets.days import utc_today
from incremental_assets.delta.columns import HASH
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.read import DataFile, every_file, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.bronze import with_judging_day
from incremental_assets.engine.outdated import in_quarantine
from incremental_assets.engine.put_in_quarantine import first_reevaluated
from incremental_assets.engine.stored_rows import stored_rows
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Entry
from incremental_assets.plan.stored import last_inspection
from incremental_assets.sources.payloads import LANDED
from incremental_assets.sources.source import FixedSource

GOOD = "size(_reasons) = 0"
QUARANTINED = "_quarantined"


def new_rows(
    frames: Frames, batch: Batch, fixed: FixedSource, step: SequenceStep | None
) -> DataFrame:
    """The rows of the days that the table does not have, as it keeps them, with `_reasons`.

    `_quarantined` is whether a row is in quarantine already.
    """
    table, today, session = batch.table, utc_today(batch.now), frames.session
    changes, days = table.changes, source_days(batch)
    source = stored_rows(frames, batch, fixed, lambda own: changes.pushdown(days, own))
    landed, day = F.col(LANDED), F.lit(today)
    if table.landing_column is not None:
        day = F.when(landed.isNull() | (landed > F.lit(today)), F.lit(today)).otherwise(landed)
        rows = source.withColumn("_landing_day", landed)
    else:
        rows = source.withColumn("_landing_day", F.lit(today))
    rows = rows.withColumn(LOAD_DAY, day).where(changes.window(days, step))
    rows = unseen(rows, _known(session, batch, fixed))
    rows = with_judging_day(rows, batch, F.col(LOAD_DAY)).withColumns(
        {
            "_batch": F.lit(batch.number).cast("long"),
            "_reasons": _reasons(changes.reasons(F.col(WRITTEN), batch.now)),
        }
    )
    line = F.coalesce(F.col("_raw"), F.to_json("payload"))
    rows = rows.withColumn("_line", F.when(~F.expr(GOOD), line))
    return frames.cache(_with_known(session, batch, rows))


def sequence_step(frames: Frames, batch: Batch, fixed: FixedSource) -> SequenceStep | None:
    """How far the source may be read; None for as far as there is something."""
    return batch.table.changes.step(
        source_days(batch), lambda pushdown: stored_rows(frames, batch, fixed, pushdown)
    )


def source_days(batch: Batch) -> SourceDays:
    """The days of the batch, and how far the source was read before."""
    last = last_inspections(batch).items()
    return SourceDays(
        batch.table.name,
        {day: entry.high if entry else "" for day, entry in last},
        state_of(batch.view.table(batch.table.name).last),
        batch.table.landing_column,
        batch.now,
        batch.work.source is None or batch.work.source.is_of_one_moment,
    )


def last_inspections(batch: Batch) -> Mapping[date, Entry | None]:
    """Per day of the batch, the batch that last inspected the source for it."""
    history = batch.view.table(batch.table.name)
    return {day: last_inspection(batch.table, history, day) for day in sorted(batch.work.days)}


def _with_known(session: SparkSession, batch: Batch, rows: DataFrame) -> DataFrame:
    """Add whether a row is in quarantine already; only one that is to go there has a `_line`.

    What a held batch put there does not count: this batch replaces it.
    """
    before = in_quarantine(session, batch)
    if before is None:
        return rows.withColumn(QUARANTINED, F.lit(False))
    replaced = first_reevaluated(batch.view.table(batch.table.name), batch.claims)
    for day, low in replaced.items():
        before = before.where(~((F.col("_day") == F.lit(day)) & (F.col("_batch") >= low)))
    known = before.selectExpr("row AS _line", f"true AS {QUARANTINED}").distinct()
    rows = rows.join(known, "_line", "left")
    return rows.withColumn(QUARANTINED, F.coalesce(QUARANTINED, F.lit(False)))


def _known(session: SparkSession, batch: Batch, fixed: FixedSource) -> list[DataFrame]:
    """Hashes of the rows that the table holds, where one of the new ones may be among them."""
    keep = _files_of_known(batch, fixed)
    if keep is None:
        return []
    return [read_version(session, batch.path, version_of(batch.path), keep).select(HASH)]


def _files_of_known(batch: Batch, fixed: FixedSource) -> Callable[[DataFile], bool] | None:
    """Which files of the table may hold rows that are read again; None: none does."""
    table, today = batch.table, utc_today(batch.now)
    history = batch.view.table(table.name)
    if not (history.high and fixed.may_repeat):
        return None
    if table.landing_column is not None:

        def of_the_days(file: DataFile) -> bool:
            landed = file.partition["_landing_day"]
            to_come = landed is None or landed > today
            return landed in batch.work.days or (to_come and today in batch.work.days)

        return of_the_days
    files = {file.path for work in batch.work.days.values() for file in work.files}
    if files and files.isdisjoint(f.path for e in history.committed for f in e.files):
        return None
    first = table.changes.first_batch_read_again(history)
    if first is None:
        return None
    return every_file if first <= 1 else lambda file: file.may_hold_batches(first - 1, batch.number)


def _reasons(reasons: list[Column]) -> Column:
    """Why bronze quarantines a row: a cursor without a usable value. It judges nothing else."""
    if not reasons:
        return F.array().cast("array<string>")
    return F.array_except(F.array(*reasons), F.array(F.lit(None).cast("string")))
