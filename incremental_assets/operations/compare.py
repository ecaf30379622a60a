"""How far tables have come, beside how far their sources have; without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from incremental_assets.changes import Sequence as SequenceChanges
from incremental_assets.changes import Timestamp
from incremental_assets.changes.watermark import as_text
from incremental_assets.days import utc_today
from incremental_assets.errors import NothingThereError
from incremental_assets.ledger.view import LedgerView, TableHistory
from incremental_assets.plan import source_news, stale_days
from incremental_assets.plan.once import OneLook
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored_days import highest
from incremental_assets.sources.stored_feed import Stored
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class Compared:
    """A table beside one of its sources, in words.

    `at_source` and `in_table` are positions of one kind: files and landing days, a version with
    the highest value of the cursor, or batches of a table. `days_behind` are the days that the
    next run would load, `why` says what there is for them.
    """

    table: str
    source: str
    at_source: str
    in_table: str
    days_behind: int
    held_days: int
    why: str


def compare(
    tables: Sequence[Table], view: LedgerView, settings: Settings, now: datetime
) -> list[Compared]:
    """Each table beside each of its sources. Raises SourceError for one that cannot be listed."""
    look = OneLook()
    return [found for table in tables for found in _compared(table, view, settings, now, look)]


def _compared(
    table: Table, view: LedgerView, settings: Settings, now: datetime, look: OneLook
) -> Iterator[Compared]:
    history, today = view.table(table.name), utc_today(now)
    if table.layer == "bronze":
        found = source_news(table, view, settings, now, look)
        news = {day: todo.why for day, todo in found.days.items()}
    else:
        news = stale_days(table, view, settings.start_date, today)
    behind = len(news), len(history.held), _some(news)
    if table.feed is not None:
        yield Compared(table.name, *_landed(table.feed, history, settings, look), *behind)
    elif table.stored is not None:
        yield Compared(table.name, *_stored(table, table.stored, history, settings, look), *behind)
    for read in table.upstreams:
        upstream = view.table(read.table.name)
        lows = [history.watermark(read.table.name, day) for day in history.last_committed]
        to = f"batch {max(lows)}" if lows else "nothing"
        yield Compared(table.name, read.table.name, f"batch {upstream.high}", to, *behind)


def _landed(
    feed: LandedFiles, history: TableHistory, settings: Settings, look: OneLook
) -> tuple[str, str, str]:
    days = feed.days(settings.landing)
    folders = look.listed(feed, settings.landing, days)
    listed = {file.path for files in folders.values() for file in files}
    loaded = {file.path for entry in history.committed for file in entry.files}
    gone = len(loaded - listed)
    more = f"; {gone} are not there any more" if gone else ""
    return (
        f"{settings.landing}/{feed.feed}",
        _files(len(listed), max(days, default=None)),
        _files(len(loaded), max(history.last_committed, default=None)) + more,
    )


def _stored(
    table: Table, stored: Stored, history: TableHistory, settings: Settings, look: OneLook
) -> tuple[str, str, str]:
    source = stored.source(settings.landing)
    last = history.committed[-1] if history.committed else None
    read = (
        max((w.high for w in last.windows if w.upstream == source.path), default=0) if last else 0
    )
    highs = [entry.high for entry in history.last_committed.values()]
    known = max(highs, key=lambda text: (len(text), text), default="")
    try:
        fixed = look.fixed(source)
    except NothingThereError:
        return source.path, "nothing there", _position(read or None, known, 0)
    top = None
    if isinstance(table.changes, Timestamp | SequenceChanges):
        top = highest(fixed, table.changes.column)
    files = len({f.path for entry in history.committed for f in entry.files})
    return (
        source.path,
        _position(fixed.version, as_text(top), len(fixed.files)),
        _position(read or None, known, files) if last else "nothing",
    )


def _files(count: int, newest: date | None) -> str:
    return f"{count} files, up to {newest}" if newest else f"{count} files"


def _position(version: int | None, cursor: str, files: int) -> str:
    said = [f"version {version}" if version is not None else "", f"{files} files" if files else ""]
    return ", ".join(filter(None, (*said, f"up to {cursor}" if cursor else ""))) or "its rows"


def _some(news: dict[date, str]) -> str:
    texts = [f"{day}: {why}" for day, why in list(news.items())[:2]]
    return "; ".join(texts) + (f"; and {len(news) - 2} more days" if len(news) > 2 else "")
