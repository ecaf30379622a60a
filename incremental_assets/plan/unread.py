"""What lies in the landing root and is read by no table, or not as what it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

from incremental_assets.errors import SourceError
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import is_hidden
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.storage import names_in
from incremental_assets.table import Table

_NAMED = 5
_COMPRESSED = (".gz", ".bz2", ".zst")
_OTHER = frozenset({".avro", ".csv", ".orc", ".parquet", ".tsv", ".xls", ".xlsx", ".xml"})


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
    sources = {t.source.below(settings.landing).path for t in tables if t.source is not None}
    feeds = {table.feed.feed for table in tables if table.feed is not None}
    below = {path for path in (*sources, settings.lake) if path.startswith(landing)}
    return feeds | {path.removeprefix(landing) for path in below}


def other_format(files: Sequence[SourceFile]) -> str:
    """A note on files that by their names are no JSON lines, as which they are read; else ""."""
    names = [f.path for f in files if _suffix(f.path) in _OTHER]
    if not names:
        return ""
    return (
        f"{_some(names)}: read as lines of JSON, though not named so; for another format declare "
        "the source of the table as Stored(…, format=…)"
    )


def _without_a_table(
    tables: Sequence[Table], settings: Settings, read: Collection[str]
) -> list[str]:
    first = {path.partition("/")[0] for path in read}
    others = [n for n in names_in(settings.landing) if n not in first and not is_hidden(n)]
    if not others:
        return []
    feeds = sorted(table.feed.feed for table in tables if table.feed is not None)
    names = f"; a feed is a folder of its name: {', '.join(feeds)}" if feeds else ""
    return [f"No table reads {_some(others)} in {settings.landing}{names}"]


def _without_a_day(tables: Sequence[Table], landing: str, read: Collection[str]) -> list[str]:
    found = []
    for table in tables:
        feed = table.feed
        others = feed.passed_over(landing) if feed is not None else []
        of_others = {
            path.split("/")[1] for path in read if feed and path.startswith(f"{feed.feed}/")
        }
        others = [name for name in others if name not in of_others]
        if feed is not None and others:
            found.append(
                f"{table.name} does not read {_some(others)} in {landing}/{feed.feed}: its files "
                "lie in a folder for each day, named as 2017-01-31"
            )
    return found


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(n if n.isprintable() else repr(n)[1:-1] for n in names[:_NAMED])
    return shown + (f" and {more:,} more" if more > 0 else "")


def _suffix(path: str) -> str:
    """The ending of a file's name that says its format, not how it is compressed."""
    *_, last = ["", *(s for s in PurePosixPath(path.lower()).suffixes if s not in _COMPRESSED)]
    return last
