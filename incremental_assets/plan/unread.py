"""What lies in the landing root and is read by no table, or not as what it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from incremental_assets.errors import SourceError
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.layout import DAY_FOLDERS, is_hidden
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import FeedFormat, first_line, is_foreign
from incremental_assets.storage import names_in
from incremental_assets.table import Table

_NAMED = 5
_READ = 3  # files of which a plan reads the beginning
_DELIMITERS = (",", ";", "\t", "|")
_NAMES: Mapping[FeedFormat, str] = {
    "json": "lines of JSON",
    "json_document": "JSON documents",
    "csv": "CSV",
    "parquet": "Parquet",
    "orc": "ORC",
    "avro": "Avro",
    "xml": "XML",
}


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


def other_format(feed: LandedFiles, files: Sequence[SourceFile]) -> str:
    """A note on files whose names show another format than the feed has; else ""."""
    names = [file.path for file in files if is_foreign(feed.kind, file.path)]
    if not names:
        return ""
    return (
        f"{_some(names)}: read as {_NAMES[feed.kind]}, though not named so. If it is another "
        f'format, name it in the table: LandedFiles("{feed.feed}", format=…).'
    )


def other_content(feed: LandedFiles, landing: str, files: Sequence[SourceFile]) -> list[str]:
    """Notes on files of a feed of JSON lines that begin with no JSON, one for each other format.

    A few bytes of at most three files are read, of the first and the last ones, and only on this
    machine's disk. Files whose names show another format are left to `other_format`.
    """
    if feed.kind != "json":
        return []
    some = [file.path for file in files if file.size and not is_foreign(feed.kind, file.path)]
    found: dict[tuple[str, str], list[str]] = {}
    for path in some if len(some) <= _READ else [*some[: _READ - 1], some[-1]]:
        line = first_line(landing, path)
        if line and not line.startswith((b"{", b"[")):
            found.setdefault(_shown_by(line), []).append(path)
    return [
        f"{_some(paths)}: read as lines of JSON, but the first line {looks}: silver quarantines "
        "what is no JSON. Repair the file; or, if the feed is of another format, name it in the "
        f'table: LandedFiles("{feed.feed}", format={setting}).'
        for (looks, setting), paths in found.items()
    ]


def _shown_by(line: bytes) -> tuple[str, str]:
    """How a first line looks that is no JSON, and the format to set then."""
    text = line.decode(errors="replace")
    if text.startswith("<"):
        return "is like XML", 'Xml("…")'
    delimiter = max(_DELIMITERS, key=text.count)
    if delimiter not in text:
        return "begins with neither { nor [", "…"
    return "is like CSV", '"csv"' if delimiter == "," else f"Csv({delimiter!r})"


def _without_a_table(
    tables: Sequence[Table], settings: Settings, read: Collection[str]
) -> list[str]:
    first = {path.partition("/")[0] for path in read}
    others = [n for n in names_in(settings.landing) if n not in first and not is_hidden(n)]
    if not others:
        return []
    feeds = sorted(table.feed.feed for table in tables if table.feed is not None)
    names = f"; a feed is a folder of its name: {', '.join(feeds)}" if feeds else ""
    return [f"No table reads {_some(others)} in {settings.landing}{names}."]


def _without_a_day(tables: Sequence[Table], landing: str, read: Collection[str]) -> list[str]:
    found = []
    for table in tables:
        feed = table.feed
        if feed is None:
            continue
        feeds = [t.feed for t in tables if t.feed is not None and t.feed.feed == feed.feed]
        of_others = [path for path in read if path.startswith(f"{feed.feed}/")]
        others = [
            name
            for name in feed.passed_over(landing)
            if not any(_is_in(path, f"{feed.feed}/{name}") for path in of_others)
            and not any(other.reads_below(name) for other in feeds if other != feed)
        ]
        if others:
            found.append(
                f"{table.name} does not read {_some(others)} in {landing}/{feed.feed}: "
                f"{_where(feed)}."
            )
    return found


def _where(feed: LandedFiles) -> str:
    """Where the files of a feed lie."""
    if feed.layout == DAY_FOLDERS:
        return "its files lie in a folder for each day, named as 2017-01-31"
    return f"its files are laid out as {feed.layout}, such as {feed.example}"


def _is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder or in it, or is above it."""
    return f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(n if n.isprintable() else repr(n)[1:-1] for n in names[:_NAMED])
    return shown + (f" and {more:,} more" if more > 0 else "")
