"""What a source is: fixed, so that its state has a fingerprint, and read just as it was fixed.

A custom source is one file with two classes: a `Source`, which is where the rows come from,
and a `FixedSource`, which lists and reads what was there when it was fixed.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Protocol

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.bronze_input import BronzeInput
from incremental_assets.sources.payloads import row_objects, row_payloads
from incremental_assets.sources.source_file import SourceFile

NO_TYPES: Mapping[str, DataType] = MappingProxyType({})
Version = Any
"""How far a source of versions goes, as JSON has it: a number, or what only the source reads."""


class DaySpan(Protocol):
    """A file, by a number of its own, and the first and last day that it may hold rows of.

    Without a `first` or `last` it may hold rows of any day; `dayless` are its rows without a day,
    as far as is known: "none", "some" or "all".
    """

    @property
    def digest(self) -> int: ...
    @property
    def first(self) -> date | None: ...
    @property
    def last(self) -> date | None: ...
    @property
    def dayless(self) -> str: ...


class Added(Protocol):
    """The rows that some versions of a source have added; `notes` are for the run that loads it."""

    @property
    def notes(self) -> tuple[str, ...]: ...
    def rows(self, frames: Frames, known: Mapping[str, DataType] = NO_TYPES) -> DataFrame:
        """As `FixedSource.rows`."""

    def objects(self, frames: Frames) -> DataFrame:
        """As `FixedSource.objects`."""

    def payloads(self, frames: Frames) -> DataFrame:
        """As `FixedSource.payloads`."""


class DayPart(Protocol):
    """What a source has of a day that was not read yet: `rows`, and text that changes with them."""

    @property
    def rows(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Past:
    """What a table has read of a source of versions, for one that knows the days of its rows.

    `state` is what the last batch left for it (empty: the source is to be inspected from its
    beginning), `versions` gives the version up to which each day was read. Days are loaded from
    `first` to `today`; with `loaded`, the table may have rows of the source.
    """

    state: Mapping[str, Any]
    versions: Callable[[], Mapping[date, Version]]
    first: date
    today: date
    loaded: bool = True


class FixedSource(ABC):
    """A source as one load reads it: what it held when it was fixed, whatever happens since.

    `path` names it, in messages and in the ledger. A source of versions has a `version`; any other
    has `files`: whatever is read whole (a file, a page, a table), each with its size and what shows
    a change of it. A change log reads those of them that are new. The text of
    `json_columns` is JSON, and in a payload the value that it is. `notes` are for the run that
    loads it. `needs` names the sets of jars, beyond the usual ones, that Spark reads it by.

    `days` is of a source that knows the day of each of its rows: what each day has that was not
    read yet (None: the rows are to be asked). With `may_repeat` there may be rows among it that
    were read before, which are then known by their hashes.
    """

    path: str
    files: tuple[SourceFile, ...]
    version: Version | None = None
    json_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    days: Mapping[date, DayPart] | None = None
    may_repeat: bool = True

    @property
    def is_of_one_moment(self) -> bool:
        """Whether two reads of one load have the same rows, whatever comes in between."""
        return self.version is not None

    @property
    def is_typed(self) -> bool:
        """Whether its columns have types of their own, by which a reader may skip rows."""
        return True

    @property
    def fingerprint(self) -> str:
        """Text that changes with the source. As long as it is as it was, nothing is read.

        The version, or a digest of the files. Of a file in a store that has neither a tag nor a
        time it is by the content.
        """
        if self.version is not None:
            return f"version {self.version}"
        listed = [(f.path, f.size, f.tag or f.modified or self.tagged(f).tag) for f in self.files]
        digest = hashlib.blake2b(json.dumps(listed).encode(), digest_size=16).hexdigest()
        return f"files {digest}"

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing to read; a snapshot that is missing deletes no row."""
        return self.version is None and not self.files

    def with_as_written(self, names: Collection[str]) -> FixedSource:
        """The source for a target whose rows these columns identify.

        Text without a type is not read as a double there, where `1.1` and `1.10` would be one.
        """
        return self

    @abstractmethod
    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        """The source's own columns, typed, with `_file`, `_raw` and `_unreadable`.

        `_file` is the path of the row's file (null where there is none), `_raw` the text of a line
        that cannot be taken apart (its columns are null), `_unreadable` the names of the columns
        whose value does not fit the column's type (and is null); `all_readable` adds them to rows
        that cannot be broken. `known` are the types that the target's columns have: what has no
        types of its own is read as those. `only` restricts to some files.

        Raises SourceError if files vanished or are not what they should be, and ValueError if
        `only` names files that are not there. Errors of Spark pass.
        """

    def objects(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """Each line or row as a `VARIANT` `payload`, with `_raw` and `_file`: as it was written."""
        return row_objects(self.rows(frames, only=only), self.json_columns)

    def payloads(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """As `objects`, with `_key`; of a message, `payload` is what its `value` holds.

        A message is a row with a text or binary column `value`, as a topic is dumped.
        """
        return row_payloads(self.rows(frames, only=only))

    @property
    def height(self) -> int:
        """The version as a number that grows with it; 0 without one."""
        return int(self.version or 0)

    def version_text(self, version: Version) -> str:
        """A version of the source in words."""
        return f"version {version}"

    def version_after(self, read: Version | None, most: int) -> Version:
        """The version that a load of about so many rows reads up to, after the one that was `read`.

        By default the next one, whatever it holds; the first load reads all there is.
        """
        return self.version if read is None or self.version <= read + 1 else read + 1

    def added_since(self, low: Version | None, high: Version) -> Added | None:
        """What versions above `low`, up to `high`, have added.

        None where only the source as a whole has one. Raises SourceError where some of it is gone.
        """
        return None

    def since(self, past: Past) -> FixedSource:
        """The source with the `days` of what was not read yet, where it knows these.

        Raises SourceError where some of that is gone.
        """
        return self

    def on(self, days: Collection[date]) -> Added:
        """What these `days` have that was not read yet."""
        return self

    def state_after(self, published: Collection[date]) -> Mapping[str, Any]:
        """The `Past.state` of the next inspection, once these `days` are published."""
        return {}

    def require_read(self, rows: Mapping[date, int]) -> None:  # noqa: B027 - most know no number
        """Raise SourceError where a load has read other numbers of rows than `days` gives."""

    @property
    def has_all_it_had(self) -> bool:
        """Whether it holds every row that its versions have ever added."""
        return True

    def is_same_table(self, fingerprint: str) -> bool:
        """Whether an earlier fingerprint is of this table, and not of one that it replaced."""
        return True

    def scan(self) -> pl.LazyFrame | None:
        """The rows for polars, so that planning finds changed days without Spark; None: it cannot.

        Raises a PolarsError, DeltaError or OSError where they cannot be read.
        """
        return None

    def day_spans(self, column: str) -> Sequence[DaySpan] | None:
        """Which days in a column each file may hold, without reading a row; None where unknown.

        Raises a DeltaError, ArrowException or OSError where that cannot be read.
        """
        return None

    def rows_by_day(
        self, column: str, days: Collection[date], last: date
    ) -> Mapping[date, str] | None:
        """For each of these days that has rows: how many, ":", and text that changes with them.

        Rows without a day and of days after `last` count to `last`. None where the rows of `scan`
        are to be counted. Raises SourceError.
        """
        return None

    def highest(self, column: str) -> datetime | int | None:
        """The highest value of a column, where the source knows it without reading rows."""
        return None

    def explained(self, error: Exception) -> SourceError | None:
        """Why a read failed, where the error of Spark shows that; None where it does not."""
        return None

    def size(self) -> int:
        """Bytes that a load would read."""
        return sum(file.size for file in self.files)

    def missing_or_changed(self) -> Sequence[SourceFile]:
        """Which files are missing or changed since they were fixed, where a read failed."""
        return ()

    def tagged(self, file: SourceFile) -> SourceFile:
        """The file with a tag that changes with its content. Raises SourceError.

        By default that is its time, where it has no tag.
        """
        return file if file.tag else replace(file, tag=file.modified)


class Source(BronzeInput):
    """Where rows come from. `path` names it, in messages and in the ledger.

    Hashable, so that a plan fixes it once. `day` is the column whose UTC date is a row's landing
    day in a bronze table; for `Timestamp` it is the timestamp. Without one, rows land on the day of
    the load.
    """

    path: str

    @property
    def has_offsets(self) -> bool:
        """Whether each of its rows has a position of its own, so that equal rows are several."""
        return False

    @property
    def can_be_log(self) -> bool:
        """Whether it has files or versions, of which a change log reads each once."""
        return True

    @property
    def is_landed(self) -> bool:
        """Whether it is below the landing root, where a feed may be that has not begun."""
        return False

    def below(self, landing: str) -> Source:
        """The source, for this landing root."""
        return self

    def path_in(self, landing: str) -> str:
        return self.below(landing).path

    def read_by(self, cursor: str | None) -> Source:
        """The source, for a detector that reads what is new by the column `cursor`, or by none.

        Raises DefinitionError where it cannot be read so.
        """
        return self

    def with_fixed_partitions(self) -> Source:
        """The source, for a detector that needs the order within its partitions to stay."""
        return self

    @abstractmethod
    def fix(self) -> FixedSource:
        """The source as a load reads it now, found without Spark, also where it has no rows.

        Raises NothingThereError if there is nothing, and SourceError if it cannot be listed.
        """
