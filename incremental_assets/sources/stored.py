"""A stored source: a table at a path, as Delta, Parquet, JSON lines or CSV with a header.

`StoredSource` says where it lies; `fix` pins what a load reads of it before anything is read (the
Delta version, or the list of files), and `FixedSource` reads exactly that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.frames import Frames
from incremental_assets.sources.csv_rows import csv_rows, csv_texts
from incremental_assets.sources.delta_news import commit_digest, newest_commit, version_size
from incremental_assets.sources.file_checks import require_as_fixed
from incremental_assets.sources.json_columns import json_rows
from incremental_assets.sources.parquet_rows import parquet_rows
from incremental_assets.sources.payloads import line_payloads, row_objects, row_payloads
from incremental_assets.sources.rows import Reading, no_rows, spelled
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.sources.stored_delta import delta_version
from incremental_assets.sources.stored_files import (
    DataFiles,
    Format,
    look,
    of_format,
)

__all__ = ["FixedSource", "Format", "SourceFile", "StoredSource"]

_NOTHING_KNOWN: Mapping[str, DataType] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A file or folder that holds a table: a local path, a file URI or an object store's URI.

    Without a format, it is found out: a Delta table by its log, files by their names. Names that
    begin with `.` or `_` are not data.
    """

    path: str
    format: Format | None = None

    def fix(self) -> FixedSource:
        """What a load reads now, without Spark. An empty folder is a source without rows.

        Raises SourceError if there is nothing at the path, if it cannot be listed, if a Delta log
        cannot be read, or if the format cannot be told.
        """
        found = look(self.path)
        kind, data = of_format(self.path, found, self.format)
        if kind != "delta":
            return FixedSource(self.path, kind, None, data.files, data.root)
        version, commit = newest_commit(data.root)
        return FixedSource(self.path, kind, version, data.files, data.root, commit)


@dataclass(frozen=True, slots=True)
class FixedSource:
    """What a load reads: a version of a Delta table, or these files, relative to `root`.

    `format` is None where there are no files to tell it by, and nobody said it. `commit` is a
    digest of the version's commit: a table that was dropped and made again counts from 0, too.
    """

    path: str
    format: Format | None
    version: int | None = None
    files: tuple[SourceFile, ...] = ()
    root: str = ""
    commit: str = ""

    @property
    def mark(self) -> str:
        """What tells that the source is as it was: its version, or a digest of its file list.

        Of a file in a store that tells neither a tag nor a time only the content tells that.
        """
        if self.version is not None:
            return f"version {self.version} {self.commit}".strip()
        listed = [(f.path, f.size, f.tag or f.modified or self.tagged(f).tag) for f in self.files]
        digest = hashlib.blake2b(json.dumps(listed).encode(), digest_size=16).hexdigest()
        return f"files {digest}"

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = _NOTHING_KNOWN,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        """The source's own columns, typed, with `_file`, `_raw` and `_unreadable`.

        `_file` is the path of the row's file (null for Delta), `_raw` the text of a line that
        cannot be taken apart (its columns are null), `_unreadable` the names of the columns whose
        value does not fit the column's type (and is null). `known` are the types that the
        target's columns have: JSON, CSV and columns named by folders are read as those, and every
        column is spelled as there, whatever case the source writes it in. `only` restricts to
        some files.

        Raises SourceError if files vanished or are not what they should be, and ValueError if
        `only` names files that are not there, or the source is Delta. Errors of Spark pass.
        """
        reading = self._reading(known, only)
        if self.version is not None:
            return spelled(delta_version(frames.session, self.root, self.version), known)
        if not reading.data.files:
            return no_rows(frames.session)
        if self.format == "parquet":
            return spelled(parquet_rows(frames.session, reading), known)
        read = csv_rows if self.format == "csv" else json_rows
        return spelled(read(frames, reading), known)

    def payloads(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """Each line or row as a `VARIANT` `payload`, with `_key`, `_raw` and `_file`.

        JSON lines as they are, rows of other formats as objects (of CSV with texts), and messages
        (rows with a text or binary column `value`) as the JSON in `value`, with that in `key` as
        `_key`. What is not JSON is in `_raw`. Raises as `rows` does.
        """
        if self.format == "json":
            reading = self._reading(_NOTHING_KNOWN, only)
            if not reading.data.files:
                return row_payloads(no_rows(frames.session))
            return line_payloads(frames.session, reading.data)
        if self.format == "csv":
            reading = self._reading(_NOTHING_KNOWN, only)
            return row_payloads(csv_texts(frames.session, reading))
        return row_payloads(self.rows(frames, only=only))

    def objects(self, frames: Frames, only: Collection[str] | None = None) -> DataFrame:
        """Each line or row as a `VARIANT` `payload`, with `_raw` and `_file`: as it was written.

        As `payloads`, but no row is taken for a message.
        """
        reading = self._reading(_NOTHING_KNOWN, only)
        if self.format == "json" and reading.data.files:
            return line_payloads(frames.session, reading.data).drop("_key")
        if self.format == "csv" and reading.data.files:
            return row_objects(csv_texts(frames.session, reading))
        return row_objects(self.rows(frames, only=only))

    def size(self) -> int:
        """Bytes of the files; of a Delta table, of those that the version holds."""
        if self.version is None:
            return sum(file.size for file in self.files)
        return version_size(self.root, self.version)

    def has_commit(self, mark: str) -> bool:
        """Whether the log's commit of the version that a mark names is still that commit.

        True as well where the mark or the log does not say which commit it was.
        """
        _, version, commit = [*mark.split(" "), "", ""][:3]
        now = commit_digest(self.root, int(version)) if commit else ""
        return not now or now == commit

    def gone(self) -> list[SourceFile]:
        """Which files vanished or changed since they were fixed, to tell why a read failed."""
        return DataFiles(self.root, self.files).gone()

    def tagged(self, file: SourceFile) -> SourceFile:
        """The file with a tag: the store's, or on a local disk a digest of its content.

        Raises SourceError if the file is gone or cannot be read.
        """
        return with_content_tag(self.root, file)

    def _reading(self, known: Mapping[str, DataType], only: Collection[str] | None) -> Reading:
        if only is not None and self.format == "delta":
            raise ValueError(f"{self.path} is a Delta table; `only` is for files")
        data = DataFiles(self.root, self.files).only(only)
        if self.format in ("parquet", "json", "csv"):
            require_as_fixed(data, self.format)
        return Reading(self.path, data, tuple(file.path for file in self.files), known)
