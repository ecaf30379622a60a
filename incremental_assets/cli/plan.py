"""`plan`: what a run would do now, without Spark, changing nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.text import Text

from incremental_assets.cli.context import tables, tables_named
from incremental_assets.cli.group import FAILED, main
from incremental_assets.cli.options import DAYS, JSON, NAMES, limit_option, require_partitions
from incremental_assets.cli.output import ERR, OUT, bad, show
from incremental_assets.cli.run import NOTHING_DUE
from incremental_assets.days import ONE_DAY, DayRange
from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from incremental_assets.plan.forecast import Forecast, PlannedDay
    from incremental_assets.plan.skipped import Skipped

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
_NEW_FILES = re.compile(r"\d[\d,]* new files?")
_COUNTED = re.compile(
    r"\d[\d,]* (?=(new |loaded )?files?\b)|(\d[\d,]* batches up to|batch) \d[\d,]*|(?<=file)s\b"
)
_NUMBER = re.compile(r"(\d[\d,]*)")
_SIZES = ("B", "kB", "MB", "GB", "TB")


@main.command()
@NAMES
@DAYS
@limit_option(_MOST_ROWS)
@JSON
def plan(names: tuple[str, ...], days: DayRange | None, limit: int, *, as_json: bool) -> None:
    """What a run would do now, and which days it would skip.

    Needs no Spark and changes nothing. Days that are alike are one row, with their sums. `~` marks
    what is estimated; `reads` are files, or the batches of a table after the first number up to
    the second one. With --json a row for each day, with numbers, and with what may follow and is
    known only by reading. A table that cannot be planned is named, and does not keep the others
    back; the exit status is 1 then.
    """
    from incremental_assets.operations.failure_texts import error_of
    from incremental_assets.plan.consistent import require_all_consistent
    from incremental_assets.plan.forecast import forecast
    from incremental_assets.plan.known_columns import require_known_columns
    from incremental_assets.plan.plan_inspector import PlanInspector
    from incremental_assets.plan.unread import unread

    settings, now = Settings.from_environment(), datetime.now(UTC)
    require_partitions(days, settings)
    chosen = tables_named(names)
    with ERR.status("Reading the ledger …") as status:
        ledger = Ledger(ledger_path(settings.lake))
        require_all_consistent(ledger, settings, chosen)
        view = ledger.view_if_any()
        inspection = PlanInspector()
        require_known_columns(chosen, tables(), view, settings, inspection)

        def log(line: str) -> None:
            status.update(Text(f"{line} …"))

        found = forecast(chosen, view, settings, days, now, log, inspection)
    if as_json:
        rows = [*map(_planned, found.days), *map(_skipped, found.skipped)]
        show(pl.DataFrame(rows, schema=_RECORD), "Plan", as_json=True)
    else:
        _show(found, limit, unread(tables(), settings))
    for each in found.unplanned:
        bad("Error:", error_of(each.table, each.error))
    if found.unplanned:
        sys.exit(FAILED)


def _show(found: Forecast, limit: int, unread: Sequence[str]) -> None:
    if not (found.days or found.skipped):
        if not found.unplanned:
            OUT.print(NOTHING_DUE)
        for note in (*found.notes, *unread):
            OUT.print(f"- {note}", soft_wrap=True)
        return
    lines = [*map(_line, _alike(found.days)), *map(_skipped_line, found.skipped)]
    shown = lines[: limit or None]
    show(pl.DataFrame(shown), "Plan", as_json=False, can_fold=("reads", "reason", "days"))
    if len(lines) > len(shown):
        OUT.print(f"… and {len(lines) - len(shown):,} more rows; --limit 0 shows all.")
    for note in (*_unknowns(found.days), *found.notes, *unread):
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


def _alike(days: Iterable[PlannedDay]) -> Iterator[list[PlannedDay]]:
    """The days in ranges: of one run, table and mode, and of reasons that differ by numbers."""
    some: list[PlannedDay] = []
    for day in days:
        if some and not (_like(some[-1]) == _like(day) and some[-1].day + ONE_DAY == day.day):
            yield some
            some = []
        some.append(day)
    if some:
        yield some


def _like(day: PlannedDay) -> tuple[Any, ...]:
    reason = _COUNTED.sub("", day.reason)
    return (day.run, day.table, day.mode, day.windows, bool(day.files), reason)


def _line(days: Sequence[PlannedDay]) -> dict[str, Any]:
    """A range of days as one row: their sums, and the reason of the first and the last."""
    first, last = days[0], days[-1]
    files = sum(day.files for day in days)
    tilde = "~" if any(day.is_estimate for day in days) else ""
    rows = _sum(day.rows for day in days)
    more = "≥" if rows is not None and any(day.rows is None for day in days) else ""
    size = _sum(day.bytes for day in days)
    seconds = _sum(day.seconds for day in days)
    return {
        "run": first.run,
        "table": first.table,
        "days": str(DayRange(first.day, last.day)),
        "mode": first.mode,
        "reads": counted(files, "file") if files else _read(first),
        "rows": "" if rows is None else f"{more}{tilde}{rows:,.0f}",
        "bytes": "" if size is None else f"{tilde if not files else ''}{_size(size)}",
        "time": "" if seconds is None else f"{seconds:,.1f} s",
        "reason": _reason(days, files),
    }


def _reason(days: Sequence[PlannedDay], files: int) -> str:
    """Why a range of days is loaded: the common reason, or the first and the last."""
    from incremental_assets.plan.work import first_load, why_of_days

    reasons = [day.reason for day in days]
    if len(days) == 1:
        return reasons[0]
    if all(map(_NEW_FILES.fullmatch, reasons)):
        return counted(files, "new file")
    if all(day.reason == first_load(counted(day.files, "file")) for day in days):
        common = first_load(counted(files, "file"))
    elif len(set(reasons)) == 1:
        common = reasons[0]
    else:
        common = _first_to_last(reasons[0], reasons[-1])
    return why_of_days(common)


def _first_to_last(first: str, last: str) -> str:
    """Two reasons in one, where they differ by one number: `batch 1 … 31`."""
    parts = list(zip(_NUMBER.split(first), _NUMBER.split(last), strict=False))
    differ = [number for number, (one, other) in enumerate(parts) if one != other]
    if len(differ) != 1 or not _NUMBER.fullmatch(parts[differ[0]][0]):
        return f"{first} … {last}"
    return "".join(one if one == other else f"{one} … {other}" for one, other in parts)


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of what is known of some days; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


_COLUMNS = ("run", "table", "days", "mode", "reads", "rows", "bytes", "time", "reason")


def _skipped_line(left: Skipped) -> dict[str, Any]:
    days = str(DayRange(left.first, left.last))
    none = {"run": None, "reads": "", "rows": "", "bytes": "", "time": ""}
    values = {"table": left.table, "days": days, "mode": "skip", "reason": left.reason}
    return {name: (none | values)[name] for name in _COLUMNS}


def _read(day: PlannedDay) -> str:
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
        f"{table}: {unknown[0].upper()}{unknown[1:]}. That concerns {', '.join(follow)}."
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
    what = f"{counted(found.runs, 'run')} of {counted(tables, 'table')}"
    much = f"{counted(len(days), 'table-day')}, {_size(read)} of sources"
    return f"{what}, {much}{seconds}; {len(found.skipped)} skipped."


def _of_the_lake(day: PlannedDay) -> bool:
    return not day.table.startswith("bronze/")
