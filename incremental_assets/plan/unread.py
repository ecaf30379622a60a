"""What lies in the landing root and is read by no table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from incremental_assets.errors import SourceError
from incremental_assets.settings import Settings
from incremental_assets.sources.layout import is_hidden
from incremental_assets.sources.other_formats import some_of
from incremental_assets.storage import names_in
from incremental_assets.table import Table, feeds_of


def unread(tables: Sequence[Table], settings: Settings) -> list[str]:
    """What no load of these tables reads, a sentence for each folder.

    `tables` are all tables of the lake. Nothing where the landing cannot be listed: whoever plans
    a load of it gets the reason.
    """
    read = _read(tables, settings)
    try:
        others = _without_a_table(tables, settings, read)
        return [*others, *_without_a_day(tables, settings.landing, read)]
    except (SourceError, OSError):
        return []


def _read(tables: Sequence[Table], settings: Settings) -> set[str]:
    """The paths below the landing root that a table reads, or that are the lake."""
    landing = f"{settings.landing}/"
    inputs = [table.input.path_in(settings.landing) for table in tables if table.input is not None]
    return {
        path.removeprefix(landing) for path in (*inputs, settings.lake) if path.startswith(landing)
    }


def _without_a_table(
    tables: Sequence[Table], settings: Settings, read: Collection[str]
) -> list[str]:
    first = {path.partition("/")[0] for path in read}
    others = [n for n in names_in(settings.landing) if n not in first and not is_hidden(n)]
    if not others:
        return []
    feeds = sorted(feed.feed for _, feed in feeds_of(tables))
    names = f"; a feed is a folder of its name: {', '.join(feeds)}" if feeds else ""
    return [f"No table reads {some_of(others)} in {settings.landing}{names}."]


def _without_a_day(tables: Sequence[Table], landing: str, read: Collection[str]) -> list[str]:
    found, of_tables = [], feeds_of(tables)
    for table, feed in of_tables:
        feeds = [other for _, other in of_tables if other.feed == feed.feed]
        of_others = [path for path in read if path.startswith(f"{feed.feed}/")]
        others = [
            name
            for name in feed.passed_over(landing)
            if not any(_is_in(path, f"{feed.feed}/{name}") for path in of_others)
            and not any(other.reads_below(name) for other in feeds if other != feed)
        ]
        if others:
            found.append(
                f"{table.name} does not read {some_of(others)} in {landing}/{feed.feed}: "
                f"{feed.where}."
            )
    return found


def _is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it, or is above it."""
    return f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/")
