"""How far tables have read, compared with how far their sources have data; without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from incremental_assets.changes.position import state_of
from incremental_assets.changes.watermark import as_text
from incremental_assets.days import utc_today
from incremental_assets.errors import NothingThereError
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import pending_days, stale_days
from incremental_assets.plan.plan_inspector import PlanInspector
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.row_fingerprints import highest
from incremental_assets.sources.source import FixedSource, Source, Version
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class WatermarkComparison:
    """The watermark of a table and the position of one of its sources, as text.

    `at_source` and `in_table` are positions of one kind: files and landing days, a version with
    the highest value of the cursor, or batches of a table. `days_behind` is the number of days
    that the next run would load, `why` describes what is new for them.
    """

    table: str
    source: str
    at_source: str
    in_table: str
    days_behind: int
    held_days: int
    why: str


def compare_with_source(
    tables: Sequence[Table], view: LedgerView, settings: Settings, now: datetime
) -> list[WatermarkComparison]:
    """Each table with each of its sources. Raises SourceError for one that cannot be listed."""
    inspection = PlanInspector()
    return [
        found for table in tables for found in _compared(table, view, settings, now, inspection)
    ]


def _compared(
    table: Table, view: LedgerView, settings: Settings, now: datetime, inspection: PlanInspector
) -> Iterator[WatermarkComparison]:
    history, today = view.table(table.name), utc_today(now)
    if table.layer == "bronze":
        found = pending_days(table, view, settings, now, inspection)
        pending = {day: todo.why for day, todo in found.days.items()}
    else:
        pending = stale_days(table, view, settings.start_date, today)
    behind = len(pending), len(history.held), _some(pending)
    if table.feed is not None:
        yield WatermarkComparison(
            table.name, *_landed(table.feed, history, settings, inspection), *behind
        )
    elif table.source is not None:
        yield WatermarkComparison(
            table.name, *_stored(table, table.source, history, settings, inspection), *behind
        )
    for read in table.upstreams:
        upstream = view.table(read.table.name)
        lows = [history.watermark(read.table.name, day) for day in history.last_committed]
        to = f"batch {max(lows)}" if lows else "nothing"
        yield WatermarkComparison(
            table.name, read.table.name, f"batch {upstream.high}", to, *behind
        )


def _landed(
    feed: Feed, history: TableHistory, settings: Settings, inspection: PlanInspector
) -> tuple[str, str, str]:
    days = feed.days(settings.landing, history)
    folders = inspection.listed(feed, settings.landing, days, history)
    listed = {file.path for files in folders.values() for file in files}
    loaded = {file.path for entry in history.committed for file in entry.files}
    missing = len(loaded - listed)
    more = f"; {counted(missing, 'file')} no longer there" if missing else ""
    return (
        feed.path_in(settings.landing),
        _files(len(listed), max(days, default=None)),
        _files(len(loaded), max(history.last_committed, default=None)) + more,
    )


def _stored(
    table: Table,
    source: Source,
    history: TableHistory,
    settings: Settings,
    inspection: PlanInspector,
) -> tuple[str, str, str]:
    source = table.changes.reading(source.below(settings.landing))
    last = history.committed[-1] if history.committed else None
    read = max((w.high for w in last.windows), default=0) if last else 0
    highs = [entry.high for entry in history.last_committed.values()]
    known = max(highs, key=lambda text: (len(text), text), default="")
    try:
        fixed = inspection.fixed(source)
    except NothingThereError:
        return source.path, "nothing there", _position(f"version {read}" if read else "", known, 0)
    cursor = table.changes.cursor_column
    top = highest(fixed, cursor) if cursor is not None else None
    files = len({f.path for entry in history.committed for f in entry.files})
    return (
        source.path,
        _position(_version(fixed, fixed.version), as_text(top), len(fixed.files)),
        _position(_version(fixed, state_of(last).get("version", read or None)), known, files)
        if last
        else "nothing",
    )


def _files(count: int, newest: date | None) -> str:
    files = counted(count, "file")
    return f"{files}, up to {newest}" if newest else files


def _version(fixed: FixedSource, version: Version | None) -> str:
    return "" if version is None else fixed.version_text(version)


def _position(version: str, cursor: str, files: int) -> str:
    parts = [
        version,
        counted(files, "file") if files else "",
    ]
    return ", ".join(filter(None, (*parts, f"up to {cursor}" if cursor else ""))) or "its rows"


def _some(pending: dict[date, str]) -> str:
    texts = [f"{day}: {why}" for day, why in list(pending.items())[:2]]
    return "; ".join(texts) + (
        f"; and {counted(len(pending) - 2, 'more day')}" if len(pending) > 2 else ""
    )
