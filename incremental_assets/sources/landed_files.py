"""Landed files: the files of a feed, each of one landing day."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.choices import require_choice
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.sources.archives import (
    UnpackFolder,
    archive_of,
    is_archive,
    remove_leftovers,
    unpacked,
    unpacked_of,
)
from incremental_assets.sources.csv_format import RFC_4180, Csv
from incremental_assets.sources.day_files import DayFiles
from incremental_assets.sources.deliveries import Signs
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.feed_folder import NANOSECONDS, FeedFolder, modified_at
from incremental_assets.sources.landing_root import listing, require_root
from incremental_assets.sources.layout import DAY_FOLDERS, Layout, is_hidden
from incremental_assets.sources.lines import read_lines
from incremental_assets.sources.loaded_files import NOTHING_LOADED, LoadedFiles
from incremental_assets.sources.other_formats import other_content, other_format
from incremental_assets.sources.payloads import line_objects, row_objects
from incremental_assets.sources.rows import no_rows
from incremental_assets.sources.source_file import SourceFile, require_findable
from incremental_assets.sources.stored import FixedFiles
from incremental_assets.sources.stored_files import (
    COMPRESSED,
    FILE_FORMATS,
    FRAMED_BY_HADOOP,
    TEXT_FORMATS,
    UNKNOWN_COMPRESSED,
    DataFiles,
    FeedFormat,
    FileFormat,
    is_tar,
)
from incremental_assets.sources.xml_documents import Xml, read_xml
from incremental_assets.storage import StoredFile

_FEED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MARKER = re.compile(r"(?!\.+$)[A-Za-z0-9_.-]+")
_MANIFEST = re.compile(r"(?![.*]+$)[A-Za-z0-9_.*-]+")
_SKEW = 60.0  # seconds by which the clock of a disk may be ahead


@dataclass(frozen=True, slots=True)
class LandedFiles(Feed):
    """A feed of files in folders or with names of a day, `<landing>/<feed>/…`.

    `layout` is the pattern of their paths below the feed's folder (`Layout`), by default a folder
    for each day, `%Y-%m-%d/`. `format` is what the files are: "json" (an object a line),
    "json_document" (an array of rows), "csv", "parquet", "orc" or "avro", `Csv(…)` for a CSV of
    other signs, or `Xml(…)`, which names the elements that are rows. With a `marker`, such as
    `_SUCCESS`, a folder is read once a file of that name is in it; with a `manifest`, such as
    `*.manifest.json`, what the files of such names name is read once all of it is there. A file
    that was modified less than `quiet_for` ago may still be written. What waits is listed all the
    same, with the reason. Names that begin with `.` or `_` are not data.
    """

    feed: str
    format: FileFormat | Csv | Xml = "json"
    layout: str = DAY_FOLDERS
    marker: str = ""
    quiet_for: timedelta = timedelta(0)
    manifest: str = ""

    def __post_init__(self) -> None:
        if not _FEED.fullmatch(self.feed):
            raise DefinitionError(
                f"Feed {self.feed!r}: use letters, digits, '_', '-' and '.', no slashes."
            )
        where = f"Feed {self.feed}"
        if str(self.format) == "xml":
            raise DefinitionError(
                f"{where}: XML needs the name of the elements that are rows: format=Xml(row_tag)."
            )
        if not isinstance(self.format, Csv | Xml):
            if f".{self.format}" in (*COMPRESSED, ".zip"):
                raise DefinitionError(
                    f"{where}: {self.format!r} is how files are packed; name the format of what is "
                    "in them. Packed files are unpacked when they are read."
                )
            what = f"The format of feed {self.feed}"
            require_choice(what, self.format, FILE_FORMATS, ("Csv(…)", "Xml(…)"))
        if not isinstance(self.layout, str):
            raise DefinitionError(f"{where}: the layout is a text, not {self.layout!r}.")
        is_of_folders = self.places.is_of_folders  # raises, where the layout is none
        if self.marker and not (is_of_folders and _MARKER.fullmatch(self.marker)):
            raise DefinitionError(
                f"{where}: the marker {self.marker!r} is the name of a file in each folder of a "
                f"layout that ends with '/', and the layout is {self.layout!r}."
            )
        if self.manifest and not (is_of_folders and _MANIFEST.fullmatch(self.manifest)):
            raise DefinitionError(
                f"{where}: the manifest {self.manifest!r} is the name of a file, or a pattern of "
                "it with '*', in each folder of a layout that ends with '/', and the layout is "
                f"{self.layout!r}."
            )
        if not isinstance(self.quiet_for, timedelta) or self.quiet_for < timedelta(0):
            raise DefinitionError(
                f"{where}: quiet_for is {self.quiet_for!r}; it is a timedelta that is not negative."
            )

    @property
    def places(self) -> Layout:
        """The layout, as what it means."""
        return layout_of(self.layout)

    def days(self, landing: str, loaded: LoadedFiles = NOTHING_LOADED) -> list[date]:
        """The landing days that have a folder or a file.

        Where paths have no day, `loaded` counts: a file that was replaced is of the day on which it
        came first.
        """
        require_root(landing)
        with listing(landing):
            return self._folder(landing).days(loaded)

    def listing(
        self, landing: str, days: Collection[date], loaded: LoadedFiles = NOTHING_LOADED
    ) -> Mapping[date, DayFiles]:
        """The files of each of these landing days, as they are listed.

        An object store is asked once for all that is below the feed where the names of the days'
        folders are not known, or are many.
        """
        require_root(landing)
        found: dict[date, list[StoredFile]] = {day: [] for day in days}
        waits: dict[str, str] = {}
        may_wait = bool(self.signs or self.quiet_for)
        with listing(landing):
            for day, files, incomplete in self._folder(landing).deliveries(days, loaded):
                if day is None or day not in found:
                    continue
                found[day] += files
                for file in files if may_wait else filter(self._is_packed, files):
                    waits[file.path] = incomplete.get(file.path, "") or self._waits(file)
        for of_day in found.values():
            require_findable(f"{landing}/{self.feed}", (file.path for file in of_day))
        return {day: DayFiles(self.feed, files, waits) for day, files in found.items()}

    def _is_packed(self, file: StoredFile) -> bool:
        """Whether a file, packed in another way, is taken for text; as JSON lines bytes land."""
        if self.kind not in TEXT_FORMATS or is_archive(file.path):
            return False
        if is_tar(file.path):
            return True
        endings = FRAMED_BY_HADOOP if self.kind == "json" else UNKNOWN_COMPRESSED
        return file.path.lower().endswith(endings)

    def _waits(self, file: StoredFile) -> str:
        """Why a file is not to be read yet; "" where it is.

        One that Spark cannot unpack waits for somebody who does.
        """
        if self._is_packed(file):
            return f"Spark cannot unpack it; store it plain, or as {', '.join(COMPRESSED)}, .zip"
        return self._unquiet(file)

    def _unquiet(self, file: StoredFile) -> str:
        """Why a file may still be written; "" where it is not."""
        if not self.quiet_for:
            return ""
        now = time.time_ns()  # as the disk has it, whatever moment the load is for
        ago = (now - file.modified) / NANOSECONDS
        if ago < -_SKEW:
            return f"it was last modified in the future, {modified_at(file):%Y-%m-%d %H:%M} UTC"
        if ago < self.quiet_for.total_seconds():
            return f"it was modified less than {self.quiet_for} ago"
        return ""

    @property
    def listing_needs_loaded(self) -> bool:
        # What was loaded shows the days of its files, and which deliveries are complete.
        return self.places.is_by_arrival or bool(self.manifest)

    def passed_over(self, landing: str) -> list[str]:
        require_root(landing)
        with listing(landing):
            return self._folder(landing).passed_over()

    def day_of(self, path: str, loaded: LoadedFiles = NOTHING_LOADED) -> date | None:
        feed, _, below = path.partition("/")
        if feed != self.feed or any(is_hidden(name) for name in below.split("/")):
            return None
        return loaded.landing_days().get(path) or self.places.day_of(below)

    def reads_below(self, path: str) -> bool:
        return self.places.leads_to(path)

    @property
    def example(self) -> str:
        return f"{self.feed}/{self.places.example}"

    @property
    def where(self) -> str:
        if self.layout == DAY_FOLDERS:
            return "its files lie in a folder for each day, named as 2017-01-31"
        return f"its files are laid out as {self.layout}, such as {self.example}"

    @property
    def layout_can_move_files(self) -> bool:
        return self.layout != DAY_FOLDERS and not self.places.is_by_arrival

    def day_column(self, path: Column) -> Column | None:
        if self.places.is_by_arrival:
            return None
        return self.places.day_column(F.substr(path, F.lit(len(self.feed) + 2)))

    def notes(self, landing: str, files: Sequence[SourceFile]) -> list[str]:
        other = other_format(self.feed, self.kind, files)
        content = other_content(self.feed, self.kind, landing, files)
        return [note for note in (other, *content) if note]

    def remove_leftovers(self, lake: str, table: str) -> None:
        """Remove what killed batches have unpacked."""
        remove_leftovers(unpacked_of(lake, table))

    def rows(
        self, frames: Frames, landing: str, files: Sequence[SourceFile], folder: UnpackFolder
    ) -> DataFrame:
        """The rows of some of its files; archives are unpacked to `folder`."""
        archives = tuple(file for file in files if is_archive(file.path) and file.size)
        plain = tuple(file for file in files if not (is_archive(file.path) and file.size))
        parts = [self._rows(frames, DataFiles(landing, plain))] if plain or not archives else []
        if archives:
            opened = partial(unpacked, landing, archives, self.kind, folder)
            rows = self._rows(frames, frames.keep(("unpacked", folder, archives), opened))
            parts.append(rows.withColumn("_file", archive_of(F.col("_file"), archives)))
        return reduce(DataFrame.union, parts)

    def _rows(self, frames: Frames, data: DataFiles) -> DataFrame:
        some = tuple(file for file in data.files if file.size)
        if not some:
            return row_objects(no_rows(frames.session))
        if self.format == "json":  # whatever the bytes are, they land
            return line_objects(read_lines(frames.session, data))
        if isinstance(self.format, Xml):
            return read_xml(frames.session, DataFiles(data.root, some), self.format)
        csv = self.format if isinstance(self.format, Csv) else RFC_4180
        kind: FileFormat = "csv" if isinstance(self.format, Csv) else self.format
        where, days = f"{data.root}/{self.feed}", self.places.folders_of_days
        fixed = FixedFiles(where, kind, some, data.root, csv, days, has_text_folders=True)
        return fixed.objects(frames)

    @property
    def kind(self) -> FeedFormat:
        """The format, by its name."""
        if isinstance(self.format, Xml):
            return "xml"
        return "csv" if isinstance(self.format, Csv) else self.format

    @property
    def signs(self) -> Signs:
        """The files that show whether a folder is complete."""
        return Signs(self.marker, self.manifest)

    def _folder(self, landing: str) -> FeedFolder:
        return FeedFolder(landing, self.feed, self.places, self.signs, self._unquiet)


@cache
def layout_of(text: str) -> Layout:
    """The layout of a pattern; it is asked for again with each path. Raises DefinitionError."""
    return Layout(text)
