"""A stored source: a table at a path, as Delta, Parquet, JSON lines or CSV with a header."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from incremental_assets.choices import require_choice
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.locations import local_path, location
from incremental_assets.sources.csv_format import RFC_4180, Csv
from incremental_assets.sources.csv_rows import csv_rows, csv_texts
from incremental_assets.sources.file_checks import require_as_fixed
from incremental_assets.sources.file_fingerprints import FileSpan, parquet_spans
from incremental_assets.sources.json_columns import json_rows
from incremental_assets.sources.json_documents import read_documents
from incremental_assets.sources.lines import LineReader, read_lines
from incremental_assets.sources.parquet_rows import parquet_part, parquet_rows
from incremental_assets.sources.path_columns import by_folders
from incremental_assets.sources.payloads import (
    line_objects,
    line_payloads,
    row_objects,
    row_payloads,
)
from incremental_assets.sources.rows import Reading, no_rows, spelled
from incremental_assets.sources.source import NO_TYPES, FixedSource, Source
from incremental_assets.sources.source_file import SourceFile, require_findable, with_content_tag
from incremental_assets.sources.stored_delta import FixedDelta
from incremental_assets.sources.stored_files import (
    FORMATS,
    DataFiles,
    Format,
    of_format,
    path_contents,
)
from incremental_assets.sources.typed_rows import avro_parts, avro_rows, by_schema, orc_rows

_TYPED: Mapping[str | None, Callable[[SparkSession, Reading], DataFrame]] = {
    "parquet": parquet_rows,
    "orc": orc_rows,
    "avro": avro_rows,
}
JSON_READERS: Mapping[str | None, LineReader] = {
    "json": read_lines,
    "json_document": read_documents,
}
_BELOW = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]*(/[A-Za-z0-9][A-Za-z0-9_.=-]*)*")


@dataclass(frozen=True, slots=True)
class Stored(Source):
    """A table at a path, a file or a folder: Delta, Parquet, ORC, Avro, JSON, CSV with a header.

    `path` is below the landing root, or absolute, or the URI of an object store. Without a
    `format` it is found out: a Delta table by its log, files by their names; "json" is an object a
    line, "json_document" an array of rows in each file, `Csv(…)` a CSV of other signs. Names that
    begin with `.` or `_` are not data. `day` is the column whose UTC date is a row's landing day;
    for `Timestamp` it is the timestamp. Without one, rows land on the day of the load.
    """

    path: str
    format: Format | Csv | None = None
    day: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None and not isinstance(self.format, Csv):
            require_choice(f"The format of {self.path}", self.format, FORMATS, ("Csv(…)",))
        if not self.is_landed:
            object.__setattr__(self, "path", location("Stored path", self.path))
        elif not _BELOW.fullmatch(self.path):
            raise DefinitionError(
                f"Stored path {self.path!r}: use letters, digits, '_', '-', '.', '=' and single "
                "slashes for a path below the landing root, or give an absolute path or a URI."
            )

    @property
    def is_landed(self) -> bool:
        local = local_path(self.path)
        return local is not None and not local.is_absolute()

    def below(self, landing: str) -> Source:
        return replace(self, path=f"{landing}/{self.path}") if self.is_landed else self

    def fix(self) -> FixedSource:
        return fixed_at(self.path, self.format)


def fixed_at(path: str, wanted: Format | Csv | None = None) -> FixedDelta | FixedFiles:
    """The source at a path as it is now, found without Spark.

    An empty folder is a source without rows. Raises NothingThereError if there is nothing at the
    path, and SourceError if it cannot be listed, if a Delta log cannot be read, or if the format is
    unknown.
    """
    csv = wanted if isinstance(wanted, Csv) else RFC_4180
    of = "csv" if isinstance(wanted, Csv) else wanted
    kind, data = of_format(path, path_contents(path), of)
    if kind == "delta":
        return FixedDelta.newest(path, data.root)
    require_findable(data.root, [file.path for file in data.files])
    return FixedFiles(path, kind, data.files, data.root, csv)


@dataclass(frozen=True, slots=True)
class FixedFiles(FixedSource):
    """The files of a stored source, relative to `root`.

    `format` is None where there are no files to infer it from, and none was given.
    """

    path: str
    format: Format | None
    files: tuple[SourceFile, ...] = ()
    root: str = ""
    csv: Csv = RFC_4180
    not_columns: frozenset[str] = frozenset()
    has_text_folders: bool = False
    as_written: frozenset[str] = frozenset()

    @property
    def is_of_one_moment(self) -> bool:
        return True

    @property
    def is_typed(self) -> bool:
        return self.format in _TYPED

    def with_as_written(self, names: Collection[str]) -> FixedFiles:
        return replace(self, as_written=frozenset(names))

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        """As `FixedSource.rows`.

        JSON, CSV and columns named by folders are read as the `known` types, and every column is
        spelled as there, whatever case the source writes it in.
        """
        reading = self._reading(known, only)
        if not reading.data.files:
            return no_rows(frames.session)
        if self.format in _TYPED:
            return spelled(_TYPED[self.format](frames.session, reading), known)
        if self.format in JSON_READERS:
            return spelled(json_rows(frames, reading, JSON_READERS[self.format]), known)
        return spelled(csv_rows(frames, reading), known)

    def payloads(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """JSON as it is, rows of other formats as objects (of CSV with texts)."""
        reading = self._reading(NO_TYPES, only)
        if not reading.data.files:
            return row_payloads(no_rows(frames.session))
        if self.format in JSON_READERS:
            return line_payloads(JSON_READERS[self.format](frames.session, reading.data))
        parts = [row_payloads(part) for part in self._parts(frames, reading)]
        return reduce(DataFrame.union, parts or [row_payloads(no_rows(frames.session))])

    def objects(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """As `FixedSource.objects`; a row has the columns of its own file, whatever others have."""
        reading = self._reading(NO_TYPES, only)
        if not reading.data.files:
            return row_objects(no_rows(frames.session))
        if self.format in JSON_READERS:
            lines = JSON_READERS[self.format](frames.session, reading.data)
            return line_objects(lines)
        parts = [row_objects(part) for part in self._parts(frames, reading)]
        return reduce(DataFrame.union, parts or [row_objects(no_rows(frames.session))])

    def _parts(self, frames: Frames, reading: Reading) -> list[DataFrame]:
        """The rows of columns, in as many frames as there are kinds of files."""
        return [
            rows for some in by_folders(reading) for rows in self._of_same_folders(frames, some)
        ]

    def _of_same_folders(self, frames: Frames, reading: Reading) -> list[DataFrame]:
        if self.format == "csv":
            return csv_texts(frames.session, reading)
        if self.format == "avro":
            return avro_parts(frames.session, reading)
        read = parquet_part if self.format == "parquet" else _TYPED[self.format]
        return [read(frames.session, some) for some in by_schema(reading, self.format)]

    def scan(self) -> pl.LazyFrame | None:
        local = local_path(self.root)
        if local is None or self.format != "parquet" or not self.files:
            return None
        paths = [str(local / file.path) for file in self.files]
        return pl.scan_parquet(paths, glob=False, hive_partitioning=True)

    def day_spans(self, column: str) -> Sequence[FileSpan] | None:
        local = local_path(self.root)
        if local is None or self.format != "parquet":
            return None
        return parquet_spans(local, self.files, column)

    def missing_or_changed(self) -> Sequence[SourceFile]:
        return DataFiles(self.root, self.files).missing_or_changed()

    def tagged(self, file: SourceFile) -> SourceFile:
        """The file with the store's tag, or on a local disk with a digest of its content.

        Raises SourceError if the file is missing or cannot be read.
        """
        return with_content_tag(self.root, file)

    def _reading(self, known: Mapping[str, DataType], only: Collection[str] | None) -> Reading:
        data = DataFiles(self.root, self.files).only(only)
        if self.format is not None and self.format != "delta":
            require_as_fixed(data, self.format, self.csv)
        paths = tuple(file.path for file in self.files)
        own = self.csv, self.not_columns, self.has_text_folders
        return Reading(self.path, data, paths, known, *own, as_written=self.as_written)
