"""Outdated rows in the quarantine of a table, by the ledger.

A row counts until a later batch judges its window again, or a manual decision drops it; those of an
abandoned batch never do. Outdated rows are removed after that is recorded, and no result depends on
the removal: readers of the quarantine leave them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.delta.quarantine import OutdatedRows
from incremental_assets.engine.batch import Batch
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory


def outdated_rows(
    outcomes: Iterable[Entry], days: Collection[date] | None = None
) -> list[OutdatedRows]:
    """Which rows are outdated by the outcomes of a table, of some days (None: of all).

    The outcomes of each day come oldest first. The next batch over the same window replaces a held
    one, and a rebuild or a replay all before it.
    """
    abandoned: list[OutdatedRows] = []
    found: dict[date, list[OutdatedRows]] = {}
    published: dict[date, int] = {}
    judged: dict[date, int] = {}  # the last batch that put rows of the day into quarantine
    for entry in outcomes:
        day, of_day = entry.day, found.setdefault(entry.day, [])
        if entry.state == "abandoned":
            if not abandoned or abandoned[-1].low != entry.batch:
                abandoned.append(OutdatedRows(None, entry.batch, entry.batch + 1))
        elif days is not None and day not in days:
            continue
        elif entry.state == "dropped":
            of_day.append(OutdatedRows(day, 0, entry.batch, entry.held_by))
        elif entry.state in ("committed", "held") and entry.kind != "rewind":
            whole = entry.mode == "rebuild" or entry.kind == "replay"
            low = 0 if whole else published.get(day, -1) + 1
            if judged.get(day, -1) >= low:
                of_day[:] = [] if whole else of_day
                of_day.append(OutdatedRows(day, low, entry.batch))
            if entry.rows_quarantined:
                judged[day] = entry.batch
            if entry.state == "committed":
                published[day] = entry.batch
    return [*abandoned, *(each for of_day in found.values() for each in of_day)]


def outcomes_of(history: TableHistory, days: Collection[date] | None) -> list[Entry]:
    """The outcomes that decide which quarantined rows of some days (None: of all) count, by day."""
    some = history.days_with_quarantine if days is None else days
    return [entry for day in sorted(some) for entry in history.of_day(day)]


def in_quarantine(
    session: SparkSession, batch: Batch, days: Collection[date] | None = None
) -> DataFrame | None:
    """The rows of the batch's table that count, of some days; None where there never were any."""
    outcomes = outcomes_of(batch.view.table(batch.table.name), days)
    return batch.quarantine.read(session, outdated_rows(outcomes, days), days)
