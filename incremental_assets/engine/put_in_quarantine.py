"""Putting rows of a batch into quarantine, and which rows there it judges again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta import quarantine
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.outdated import in_quarantine
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.quality.details import with_details


def put_in_quarantine(
    session: SparkSession, batch: Batch, rows: DataFrame, entries: Sequence[Entry]
) -> None:
    """Put the rows that have reasons into quarantine.

    The rows that were in quarantine for the same windows are dropped once the batch has its
    outcome. A row that is quarantined again keeps its `first_seen`.
    """
    schema = batch.table.schema
    if schema is not None:
        rows = with_details(rows.where("size(_reasons) > 0"), schema)
    stored = quarantine.as_stored(rows, batch.number, batch.now)
    again = first_reevaluated(batch.view.table(batch.table.name), entries)
    known = in_quarantine(session, batch, set(again)) if again else None
    if known is not None:
        windows = [
            (F.col("_day") == F.lit(day)) & (F.col("_batch") >= low) for day, low in again.items()
        ]
        seen_before = known.where(reduce(Column.__or__, windows))
        stored = quarantine.with_first_seen(stored, seen_before)
    quarantine.put(stored, batch.quarantine_path, batch.table.name, batch.number)


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
