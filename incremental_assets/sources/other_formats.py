"""Files of a feed that are, by their names or their first lines, of another format than it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import FeedFormat, first_line, is_foreign

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


def other_format(feed: str, kind: FeedFormat, files: Sequence[SourceFile]) -> str:
    """A note on files whose names show another format than the feed has; else ""."""
    names = [file.path for file in files if is_foreign(kind, file.path)]
    if not names:
        return ""
    return (
        f"{some_of(names)}: read as {_NAMES[kind]}, though not named so. If it is another "
        f'format, name it in the table: LandedFiles("{feed}", format=…).'
    )


def other_content(
    feed: str, kind: FeedFormat, landing: str, files: Sequence[SourceFile]
) -> list[str]:
    """Notes on files of a feed of JSON lines that begin with no JSON, one for each other format.

    A few bytes of at most three files are read, of the first and the last ones, and only on this
    machine's disk. Files whose names show another format are left to `other_format`.
    """
    if kind != "json":
        return []
    some = [file.path for file in files if file.size and not is_foreign(kind, file.path)]
    found: dict[tuple[str, str], list[str]] = {}
    for path in some if len(some) <= _READ else [*some[: _READ - 1], some[-1]]:
        line = first_line(landing, path)
        if line and not line.startswith((b"{", b"[")):
            found.setdefault(_shown_by(line), []).append(path)
    return [
        f"{some_of(paths)}: read as lines of JSON, but the first line {looks}: silver quarantines "
        "what is no JSON. Repair the file; or, if the feed is of another format, name it in the "
        f'table: LandedFiles("{feed}", format={setting}).'
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


def some_of(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - _NAMED
    shown = ", ".join(n if n.isprintable() else repr(n)[1:-1] for n in names[:_NAMED])
    return shown + (f" and {more:,} more" if more > 0 else "")
