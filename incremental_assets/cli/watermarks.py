"""`watermarks`: how far each table has read, and lowering that, without a JVM."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import polars as pl

from incremental_assets.cli.context import (
    lakehouse_and_table,
    ledger_view,
    table_named,
    tables_named,
)
from incremental_assets.cli.group import main
from incremental_assets.cli.options import (
    DAYS,
    JSON,
    JSON_OBJECT,
    NAME,
    NAMES,
    REASON,
    YES,
    limit_option,
)
from incremental_assets.cli.output import OUT, moment, show, show_object
from incremental_assets.days import DayRange, batch_or_moment, named
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.table import Table

_COMPARED = {
    "table": pl.String,
    "source": pl.String,
    "at_source": pl.String,
    "in_table": pl.String,
    "days_behind": pl.Int64,
    "held_days": pl.Int64,
    "why": pl.String,
}


@main.group()
def watermarks() -> None:
    """How far each table has read its source or upstreams."""


@watermarks.command("show")
@NAMES
@JSON
def watermarks_show(names: tuple[str, ...], *, as_json: bool) -> None:
    """How far each table has read, and the days that it has."""
    view = ledger_view(Settings.from_environment())
    rows = []
    for table in tables_named(names):
        history = view.table(table.name)
        last = history.last
        days = sorted(history.last_committed)
        rows.append(
            {
                "table": table.name,
                "watermark": _watermark(table, history),
                "batch": last.batch if last else None,
                "first_day": days[0] if days else None,
                "last_day": days[-1] if days else None,
                "held_days": len(history.held),
                "updated": moment(last.recorded_at if last else None, plain=not as_json),
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
    can_lack = ("updated", "first_day", "batch")
    shown = _shown(pl.DataFrame(rows, schema=schema), as_json=as_json)
    show(shown, "Watermarks", as_json=as_json, can_lack=can_lack)


@watermarks.command("history")
@NAME
@DAYS
@limit_option(50)
@JSON
def watermarks_history(name: str, days: DayRange | None, limit: int, *, as_json: bool) -> None:
    """How far a table had read before and after each batch.

    Newest first. Of a silver or gold table these are the batch numbers of its upstreams, of a
    bronze table the numbers or moments at its source.
    """
    table = table_named(name)
    found = [
        {
            "batch": entry.batch,
            "day": entry.day,
            "kind": entry.kind,
            "upstream": upstream,
            "low": low,
            "high": high,
            "updated": moment(entry.recorded_at, plain=not as_json),
        }
        for entry in reversed(ledger_view(Settings.from_environment()).table(table.name).committed)
        if days is None or entry.day in days
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
    rows = pl.DataFrame(found[: limit or None], schema=schema)
    show(_shown(rows, as_json=as_json), f"Watermarks of {name}", as_json=as_json)


def _shown(rows: pl.DataFrame, *, as_json: bool) -> pl.DataFrame:
    """The rows; for a person without the microseconds of moments at a whole second."""
    if as_json:
        return rows
    return rows.with_columns(pl.col(pl.String).str.replace_all(".000000Z", "Z", literal=True))


def _watermark(table: Table, history: TableHistory) -> str:
    """How far a table has read: a cursor, batches of its upstreams, or a landing day.

    A cursor is that of the newest batch that has one; a rewind may have lowered it to none.
    Of landing days those count that are not to be loaded again.
    """
    candidates = (e for e in history.newest_first() if e.high or e.kind == "rewind")
    newest = next(candidates, None)
    if newest is not None and newest.high:
        return newest.high
    if table.upstreams:
        names = [read.table.name for read in table.upstreams]
        read = {
            n: max((history.watermark(n, d) for d in history.last_committed), default=0)
            for n in names
        }
        return ", ".join(f"{name} batch {high}" for name, high in read.items() if high)
    days = history.last_committed.keys() - history.rewound.keys()
    return table.input.watermark_by_days(days) if table.input is not None else ""


def _windows(entry: Entry) -> list[tuple[str, str, str]]:
    """What the batch read, from where, above which watermark and up to which.

    Of a stored source the window has just the versions of its table, if it is one: its watermark
    is a number or a moment.
    """
    if entry.low or entry.high:
        upstream = ", ".join(window.upstream for window in entry.windows)
        return [(upstream, entry.low, entry.high)]
    if entry.windows:
        return [(w.upstream, str(w.low), str(w.high)) for w in entry.windows]
    return [("", entry.low, entry.high)]


@watermarks.command("rewind")
@NAME
@click.option(
    "--to",
    "to",
    required=True,
    metavar="BATCH|MOMENT",
    type=batch_or_moment,
    help="The batch that is to be the last again (0: none), or a moment (UTC) at which it was.",
)
@DAYS
@REASON
@YES
@JSON_OBJECT
def watermarks_rewind(
    name: str, to: int | datetime, days: DayRange | None, reason: str, *, yes: bool, as_json: bool
) -> None:
    """Let a table load again what it loaded after a batch. No row is removed before that load."""
    from incremental_assets.operations.rewind import TableRewind

    table, lakehouse = lakehouse_and_table(name)
    history = ledger_view(lakehouse.settings).table(name)
    rewind = TableRewind(lakehouse, table)
    found = rewind.found(history, to, days)
    if not yes:
        click.confirm(
            f"{name} goes back to batch {found.to}: the next run loads {named(found.days)} again. "
            "Rewind?",
            abort=True,
            err=as_json,
        )
    done = rewind.record(found.to, reason, days)
    if as_json:
        show_object({"table": name, "to": done.to, "days": list(done.days)})
        return
    OUT.print(
        f"{name}: {counted(len(done.days), 'day')} ({named(done.days)}) back at batch {done.to}. "
        f"`incremental-assets run {name}` loads them again; the former watermarks are in "
        f"`incremental-assets watermarks history {name}`.",
        soft_wrap=True,
    )


@watermarks.command("compare")
@NAMES
@JSON
def watermarks_compare(names: tuple[str, ...], *, as_json: bool) -> None:
    """How far each table has read, and how far its source has data.

    Reads listings, logs and statistics; of a source with a timestamp or a sequence, the highest
    value of that column.
    """
    from incremental_assets.operations.compare import compare_with_source

    settings = Settings.from_environment()
    found = compare_with_source(
        tables_named(names), ledger_view(settings), settings, datetime.now(UTC)
    )
    rows = pl.DataFrame([asdict(each) for each in found], schema=_COMPARED)
    show(_shown(rows, as_json=as_json), "Watermarks and sources", as_json=as_json)
