"""Landed files: day folders of newline-delimited JSON, `<landing>/<feed>/YYYY-MM-DD/…`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from incremental_assets.days import parse_day
from incremental_assets.errors import DayError, DefinitionError, SourceError
from incremental_assets.locations import local_path
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.storage import files_below, names_in, open_store

_FEED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MOST_LISTINGS = 10  # requests to a store, before all of a feed is listed at once


@dataclass(frozen=True, slots=True)
class LandedFiles:
    """A feed of files in day folders. Names that begin with `.` or `_` are not data."""

    feed: str

    def __post_init__(self) -> None:
        if not _FEED.fullmatch(self.feed):
            raise DefinitionError(
                f"Feed {self.feed!r}: use letters, digits, '_', '-' and '.', no slashes."
            )

    def days(self, landing: str) -> list[date]:
        """The landing days that have a folder. Raises SourceError if the root is missing."""
        return sorted(_day_folders(self._names(landing)))

    def files(self, landing: str, day: date) -> list[SourceFile]:
        """The files of a landing day, by path; empty where the feed or the day has no folder.

        Raises SourceError if the landing root is missing or something cannot be listed.
        """
        return self.by_day(landing, [day])[day]

    def by_day(self, landing: str, days: Sequence[date]) -> Mapping[date, list[SourceFile]]:
        """The files of each of these landing days, by path.

        An object store is asked once for many days, for all that is below the feed. Raises as
        `files` does.
        """
        require_root(landing)
        try:
            if local_path(landing) is None and len(days) > _MOST_LISTINGS:
                return self._in_one_listing(landing, days)
            return {
                day: [
                    SourceFile.of(file, f"{self.feed}/{day}")
                    for file in files_below(f"{landing}/{self.feed}/{day}", skip=is_hidden)
                ]
                for day in days
            }
        except OSError as error:
            raise not_readable(error.filename or landing, error) from error

    def _in_one_listing(
        self, landing: str, days: Sequence[date]
    ) -> Mapping[date, list[SourceFile]]:
        found: dict[str, list[SourceFile]] = {str(day): [] for day in days}
        for file in files_below(f"{landing}/{self.feed}", skip=is_hidden):
            folder, inside, _ = file.path.partition("/")
            if inside and folder in found:
                found[folder].append(SourceFile.of(file, self.feed))
        return {day: found[str(day)] for day in days}

    def passed_over(self, landing: str) -> list[str]:
        """The names in the feed's folder that no load reads: neither day folders nor hidden."""
        return [n for n in self._names(landing) if not (is_hidden(n) or list(_day_folders([n])))]

    def _names(self, landing: str) -> list[str]:
        require_root(landing)
        try:
            return names_in(f"{landing}/{self.feed}")
        except OSError as error:
            raise not_readable(error.filename or landing, error) from error


def missing_or_changed(landing: str, files: list[SourceFile]) -> list[SourceFile]:
    """Which of the files are missing, or have another size than when they were listed.

    To explain why a read failed.
    """
    root = local_path(landing)
    if root is None:
        store, path = open_store(landing)
        return [f for f in files if not store.exists(f"{path}/{f.path}")]
    missing = []
    for file in files:
        try:
            if (root / file.path).stat().st_size != file.size:
                missing.append(file)
        except OSError:
            missing.append(file)
    return missing


def require_root(landing: str) -> None:
    """Raise SourceError if the landing root is not there."""
    root = local_path(landing)
    if root is None:
        return
    try:
        there, a_folder = root.exists(), root.is_dir()
    except OSError as error:
        raise not_readable(error.filename or landing, error) from error
    if not a_folder:
        what = "is not a folder" if there else "does not exist"
        raise SourceError(
            f"The landing root {root} {what}. Set INCREMENTAL_ASSETS_LANDING to the folder that "
            "holds the feeds, or land the demo feed with `incremental-assets demo land --from "
            "2017-01-01 --to 2017-01-07`."
        )


def _day_folders(names: list[str]) -> Iterator[date]:
    for name in names:
        try:
            yield parse_day(name)
        except DayError:
            continue  # not a day folder: a temporary folder, a read-me, …


def is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))
