"""`stale` and `batches`, which read the ledger without a JVM; and `ledger`, which rebuilds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

import click
import polars as pl

from incremental_assets.catalog import tables_named
from incremental_assets.cli.context import ledger_view, open_lakehouse
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, NAMES, YES, asked_days, limit_option
from incremental_assets.cli.output import OUT, moment, show
from incremental_assets.days import DayRange, named, utc_today
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import stale_days
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plan.retract import gone_below
from incremental_assets.plan.skipped import held_until
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_CAN_LACK = ("seconds", "mode", "quarantined", "read")
_SHOWN = ("table", "batch", "day", "state", "mode", "read", "quarantined", "seconds", "why")
_STATES = {"rewind": "rewound", "retract": "retracted"}  # of what was committed


@main.command()
@NAMES
@DAYS
@JSON
def stale(names: tuple[str, ...], span: str | None, *, as_json: bool) -> None:
    """Which days have to be rebuilt, and why: their upstream has batches that they did not read.

    What waits for a day that a gate holds is not stale: such days are named below, with what to do.
    """
    settings = Settings.from_environment()
    some, last = tables_named(names), utc_today(datetime.now(UTC))
    require_all_consistent(Ledger(ledger_path(settings.lake)), settings, some)
    view = ledger_view(settings)
    asked = _asked(span, settings, last)
    found = [
        {"table": table.name, "day": day, "why": why}
        for table in some
        if table.upstreams
        for day, why in stale_days(table, view, settings.start_date, last).items()
        if day in asked
    ]
    schema = {"table": pl.String, "day": pl.Date, "why": pl.String}
    show(pl.DataFrame(found, schema=schema), "Stale", as_json=as_json)
    for line in () if as_json else _held(tables_named(()), view, settings, asked):
        OUT.print(f"- {line}", soft_wrap=True)


@main.command()
@NAMES
@DAYS
@limit_option(50)
@JSON
def batches(names: tuple[str, ...], span: str | None, limit: int, *, as_json: bool) -> None:
    """What was loaded, newest first: rows, seconds, state and why, per table, batch and day.

    With --json also the rows that were inserted, updated, deleted and late, who ran it, and when.
    """
    settings = Settings.from_environment()
    view = ledger_view(settings)
    asked = asked_days(span)
    entries = [
        entry
        for table in tables_named(names)
        for entry in view.table(table.name).entries
        if (asked is None or entry.day in asked) and not _is_settled_claim(entry, view)
    ]
    newest = sorted(entries, key=lambda e: (e.recorded_at, e.batch, e.day), reverse=True)
    newest = newest[: limit or None]
    found = _batches(newest, plain=not as_json)
    show(found, "Batches, newest first", as_json=as_json, can_lack=_CAN_LACK)


@main.group()
def ledger() -> None:
    """The ledger itself: what every load records."""


@ledger.command("rebuild")
@NAMES
@YES
@JSON
def ledger_rebuild(names: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Rebuild the ledger from the logs of these tables, or of all, where it was lost or is older.

    The logs show which days were published, and not what was read for them: the next run loads all
    of that again and replaces the rows. No row is removed before that. The old ledger is kept next
    to the new one; manual decisions (accepted, dropped, rewound) are only in the old one.
    """
    from incremental_assets.operations.rebuild_ledger import rebuild_ledger, require_a_lake

    some = tables_named(names)
    lakehouse = open_lakehouse()
    require_a_lake(lakehouse)
    if not yes:
        what = ", ".join(table.name for table in some) if names else "all tables"
        click.confirm(
            f"The ledger of {lakehouse.settings.lake} is rebuilt for {what}, and the next run "
            "loads all of them again. Rebuild?",
            abort=True,
            err=as_json,
        )
    done = rebuild_ledger(lakehouse, some)
    rows = [
        {"table": t.name, "batches": r.batches, "days": len(r.days), "of": named(r.days)}
        for t, r in zip(some, done.tables, strict=True)
    ]
    kinds = {"table": pl.String, "batches": pl.Int64, "days": pl.Int64, "of": pl.String}
    show(pl.DataFrame(rows, schema=kinds), "To be loaded again", as_json=as_json)
    if not as_json:
        former = f" The old one is {done.former}." if done.former else ""
        OUT.print(
            f"The ledger was rebuilt.{former} `incremental-assets run` loads.", soft_wrap=True
        )


def _held(
    lake: Sequence[Table], view: LedgerView, settings: Settings, asked: DayRange
) -> Iterator[str]:
    """Each held day, why it is held, what to do, and which tables wait for it."""
    for table in lake:
        history = view.table(table.name)
        for day, entry in sorted(history.held.items()):
            if day in asked and day not in history.accepted:
                since = f"is held since batch {entry.batch}: {entry.held_by}."
                gone = gone_below(table, day, view, settings)
                yield f"{table.name} {day} {since} {held_until(entry, table, lake, gone)}"


def _asked(span: str | None, settings: Settings, last: date) -> DayRange:
    return asked_days(span) or DayRange(settings.start_date, last)


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
