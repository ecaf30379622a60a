"""`batches`: what was loaded, read from the ledger without a JVM."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from incremental_assets.cli.context import ledger_view, tables_named
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, NAMES, limit_option
from incremental_assets.cli.output import moment, show
from incremental_assets.days import DayRange
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import LedgerView
from incremental_assets.settings import Settings

_CAN_LACK = ("seconds", "mode", "quarantined", "read")
_SHOWN = ("table", "batch", "day", "state", "mode", "read", "quarantined", "seconds", "why")
_STATES = {"rewind": "rewound", "retract": "retracted"}  # of what was committed


@main.command()
@NAMES
@DAYS
@limit_option(50)
@JSON
def batches(names: tuple[str, ...], days: DayRange | None, limit: int, *, as_json: bool) -> None:
    """What was loaded, newest first, by table, batch and day.

    With rows, seconds, state and why. With --json also the rows that were inserted, updated,
    deleted and late, who ran it, and when.
    """
    settings = Settings.from_environment()
    view = ledger_view(settings)
    entries = [
        entry
        for table in tables_named(names)
        for entry in view.table(table.name).entries
        if (days is None or entry.day in days) and not _is_settled_claim(entry, view)
    ]
    newest = sorted(entries, key=lambda e: (e.recorded_at, e.batch, e.day), reverse=True)
    newest = newest[: limit or None]
    found = _batches(newest, plain=not as_json)
    show(found, "Batches, newest first", as_json=as_json, can_lack=_CAN_LACK)


def _is_settled_claim(entry: Entry, view: LedgerView) -> bool:
    return entry.state == "claimed" and entry.batch in view.table(entry.table).settled


def _batches(entries: Iterable[Entry], *, plain: bool) -> pl.DataFrame:
    rows = [
        {
            "table": e.table,
            "batch": e.batch,
            "day": e.day,
            "state": _STATES.get(e.kind, e.state) if e.state == "committed" else e.state,
            "mode": e.mode,
            "read": e.rows_read,
            "inserted": e.rows_inserted,
            "updated": e.rows_updated,
            "deleted": e.rows_deleted,
            "quarantined": e.rows_quarantined,
            "late": e.rows_late,
            "seconds": round(e.seconds, 1) if plain else e.seconds,
            "who": e.who,
            "why": "; ".join(filter(None, (e.why, e.held_by))),
            "recorded_at": moment(e.recorded_at, plain=plain),
        }
        for e in entries
    ]
    kinds = {"table": pl.String, "batch": pl.Int64, "day": pl.Date}
    kinds |= {"state": pl.String, "mode": pl.String}
    kinds |= dict.fromkeys(("read", "inserted", "updated", "deleted", "quarantined"), pl.Int64)
    kinds |= {"late": pl.Int64, "seconds": pl.Float64, "who": pl.String, "why": pl.String}
    at = pl.String if plain else pl.Datetime("us", "UTC")
    found = pl.DataFrame(rows, schema={**kinds, "recorded_at": at})
    return found.select(_SHOWN) if plain else found
