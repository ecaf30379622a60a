"""What a feed is: files below the landing root, listed by landing day and read file by file.

A kind of feed of one's own is one file with a class. A source that does not land is a `Source`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame

from incremental_assets.frames import Frames
from incremental_assets.sources.archives import UnpackFolder
from incremental_assets.sources.bronze_input import BronzeInput
from incremental_assets.sources.day_files import DayFiles
from incremental_assets.sources.loaded_files import NOTHING_LOADED, LoadedFiles
from incremental_assets.sources.source_file import SourceFile


class Feed(BronzeInput):
    """Files of landing days in the folder `feed` of the landing root; hashable.

    `layout` is the pattern of their paths there. The ledger knows which of them were loaded, so
    that a load reads those that are new. `loaded` are the files that a table has loaded. Where it
    is not stated otherwise, a path is one below the landing root, `<feed>/…`.
    """

    __slots__ = ()

    feed: str
    layout: str
    has_landed_paths = True
    keeps_past = True

    @abstractmethod
    def days(self, landing: str, loaded: LoadedFiles = NOTHING_LOADED) -> Sequence[date]:
        """The landing days that have a folder or a file, in order.

        Raises SourceError if the landing root is missing.
        """

    @abstractmethod
    def listing(
        self, landing: str, days: Collection[date], loaded: LoadedFiles = NOTHING_LOADED
    ) -> Mapping[date, DayFiles]:
        """The files of each of these landing days, as they are listed, each by its path.

        A day without files has none. What waits is listed, too, with the reason. Raises SourceError
        if the landing root is missing or something cannot be listed.
        """

    @property
    @abstractmethod
    def listing_needs_loaded(self) -> bool:
        """Whether a listing depends on what a table has loaded, and so is of one table alone."""

    @abstractmethod
    def rows(
        self, frames: Frames, landing: str, files: Sequence[SourceFile], folder: UnpackFolder
    ) -> DataFrame:
        """The rows of some of its files: `payload`, `_raw` and `_file`, the path as listed.

        Of lines, all that are not blank. What has to be unpacked is, to `folder`, until the end of
        the batch. Raises SourceError for a file of another format.
        """

    @abstractmethod
    def day_column(self, path: Column) -> Column | None:
        """The landing day of a row, by its file's path; None where paths have no day."""

    @abstractmethod
    def day_of(self, path: str, loaded: LoadedFiles = NOTHING_LOADED) -> date | None:
        """The landing day of a path; None for none that is known."""

    @abstractmethod
    def passed_over(self, landing: str) -> Sequence[str]:
        """The paths below the feed's folder that no load reads, though they are not hidden."""

    @abstractmethod
    def reads_below(self, path: str) -> bool:
        """Whether a path below the feed's folder is where its files may be, or leads there."""

    @property
    @abstractmethod
    def example(self) -> str:
        """A path as a file of the feed has it."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Where its files lie, for a message: "its files lie in …"."""

    @property
    @abstractmethod
    def layout_can_move_files(self) -> bool:
        """Whether a table may have loaded its files on other days, by a layout it had before."""

    def notes(self, landing: str, files: Sequence[SourceFile]) -> Sequence[str]:
        """What the run that reads these files is to know of them."""
        return ()

    def files(
        self, landing: str, day: date, loaded: LoadedFiles = NOTHING_LOADED
    ) -> list[SourceFile]:
        """The files of a landing day; empty where there are none. Raises as `listing` does."""
        return self.by_day(landing, [day], loaded)[day]

    def by_day(
        self, landing: str, days: Collection[date], loaded: LoadedFiles = NOTHING_LOADED
    ) -> Mapping[date, list[SourceFile]]:
        """The files of each of these landing days. Raises as `listing` does."""
        return {day: list(files) for day, files in self.listing(landing, days, loaded).items()}

    def path_in(self, landing: str) -> str:
        return f"{landing}/{self.feed}"

    def landed_days(
        self, landing: str, loaded: LoadedFiles = NOTHING_LOADED
    ) -> Sequence[date] | None:
        return self.days(landing, loaded)

    def watermark_by_days(self, days: Collection[date]) -> str:
        return f"landing day {max(days)}" if days else ""
