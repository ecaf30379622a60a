"""The folder of a feed of landed files: which files are there, and of which landing day each is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from incremental_assets.file_identity import FileLike
from incremental_assets.locations import local_path
from incremental_assets.sources.deliveries import Signs
from incremental_assets.sources.layout import Layout
from incremental_assets.sources.loaded_files import LoadedFiles
from incremental_assets.storage import StoredFile, files_at, files_below, names_in

NANOSECONDS: Final = 1_000_000_000
"""Of a second: times of files are integers."""
_MOST_LISTINGS = 10  # requests to a store, before all of a feed is listed at once
_DayDelivery = tuple[date | None, list[StoredFile], Mapping[str, str]]
_PlaceFiles = tuple[date | None, str, list[StoredFile]]


@dataclass(frozen=True, slots=True)
class FeedFolder:
    """Lists the files of a feed below a landing root, by its layout.

    `unquiet` is why a file may still be written; "" where it is not. The paths of files are below
    the folder.
    """

    landing: str
    feed: str
    places: Layout
    signs: Signs
    unquiet: Callable[[StoredFile], str]

    @property
    def path(self) -> str:
        return f"{self.landing}/{self.feed}"

    def days(self, loaded: LoadedFiles) -> list[date]:
        """The landing days that have a folder or a file."""
        if self.places.is_by_arrival:
            first = loaded.landing_days()
            found = self._places_by_arrival()
            return sorted({self._came(f, first) for _, _, files in found for f in files})
        places = self.places.places(self._names)
        return sorted({place.day for place in places if place.day is not None})

    def deliveries(self, days: Collection[date], loaded: LoadedFiles) -> Iterator[_DayDelivery]:
        """The files with their days, and by path why their delivery is not complete."""
        if self.places.is_by_arrival:
            first = loaded.landing_days()
            for _, place, found in self._places_by_arrival():
                files, incomplete = self._complete(place, found, loaded)
                for file in files:
                    yield self._came(file, first), [file], incomplete
            return
        listed = self._in_one_listing if self._is_listed_whole(days) else self._walked
        for day, place, found in listed(days):
            yield day, *self._complete(place, found, loaded)

    def passed_over(self) -> list[str]:
        """The paths of what is there and that the layout does not lead to."""
        passed: list[str] = []
        for _ in self.places.places(self._names, passed=passed):
            pass
        return passed

    def _places_by_arrival(self) -> Iterator[_PlaceFiles]:
        is_local = local_path(self.landing) is not None
        return self._walked(None) if is_local else self._in_one_listing(None)

    def _came(self, file: StoredFile, first: Mapping[str, date]) -> date:
        """The day on which a file was loaded first, or else was last modified."""
        return first.get(f"{self.feed}/{file.path}") or modified_at(file).date()

    def _is_listed_whole(self, days: Collection[date]) -> bool:
        if local_path(self.landing) is not None:
            return False
        return not self.places.are_days_named or len(days) > _MOST_LISTINGS

    def _in_one_listing(self, days: Collection[date] | None) -> Iterator[_PlaceFiles]:
        places: dict[str, list[StoredFile]] = {}
        for file in files_below(self.path, skip=self.signs.skips):
            if self.places.is_path(file.path):
                places.setdefault(self.places.folder_in(file.path), []).append(file)
        for place, found in places.items():
            day = self.places.day_of(found[0].path)
            if days is None or day in days:
                yield day, place, found

    def _walked(self, days: Collection[date] | None) -> Iterator[_PlaceFiles]:
        for place in self.places.places(self._names, days):
            found = files_at(self.path, place.path, self.signs.skips)
            if self.places.is_of_folders and found and found[0].path == place.path:
                continue  # a file that is named like a folder of a day
            yield place.day, place.path, found

    def _complete(
        self, place: str, files: Sequence[StoredFile], loaded: LoadedFiles
    ) -> tuple[list[StoredFile], Mapping[str, str]]:
        def known(path: str) -> FileLike | None:
            path, own = f"{self.feed}/{path}", self.places.day_of(path)
            day = loaded.landing_days().get(path) if self.places.is_by_arrival else own
            return loaded.files(day).get(path) if day is not None else None

        return self.signs.judged(self.path, place, files, known, self.unquiet)

    def _names(self, inside: str) -> list[str]:
        return names_in(f"{self.path}/{inside}" if inside else self.path)


def modified_at(file: StoredFile) -> datetime:
    """When a file was last modified; the last moment that a calendar knows, for one beyond that."""
    try:
        return datetime.fromtimestamp(file.modified / NANOSECONDS, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)
