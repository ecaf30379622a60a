"""A stored feed: a table or a log at its source, read in place and not from day folders."""

from __future__ import annotations

import re
from dataclasses import dataclass

from incremental_assets.errors import DefinitionError
from incremental_assets.settings import local_path, location
from incremental_assets.sources.stored import Format, StoredSource

_BELOW = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]*(/[A-Za-z0-9][A-Za-z0-9_.=-]*)*")


@dataclass(frozen=True, slots=True)
class Stored:
    """A source at one place: Delta, Parquet, JSON lines or CSV with a header, a file or a folder.

    `path` is below the landing root, or absolute, or the URI of an object store. Without a
    `format` it is found out. `day` is the column whose UTC date is a row's landing day; for
    `Timestamp` it is the timestamp. Without one, rows land on the day of the load.
    """

    path: str
    format: Format | None = None
    day: str | None = None

    def __post_init__(self) -> None:
        if self.is_absolute:
            location("Stored path", self.path)
        elif not _BELOW.fullmatch(self.path):
            raise DefinitionError(
                f"Stored path {self.path!r}: use letters, digits, '_', '-', '.', '=' and single "
                "slashes for a path below the landing root, or give an absolute path or a URI."
            )

    @property
    def is_absolute(self) -> bool:
        """Whether the path stands by itself."""
        local = local_path(self.path)
        return local is None or local.is_absolute()

    def source(self, landing: str) -> StoredSource:
        """Where it lies, for this landing root."""
        if self.is_absolute:
            return StoredSource(location("Stored path", self.path), self.format)
        return StoredSource(f"{landing}/{self.path}", self.format)
