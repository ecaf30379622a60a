"""`plan`: what a run would do now, without Spark, changing nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import polars as pl
from rich.text import Text

from incremental_assets.catalog import tables, tables_named
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, asked_days, limit_option
from incremental_assets.cli.output import ERR, OUT, show
from incremental_assets.cli.run import NOTHING_DUE
from incremental_assets.days import DayRange
from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plan.forecast import Forecast, PlannedDay, forecast
from incremental_assets.plan.skipped import Skipped
from incremental_assets.plan.unread import unread
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

_WINDOW: pl.DataType = pl.Struct({"upstream": pl.String, "low": pl.Int64, "high": pl.Int64})
_RECORD: dict[str, pl.DataType | type[pl.DataType]] = {
    "run": pl.Int64,
    "batch": pl.Int64,
    "table": pl.String,
    "day": pl.Date,
    "last_day": pl.Date,
    "mode": pl.String,
    "kind": pl.String,
    "windows": pl.List(_WINDOW),
    "files": pl.Int64,
    "rows": pl.Int64,
    "is_estimate": pl.Boolean,
    "bytes": pl.Int64,
    "seconds": pl.Float64,
    "reason": pl.String,
    "may_follow": pl.List(pl.String),
    "unknown": pl.String,
}
_MOST_ROWS = 200
_SIZES = ("B", "kB", "MB", "GB", "TB")


@main.command()
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@DAYS
@limit_option(_MOST_ROWS)
@JSON
def plan(names: tuple[str, ...], span: str | None, limit: int, *, as_json: bool) -> None:
    """What a run would do now, in its order, and which days it would skip.

    Needs no Spark and changes nothing. `~` marks what is estimated; `reads` are files, or the
    batches of a table after the first number up to the second one. With --json all rows, with
    numbers, and with what may follow and is known only by reading.
    """
    settings, now = Settings.from_environment(), datetime.now(UTC)
    days = asked_days(span)
    chosen = tables_named(names)
    with ERR.status("Reading the ledger …") as status:
        ledger = Ledger(ledger_path(settings.lake))
        require_all_consistent(ledger, settings, chosen)
        view = ledger.view_if_any()
        found = forecast(chosen, view, settings, days, now, lambda s: status.update(Text(f"{s} …")))
    if as_json:
        rows = [*map(_planned, found.days), *map(_skipped, found.skipped)]
        show(pl.DataFrame(rows, schema=_RECORD), "Plan", as_json=True)
        return
    if not (found.days or found.skipped):
        OUT.print(NOTHING_DUE)
        for note in (*found.notes, *unread(tables(), settings.landing)):
            OUT.print(f"- {note}", soft_wrap=True)
        return
    lines = [*map(_line, found.days), *map(_skipped_line, found.skipped)]
    shown = lines[: limit or None]
    found_lines = pl.DataFrame(shown, schema_overrides={"seconds": pl.Float64})
    show(found_lines, "Plan", as_json=False, can_lack=("bytes", "seconds", "reads", "rows"))
    if len(lines) > len(shown):
        OUT.print(f"… and {len(lines) - len(shown):,} more rows; --limit 0 shows all.")
    for note in (*_unknowns(found.days), *found.notes, *unread(tables(), settings.landing)):
        OUT.print(f"- {note}", soft_wrap=True)
    OUT.print(_totals(found), soft_wrap=True)


def _planned(day: PlannedDay) -> dict[str, Any]:
    windows = [{"upstream": w.upstream, "low": w.low, "high": w.high} for w in day.windows]
    values = {name: getattr(day, name) for name in _RECORD if name not in ("last_day", "windows")}
    return values | {"last_day": day.day, "windows": windows, "may_follow": list(day.may_follow)}


def _skipped(left: Skipped) -> dict[str, Any]:
    values = {"table": left.table, "day": left.first, "last_day": left.last, "mode": "skip"}
    none = {"windows": [], "may_follow": [], "files": 0, "is_estimate": False, "unknown": ""}
    return dict.fromkeys(_RECORD) | none | values | {"reason": left.reason}


def _line(day: PlannedDay) -> dict[str, Any]:
    tilde = "~" if day.is_estimate else ""
    return {
        "run": day.run,
        "table": day.table,
        "day": str(day.day),
        "mode": day.mode,
        "reads": _reads(day),
        "rows": "" if day.rows is None else f"{tilde}{day.rows:,}",
        "bytes": "" if day.bytes is None else f"{tilde if not day.files else ''}{_size(day.bytes)}",
        "seconds": None if day.seconds is None else round(day.seconds, 1),
        "reason": day.reason,
    }


def _skipped_line(left: Skipped) -> dict[str, Any]:
    days = str(DayRange(left.first, left.last))
    none = {"run": None, "reads": "", "rows": "", "bytes": "", "seconds": None}
    return none | {"table": left.table, "day": days, "mode": "skip", "reason": left.reason}


def _reads(day: PlannedDay) -> str:
    if day.files:
        return counted(day.files, "file")
    return ", ".join(_window(w) for w in day.windows if w.high > w.low or not w.high)


def _window(window: Window) -> str:
    return f"{window.upstream} {window.low}..{window.high}" if window.high else window.upstream


def _size(size: float) -> str:
    for unit in _SIZES[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_SIZES[-1]}"


def _unknowns(days: Iterable[PlannedDay]) -> list[str]:
    """What may follow, once for each table and reason."""
    found = {(d.table, d.unknown, d.may_follow): None for d in days if d.unknown}
    return [
        f"{table}: {unknown}. That concerns {', '.join(follow)}."
        for table, unknown, follow in found
    ]


def _totals(found: Forecast) -> str:
    days = found.days
    if not days:
        return f"Nothing to run; {len(found.skipped)} skipped."
    known = [day.seconds for day in days if day.seconds is not None]
    seconds = f", about {sum(known):.0f} s" if known else ", in a time that is not known yet"
    if known and len(known) < len(days):
        seconds += f" for the {len(known)} of them that the ledger has figures for"
    tables = len({day.table for day in days})
    read = sum(day.bytes or 0 for day in days if not _of_the_lake(day))
    return (
        f"{counted(found.runs, 'run')} of {counted(tables, 'table')}, {counted(len(days), 'day')} "
        f"in all, {_size(read)} of sources{seconds}; {len(found.skipped)} skipped."
    )


def _of_the_lake(day: PlannedDay) -> bool:
    return not day.table.startswith("bronze/")
