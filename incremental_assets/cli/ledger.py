"""`stale`, `batches` and `watermarks`: what the ledger tells, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime

import click
import polars as pl

from incremental_assets.catalog import table_named, tables
from incremental_assets.cli.options import DAYS, JSON
from incremental_assets.cli.output import show
from incremental_assets.days import DayRange, parse_days, utc_today
from incremental_assets.lake.delta_log import open_table
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import stale_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_FOR_A_PERSON = ("table", "batch", "day", "state", "mode", "read", "quarantined", "seconds", "why")
_NAMES = click.argument("names", metavar="[TABLE]...", nargs=-1)


@click.command()
@_NAMES
@DAYS
@JSON
def stale(names: tuple[str, ...], span: str | None, *, as_json: bool) -> None:
    """Which days have to be built again, and why: their upstream has what they have not read."""
    settings = Settings.from_environment()
    view, last = _view(settings), utc_today(datetime.now(UTC))
    asked = _asked(span, settings, last)
    found = [
        {"table": table.name, "day": day, "why": why}
        for table in _chosen(names)
        if table.upstreams
        for day, why in stale_days(table, view, settings.start_date, last).items()
        if day in asked
    ]
    schema = {"table": pl.String, "day": pl.Date, "why": pl.String}
    show(pl.DataFrame(found, schema=schema), "Stale", as_json=as_json)


@click.command()
@_NAMES
@DAYS
@click.option("--limit", default=50, show_default=True, help="At most so many rows.")
@JSON
def batches(names: tuple[str, ...], span: str | None, limit: int, *, as_json: bool) -> None:
    """What was loaded, newest first: rows, seconds, state and why, per table, batch and day.

    With --json also the rows that were inserted, updated, deleted and late, who ran it, and when.
    """
    settings = Settings.from_environment()
    view = _view(settings)
    asked = parse_days(span) if span else None
    entries = [
        entry
        for table in _chosen(names)
        for entry in view.table(table.name).entries
        if (asked is None or entry.day in asked) and not _is_settled_claim(entry, view)
    ]
    newest = sorted(entries, key=lambda e: (e.recorded_at, e.batch, e.day), reverse=True)[:limit]
    show(_batches(newest, plain=not as_json), "Batches, newest first", as_json=as_json)


@click.group()
def watermarks() -> None:
    """How far each table has come."""


@watermarks.command("show")
@_NAMES
@JSON
def watermarks_show(names: tuple[str, ...], *, as_json: bool) -> None:
    """The watermark of each table, its last batch, and the days that it has."""
    view = _view(Settings.from_environment())
    rows = []
    for table in _chosen(names):
        history = view.table(table.name)
        last = history.committed[-1] if history.committed else None
        days = sorted(history.last_committed)
        rows.append(
            {
                "table": table.name,
                "watermark": next((e.high for e in reversed(history.committed) if e.high), ""),
                "batch": last.batch if last else None,
                "first_day": days[0] if days else None,
                "last_day": days[-1] if days else None,
                "held_days": len(history.held),
                "updated": _moment(last, plain=not as_json),
            }
        )
    schema = {
        "table": pl.String,
        "watermark": pl.String,
        "batch": pl.Int64,
        "first_day": pl.Date,
        "last_day": pl.Date,
        "held_days": pl.Int64,
        "updated": pl.String if not as_json else pl.Datetime("us", "UTC"),
    }
    show(pl.DataFrame(rows, schema=schema), "Watermarks", as_json=as_json)


@watermarks.command("history")
@click.argument("name", metavar="TABLE")
@DAYS
@click.option("--limit", default=50, show_default=True, help="At most so many rows.")
@JSON
def watermarks_history(name: str, span: str | None, limit: int, *, as_json: bool) -> None:
    """How far a table had come before and after each batch, newest first.

    Of a table inside the lake that is the upstream's batch numbers that it read.
    """
    table = table_named(tables(), name)
    asked = parse_days(span) if span else None
    found = [
        {
            "batch": entry.batch,
            "day": entry.day,
            "kind": entry.kind,
            "upstream": upstream,
            "low": low,
            "high": high,
            "updated": _moment(entry, plain=not as_json),
        }
        for entry in reversed(_view(Settings.from_environment()).table(table.name).committed)
        if asked is None or entry.day in asked
        for upstream, low, high in _windows(entry)
    ]
    schema = {
        "batch": pl.Int64,
        "day": pl.Date,
        "kind": pl.String,
        "upstream": pl.String,
        "low": pl.String,
        "high": pl.String,
        "updated": pl.String if not as_json else pl.Datetime("us", "UTC"),
    }
    show(pl.DataFrame(found[:limit], schema=schema), f"Watermarks of {name}", as_json=as_json)


def _windows(entry: Entry) -> list[tuple[str, str, str]]:
    if entry.windows:
        return [(w.upstream, str(w.low), str(w.high)) for w in entry.windows]
    return [("", entry.low, entry.high)]


def _chosen(names: Sequence[str]) -> list[Table]:
    every = tables()
    return [table_named(every, name) for name in names] or list(every)


def _view(settings: Settings) -> LedgerView:
    if open_table(ledger_path(settings.lake)) is None:
        return LedgerView(None)  # to ask makes no ledger
    return Ledger(ledger_path(settings.lake)).view()


def _asked(span: str | None, settings: Settings, last: date) -> DayRange:
    return parse_days(span) if span else DayRange(settings.start_date, last)


def _is_settled_claim(entry: Entry, view: LedgerView) -> bool:
    return entry.state == "claimed" and entry not in view.table(entry.table).unsettled


def _moment(entry: Entry | None, *, plain: bool) -> datetime | str | None:
    if entry is None:
        return None
    return f"{entry.recorded_at:%Y-%m-%d %H:%M:%S}" if plain else entry.recorded_at


def _batches(entries: Iterable[Entry], *, plain: bool) -> pl.DataFrame:
    rows = [
        {
            "table": e.table,
            "batch": e.batch,
            "day": e.day,
            "state": e.state,
            "mode": e.mode,
            "read": e.rows_read,
            "inserted": e.rows_inserted,
            "updated": e.rows_updated,
            "deleted": e.rows_deleted,
            "quarantined": e.rows_quarantined,
            "late": e.rows_late,
            "seconds": e.seconds,
            "who": e.who,
            "why": "; ".join(filter(None, (e.why, e.held_by))),
            "recorded_at": _moment(e, plain=plain),
        }
        for e in entries
    ]
    kinds = {"table": pl.String, "batch": pl.Int64, "day": pl.Date}
    kinds |= {"state": pl.String, "mode": pl.String}
    kinds |= dict.fromkeys(("read", "inserted", "updated", "deleted", "quarantined"), pl.Int64)
    kinds |= {"late": pl.Int64, "seconds": pl.Float64, "who": pl.String, "why": pl.String}
    at = pl.String if plain else pl.Datetime("us", "UTC")
    found = pl.DataFrame(rows, schema={**kinds, "recorded_at": at})
    return found.select(_FOR_A_PERSON) if plain else found
