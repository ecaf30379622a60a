"""What a feed asks of the table that reads it: which files it has loaded, and on which days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Final, Protocol

from incremental_assets.sources.source_file import SourceFile


class FileState(Protocol):
    """A file as it was when it was loaded; its fields are those of `SourceFile`."""

    @property
    def size(self) -> int: ...
    @property
    def tag(self) -> str: ...
    @property
    def modified(self) -> str: ...


class LoadedFiles(Protocol):
    """The files that a table has loaded, by their path below the landing root."""

    def files(self, day: date, /) -> Mapping[str, FileState]:
        """The files of a landing day as they were last loaded."""
        ...

    def landing_days(self) -> Mapping[str, date]:
        """The landing day of each file that was loaded or is held; it reads all days."""
        ...


class _NothingLoaded:
    """As of a table that was never loaded."""

    def files(self, day: date, /) -> Mapping[str, FileState]:
        return {}

    def landing_days(self) -> Mapping[str, date]:
        return {}


NOTHING_LOADED: Final[LoadedFiles] = _NothingLoaded()


def is_as_loaded(file: SourceFile, before: FileState | None) -> bool:
    """Whether a file is as it was when it was loaded, as far as its listing shows."""
    if before is None:
        return False
    same = (file.size, file.tag or file.modified)
    return same == (before.size, before.tag if file.tag else before.modified)
