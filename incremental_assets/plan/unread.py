"""What lies in the landing root and is read by no table, or not as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from incremental_assets.errors import SourceError
from incremental_assets.sources.landed_files import is_hidden
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.storage import names_in
from incremental_assets.table import Table

_NAMED = 5
_OTHER = frozenset({".avro", ".csv", ".orc", ".parquet", ".tsv", ".xls", ".xlsx", ".xml"})


def unread(tables: Sequence[Table], landing: str) -> list[str]:
    """What no load of these tables reads, a sentence for each folder.

    `tables` are all tables of the lake. Nothing where the landing cannot be listed: whoever plans
    a load of it gets the reason.
    """
    try:
        return [*_without_a_table(tables, landing), *_without_a_day(tables, landing)]
    except (SourceError, OSError):
        return []


def other_format(files: Sequence[SourceFile]) -> str:
    """A note on files that by their names are no JSON lines, as which they are read; else ""."""
    names = [f.path for f in files if _suffix(f.path) in _OTHER]
    if not names:
        return ""
    return (
        f"{_some(names)}: read as lines of JSON, though not named so; for another format declare "
        "the source of the table as Stored(…, format=…)"
    )


def _without_a_table(tables: Sequence[Table], landing: str) -> list[str]:
    feeds = {table.feed.feed for table in tables if table.feed is not None}
    stored = {table.source.path for table in tables if table.source and table.source.is_landed}
    read = feeds | {path.partition("/")[0] for path in stored}
    others = [name for name in names_in(landing) if name not in read and not is_hidden(name)]
    if not others:
        return []
    return [
        f"No table reads {_some(others)} in {landing}; the tables read {', '.join(sorted(read))}"
    ]


def _without_a_day(tables: Sequence[Table], landing: str) -> list[str]:
    found = []
    for table in tables:
        others = table.feed.passed_over(landing) if table.feed is not None else []
        if table.feed is not None and others:
            found.append(
                f"{table.name} does not read {_some(others)} in {landing}/{table.feed.feed}: its "
                "files lie in a folder for each day, named as 2017-01-31"
            )
    return found


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _suffix(path: str) -> str:
    name = PurePosixPath(path.lower())
    return (
        name.suffix
        if name.suffix not in (".gz", ".bz2", ".zst")
        else PurePosixPath(name.stem).suffix
    )
