"""Putting bad rows of a batch into quarantine, and which rows there it re-evaluates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.detector import NewRows
from incremental_assets.changes.source_rows import unseen
from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.columns import HASH, PARTIAL
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.outdated import in_quarantine
from incremental_assets.frames import quoted
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.quality.details import with_details
from incremental_assets.quality.reasons import is_good


def put_in_quarantine(
    session: SparkSession, batch: Batch, rows: DataFrame, entries: Sequence[Entry]
) -> None:
    """Put the rows that have reasons into quarantine.

    The rows that were in quarantine for the same windows are dropped once the batch has its
    outcome.
    """
    again = first_reevaluated(batch.view.table(batch.table.name), entries)
    known = in_quarantine(session, batch, set(again)) if again else None
    if known is not None:
        windows = [
            (F.col("_day") == F.lit(day)) & (F.col("_batch") >= low) for day, low in again.items()
        ]
        known = known.where(reduce(Column.__or__, windows))
    put_of_days(batch, rows, known)


def put_of_days(
    batch: Batch, rows: DataFrame, known: DataFrame | None, staying: DataFrame | None = None
) -> None:
    """Put the rows of a table that have reasons there, and again those that stay.

    Rows that are among those `known` keep their `first_seen`.
    """
    bad = rows.where(~is_good())
    if batch.table.schema is not None:
        bad = with_details(bad, batch.table.schema)
    batch.quarantine.put(bad, batch.number, batch.now, known, staying)


def put_of_target(
    state: TargetState,
    new: NewRows,
    batch: int,
    now: datetime,
    leaving: Sequence[DataFrame] | None,
) -> None:
    """Put the bad rows of a target there; where some leave it, again those that stay."""
    # Of an event that has no row, the event as it came.
    given = ("_line",) if "_line" in new.rows.columns else ()
    own = [quoted(name) for name in new.own if name != PARTIAL]
    line = F.coalesce("_raw", *given, F.to_json(F.struct(*own)))
    bad = new.rows.where(~is_good()).withColumn("_line", line)
    known = state.quarantine_rows(new.rows.sparkSession) if leaving is not None else None
    staying = None
    if known is not None and leaving is not None:
        staying = unseen(known, [*leaving, bad])
    state.quarantine.put(bad, batch, now, known, staying)


def does_leave(state: TargetState, session: SparkSession, leaving: Sequence[DataFrame]) -> bool:
    """Whether a row in the quarantine of a target is among those that leave it, by `_hash`."""
    there = state.quarantine_rows(session) if leaving else None
    if there is None:
        return False
    hashes = reduce(lambda some, more: some.union(more), (rows.select(HASH) for rows in leaving))
    return not there.join(hashes, HASH, "left_semi").isEmpty()


def first_reevaluated(history: TableHistory, entries: Sequence[Entry]) -> Mapping[date, int]:
    """The days whose quarantined rows are re-evaluated, each with the first of their batches.

    An advance replaces held batches over the same window, a rebuild or a replay all earlier ones.
    """
    found: dict[date, int] = {}
    for entry in entries:
        last = history.last_published.get(entry.day)
        whole = entry.mode == "rebuild" or entry.kind == "replay" or last is None
        low = 0 if whole or last is None else last.batch + 1
        judged = (e.batch for e in history.of_day(entry.day) if e.rows_quarantined)
        if any(low <= number < entry.batch for number in judged):
            found[entry.day] = low
    return found
