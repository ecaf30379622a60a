"""Which rows of a stored source a table does not have yet, for the days of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.changes.by_sequence import Sequence as SequenceChanges
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.cursor import Cursor
from incremental_assets.changes.progress import Progress, Step, next_step, progress_from
from incremental_assets.changes.source_rows import unseen
from incremental_assets.changes.watermark import instant
from incremental_assets.days import utc_today
from incremental_assets.delta.delta_log import version_of
from incremental_assets.delta.read import DataFile, every_file, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.bronze import judging_day
from incremental_assets.engine.put_in_quarantine import judged_again
from incremental_assets.engine.stored_rows import (
    AT,
    HASH,
    LANDED,
    WRITTEN,
    reach_of,
    reach_of_numbers,
    stored_rows,
)
from incremental_assets.engine.stored_sequence import first_batch_read_again
from incremental_assets.engine.superseded import in_quarantine
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Entry
from incremental_assets.plan.stored import last_look, state_of
from incremental_assets.sources.stored import FixedSource

LOAD_DAY = "_load_day"
GOOD = "size(_reasons) = 0"
QUARANTINED = "_quarantined"


def new_rows(frames: Frames, batch: Batch, fixed: FixedSource, step: Step | None) -> DataFrame:
    """The rows of the days that the table does not have, as it keeps them, with `_reasons`.

    `_quarantined` is whether a row lies in quarantine already.
    """
    table, today, session = batch.table, utc_today(batch.now), frames.session
    source = stored_rows(frames, batch, fixed, lambda own: _reach(batch, own))
    landed, day = F.col(LANDED), F.lit(today)
    if table.landing_column is not None:
        day = F.when(landed.isNull() | (landed > F.lit(today)), F.lit(today)).otherwise(landed)
        rows = source.withColumn("_landing_day", landed)
    else:
        rows = source.withColumn("_landing_day", F.lit(today))
    rows = rows.withColumn(LOAD_DAY, day).where(_window(batch, step))
    rows = unseen(rows, _known(session, batch, fixed))
    rows = rows.withColumns(
        {
            "_batch": F.lit(batch.number).cast("long"),
            "_day": judging_day(batch, F.col(LOAD_DAY)),
            "_reasons": _reasons(batch),
        }
    )
    line = F.coalesce(F.col("_raw"), F.to_json("payload"))
    rows = rows.withColumn("_line", F.when(~F.expr(GOOD), line))
    return frames.cache(_with_known(session, batch, rows))


def _with_known(session: SparkSession, batch: Batch, rows: DataFrame) -> DataFrame:
    """Add whether a row lies in quarantine already; only one that is to go there has a `_line`.

    What a held batch put there does not count: this batch takes its place.
    """
    before = in_quarantine(session, batch)
    if before is None:
        return rows.withColumn(QUARANTINED, F.lit(False))
    replaced = judged_again(batch.view.table(batch.table.name), batch.claims)
    for day, low in replaced.items():
        before = before.where(~((F.col("_day") == F.lit(day)) & (F.col("_batch") >= low)))
    known = before.selectExpr("row AS _line", f"true AS {QUARANTINED}").distinct()
    rows = rows.join(known, "_line", "left")
    return rows.withColumn(QUARANTINED, F.coalesce(QUARANTINED, F.lit(False)))


def _window(batch: Batch, step: Step | None) -> Column:
    """Which rows may be new: those of the batch's days, by what each of them was read up to."""
    changes, at = batch.table.changes, F.col(AT)
    by_low: dict[datetime | None, list[date]] = {}
    for day, last in last_looks(batch).items():
        low = None
        if isinstance(changes, Timestamp) and last is not None:
            low = changes.read_from(instant(last.high))
        by_low.setdefault(low, []).append(day)
    parts = []
    for low, days in by_low.items():
        here = F.col(LOAD_DAY).isin(days)
        parts.append(here if low is None else here & (at.isNull() | (at >= F.lit(low))))
    found = reduce(Column.__or__, parts)
    if isinstance(changes, SequenceChanges):
        if batch.table.landing_column is None:
            before = _progress(batch)
            if before.high is not None:
                gaps = [at.between(low, high) for low, high in before.gaps]
                above = at > F.lit(before.high - changes.lookback)
                found &= at.isNull() | reduce(Column.__or__, gaps, above)
        if step is not None and step.stop is not None:
            found &= at.isNull() | (at <= F.lit(step.stop))
    if isinstance(changes, Cursor) and changes.nulls == "raise":
        found |= is_null()
    return found


def _reach(batch: Batch, own: Mapping[str, DataType]) -> Column | None:
    """The same as far as it can be said of the columns in the files, so that most are skipped."""
    column, changes = batch.table.landing_column, batch.table.changes
    if column is None and isinstance(changes, SequenceChanges) and changes.column in own:
        return reach_of_numbers(changes.column, own[changes.column], _lowest_number(batch))
    if column is None or column not in own:
        return None
    days = sorted(batch.work.days)
    first = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC)
    last = datetime(days[-1].year, days[-1].month, days[-1].day, tzinfo=UTC)
    if isinstance(changes, Timestamp) and changes.column == column:
        looks = last_looks(batch)
        lows = [changes.read_from(instant(e.high)) if e else None for e in looks.values()]
        if all(low is not None for low in lows):
            first = max(first, min(low for low in lows if low is not None))
    # Rows without a day are today's, and where they are an error, everybody's.
    rest = utc_today(batch.now) in batch.work.days
    nulls = rest or getattr(changes, "nulls", "") == "raise"
    return reach_of(column, own[column], first, last + timedelta(days=1), rest=rest, nulls=nulls)


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
    if not history.high:
        return None
    if table.landing_column is not None:

        def of_the_days(file: DataFile) -> bool:
            landed = file.partition["_landing_day"]
            to_come = landed is None or landed > today
            return landed in batch.work.days or (to_come and today in batch.work.days)

        return of_the_days
    if isinstance(table.changes, SequenceChanges):
        first = first_batch_read_again(batch, table.changes)
        if first is None:
            return None
        return lambda file: file.may_hold_batches(first - 1, batch.number)
    if table.changes.is_log and fixed.version is None:
        known = {f.path for e in history.committed for f in e.files}
        if not any(file.path in known for work in batch.work.days.values() for file in work.files):
            return None
    return every_file


def _reasons(batch: Batch) -> Column:
    """What sets a row aside: a cursor that says nothing. Bronze judges nothing else."""
    changes = batch.table.changes
    found: list[Column] = []
    if isinstance(changes, Cursor):
        found.append(F.when(is_unreadable(), F.lit(f"{changes.column}_unreadable")))
        if changes.nulls == "quarantine":
            found.append(F.when(is_null(), F.lit(f"{changes.column}_null")))
    if isinstance(changes, Timestamp) and changes.future == "quarantine":
        found.append(F.when(is_ahead(batch), F.lit(f"{changes.column}_in_future")))
    nothing = F.array(F.lit(None).cast("string"))
    return F.array_except(F.array(*found), nothing) if found else F.array().cast("array<string>")


def is_null() -> Column:
    """A row without a cursor; a line that is no row has none to miss."""
    return F.col(AT).isNull() & ~F.col(WRITTEN) & F.col("_raw").isNull()


def is_unreadable() -> Column:
    """A row whose cursor holds something else than the detector reads."""
    return F.col(AT).isNull() & F.col(WRITTEN)


def is_ahead(batch: Batch) -> Column:
    """A row whose timestamp is beyond the clock and the skew that is allowed."""
    changes = batch.table.changes
    if not isinstance(changes, Timestamp):
        return F.lit(False)
    return changes.is_ahead(F.col(AT), batch.now)


def sequence_step(frames: Frames, batch: Batch, fixed: FixedSource) -> Step | None:
    """How far a sequence may be read.

    Gaps are of the source, whatever days are loaded, so its numbers are read for all of them: one
    column, above what is known to be without a gap.
    """
    changes = batch.table.changes
    if not isinstance(changes, SequenceChanges):
        return None
    before, low = _progress(batch), _lowest_number(batch)

    def above(own: Mapping[str, DataType]) -> Column | None:
        return reach_of_numbers(changes.column, own.get(changes.column), low)

    rows = stored_rows(frames, batch, fixed, above)
    numbers = rows.select(AT) if low is None else rows.select(AT).where(F.col(AT) > F.lit(low))
    return next_step(changes, before, numbers, AT, batch.now, batch.table.name)


def _lowest_number(batch: Batch) -> int | None:
    """Above this number something may be new."""
    changes, before = batch.table.changes, _progress(batch)
    if before.high is None or not isinstance(changes, SequenceChanges):
        return None
    return min(before.high - changes.lookback, *(low - 1 for low, _ in before.gaps), before.high)


def _progress(batch: Batch) -> Progress:
    return progress_from(state_of(batch.view.table(batch.table.name).last), None)


def last_looks(batch: Batch) -> Mapping[date, Entry | None]:
    """Per day of the batch, the batch that last looked at the source for it."""
    history = batch.view.table(batch.table.name)
    return {day: last_look(batch.table, history, day) for day in sorted(batch.work.days)}
