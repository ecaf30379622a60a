"""Comparing a table's quarantine with that of its rebuild."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.days import named
from incremental_assets.delta.delta_table import open_table
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.engine.outdated import outdated_rows
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.table import Table
from incremental_assets.verifying.compare import compare
from incremental_assets.verifying.rows import (
    QUARANTINED,
    RowSelection,
    quarantine_rows,
)
from incremental_assets.verifying.verified import Compared


def quarantine_compared(
    session: SparkSession,
    lakehouse: Lakehouse,
    scratch: Lakehouse,
    table: Table,
    history: TableHistory,
    version: int | None,
    selection: RowSelection,
) -> tuple[Compared, list[str]]:
    """The quarantine at a version against that of the rebuild, and notes.

    Days of which rows were dropped are left out.
    """
    if not table.is_typed:
        return Compared(), []
    own = quarantine_of(lakehouse.settings, table)
    keep = lakehouse.settings.quarantine_days
    due = lakehouse.now() - timedelta(days=keep) if keep else None
    left_out = _dropped(history) | expired_days(history, due, own.expired_before())
    selection = replace(selection, except_days=(*selection.except_days, *left_out))
    again = quarantine_of(scratch.settings, table)
    there = open_table(again.path)
    rebuilt_version = None if there is None else there.version()
    settled = history.unsettled[0].batch - 1 if history.unsettled else history.last_batch
    outdated = outdated_rows(history.outcomes)
    real = quarantine_rows(session, own, version, selection, settled, outdated)
    rebuilt = quarantine_rows(session, again, rebuilt_version, selection, 2**31)
    notes = (
        [f"quarantine of {named(left_out)} is not compared: rows were dropped, or have expired"]
        if left_out
        else []
    )
    sides = _both(real, rebuilt)
    return (Compared() if sides is None else compare(*sides, QUARANTINED)), notes


def _both(real: DataFrame | None, rebuilt: DataFrame | None) -> tuple[DataFrame, DataFrame] | None:
    """Both sides, of which one may be empty; None where there is neither."""
    if real is None:
        return None if rebuilt is None else (rebuilt.where("false"), rebuilt)
    return real, real.where("false") if rebuilt is None else rebuilt


def _dropped(history: TableHistory) -> set[date]:
    """The days of which rows were dropped from quarantine, and that were not rebuilt since."""
    dropped = {e.day: e.batch for e in history.outcomes if e.state == "dropped"}
    rebuilt = {e.day: e.batch for e in history.committed if e.mode == "rebuild"}
    return {day for day, batch in dropped.items() if rebuilt.get(day, 0) < batch}


def expired_days(history: TableHistory, *before: datetime | None) -> set[date]:
    """The days with rows that were quarantined before one of these moments (None: never).

    One is that of today's setting, for rows may expire at any time. The other is the one that
    expiry has reached under former settings.
    """
    latest = max((moment for moment in before if moment is not None), default=None)
    if latest is None:
        return set()
    # A row is first seen when its load begins, and the load is recorded when it ends.
    return {
        e.day
        for e in history.loads
        if e.rows_quarantined and e.recorded_at - timedelta(seconds=e.seconds) < latest
    }
