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
from incremental_assets.errors import GateError
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.gate import count
from incremental_assets.quality.judge import RuleResult, judge_target
from incremental_assets.quality.reasons import is_good
from incremental_assets.quality.rule import RowRule
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
    # Of an event that has no row, the event as it came.
    line = F.coalesce("_line", own) if "_line" in new.rows.columns else own
    number = F.lit(batch).cast("long").alias(BATCH)
    rows = new.rows.where(~is_good()).select(
        number,
        F.lit(target.name).alias(TABLE),
        HASH,
        F.col("_file"),
        F.coalesce(F.col("_raw"), line).alias("row"),
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
    """The new rows, and the bad ones among the others of their days, where these are read whole.

    They were loaded and break a rule of today, or came late: they go to quarantine. Raises
    GateError where others of them, which would be published, break a rule that holds a load.
    """
    day = target.write.replaced_partition
    is_whole = state.last is None and target.max_records is None
    if not day or target.write.replaces_by_batch or new.every is None or is_whole:
        return new
    days = days_in(new.rows.where(is_good()), day)
    of_days = unseen(new.every.where(is_of_days(day, days)), [new.rows])
    failing = [r for r in target.rules if isinstance(r, RowRule) and r.severity == "fail"]
    if failing:
        of_days = frames.cache(of_days)
        require_passed(target.name, judge_target(count(of_days, failing, None), failing, {}))
    bad = unseen(of_days.where(~is_good()), state.quarantined(frames.session))
    more = frames.cache(bad.select(new.rows.columns))
    count_of_bad = more.count()
    if not count_of_bad:
        return new
    note = f"{count_of_bad} other rows of the days that were read again break a rule"
    return replace(
        new,
        rows=new.rows.unionByName(more),
        read=new.read + count_of_bad,
        quarantined=new.quarantined + count_of_bad,
        notes=(*new.notes, note),
    )


def require_passed(name: str, checks: Sequence[RuleResult]) -> None:
    """Raise GateError where a rule that holds a load is broken."""
    failed = [r for r in checks if r.severity == "fail" and not r.passed]
    if failed:
        raise GateError(
            f"{name}: held back by {'; '.join(map(in_words, failed))}. Nothing was published and "
            "the watermark did not move; correct the source or the rule, and load again."
        )


def in_words(result: RuleResult) -> str:
    """What a rule found, with examples."""
    such = f", such as {'; '.join(result.examples)}" if result.examples else ""
    return f"{result.rule}: {result.found}{such}"


def remove_outdated(target: TargetTable, counts_from: int, log: Callable[[str], None]) -> None:
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
