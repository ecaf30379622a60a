"""What a feed asks of the table that reads it: which files it has loaded, and on which days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Final, Protocol

from incremental_assets.file_identity import FileLike, is_as_listed


class LoadedFiles(Protocol):
    """The files that a table has loaded, by their path below the landing root."""

    def files(self, day: date, /) -> Mapping[str, FileLike]:
        """The files of a landing day as they were last loaded."""
        ...

    def landing_days(self) -> Mapping[str, date]:
        """The landing day of each file that was loaded or is held; it reads all days."""
        ...


class _NothingLoaded:
    """As of a table that was never loaded."""

    def files(self, day: date, /) -> Mapping[str, FileLike]:
        return {}

    def landing_days(self) -> Mapping[str, date]:
        return {}


NOTHING_LOADED: Final[LoadedFiles] = _NothingLoaded()


def is_as_loaded(file: FileLike, before: FileLike | None) -> bool:
    """Whether a file is as it was when it was loaded, if it was, as far as its listing shows."""
    return before is not None and is_as_listed(file, before)
