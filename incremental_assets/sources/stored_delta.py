"""Reading a Delta table that is a source: a version of it, or just some of its files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from incremental_assets.delta_protocol.reader import delta_reader
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, quoted, with_is_among
from incremental_assets.locations import local_path
from incremental_assets.sources.delta_commits import (
    DeltaFile,
    DeltaShape,
    can_be_read_alone,
    commit_digest,
    delta_files_since,
    newest_commit,
    shape_of,
    table_root,
    version_size,
)
from incremental_assets.sources.file_fingerprints import FileSpan, delta_spans
from incremental_assets.sources.path_columns import folder_text, relative_path
from incremental_assets.sources.payloads import row_objects, row_payloads
from incremental_assets.sources.rows import all_readable, require_names, spelled
from incremental_assets.sources.source import NO_TYPES, FixedSource
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import DataFiles, named
from incremental_assets.storage import spark_folder

_CHOSEN = "_is_chosen"


@dataclass(frozen=True, slots=True)
class FixedDelta(FixedSource):
    """A version of a Delta table.

    `commit` is a digest of the version's commit: a table that was dropped and made again counts
    from 0, too.
    """

    path: str
    version: int
    root: str = ""
    commit: str = ""
    files = ()

    @classmethod
    def newest(cls, path: str, root: str) -> FixedDelta:
        """The newest version of a table. Raises SourceError if its log cannot be read."""
        version, commit = newest_commit(root)
        return cls(path, version, root, commit)

    @property
    def fingerprint(self) -> str:
        """The version, and the digest of its commit."""
        return f"version {self.version} {self.commit}".strip()

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        if only is not None:
            raise ValueError(f"{self.path} is a Delta table; `only` is for files")
        return spelled(delta_version(frames.session, self.root, self.version), known)

    def added_since(self, low: int | None, high: int) -> DeltaAdded | None:
        if low is None:
            return None
        found = delta_files_since(self.root, low, high)
        return DeltaAdded(self.root, high, found.files) if found.complete else None

    def is_same_table(self, fingerprint: str) -> bool:
        """Whether the log's commit of the version that it names is still that commit.

        True as well where the fingerprint or the log does not have that commit.
        """
        kind, version, commit = [*fingerprint.split(" "), "", ""][:3]
        if fingerprint and not (kind == "version" and version.isdecimal()):
            return False
        now = commit_digest(self.root, int(version)) if commit else ""
        return not now or now == commit

    @property
    def has_all_it_had(self) -> bool:
        found = delta_files_since(self.root, -1, self.version)
        return found.complete and not found.removed

    def scan(self) -> pl.LazyFrame | None:
        local = local_path(self.root)
        return None if local is None else pl.scan_delta(str(local), version=self.version)

    def day_spans(self, column: str) -> Sequence[FileSpan] | None:
        return delta_spans(self.root, self.version, column)

    def size(self) -> int:
        """Bytes of the files that the version holds."""
        return version_size(self.root, self.version)


@dataclass(frozen=True, slots=True)
class DeltaAdded:
    """The files that commits up to a version added."""

    root: str
    version: int
    files: tuple[DeltaFile, ...]
    notes: tuple[str, ...] = ()

    def rows(self, frames: Frames, known: Mapping[str, DataType] = NO_TYPES) -> DataFrame:
        """The rows of the files, as `delta_rows` reads them."""
        return spelled(delta_rows(frames.session, self.root, self.version, self.files), known)

    def objects(self, frames: Frames) -> DataFrame:
        return row_objects(self.rows(frames))

    def payloads(self, frames: Frames) -> DataFrame:
        return row_payloads(self.rows(frames))


def delta_version(session: SparkSession, path: str, version: int) -> DataFrame:
    """The rows of a version, with the facts of rows from a typed source.

    Raises SourceError if a table cannot have the columns.
    """
    table = _table(session, table_root(path), version)
    require_names(table.columns, path)
    return all_readable(table)


def delta_rows(
    session: SparkSession, path: str, version: int, files: Sequence[DeltaFile]
) -> DataFrame:
    """The rows of some files of a table, with the columns and facts of `delta_version`.

    The files are read as they are: planning a scan through Delta's reader takes several Spark
    jobs over the log. A table that uses what changes the meaning of a file (deletion vectors,
    column mapping, …) goes through Delta's reader. Raises SourceError if that cannot give a file
    any more, and if a table cannot have the columns.
    """
    root, chosen = table_root(path), tuple(files)
    shape = shape_of(path, version)
    if shape is not None and (not chosen or can_be_read_alone(shape, chosen)):
        require_names(shape.columns.names, path)
        return all_readable(_alone(session, root, shape, chosen))
    rewritten = [file.path for file in chosen if file.rewritten]
    if rewritten:
        raise SourceError(
            f"{path}: the rows of {named(rewritten)} are in other files by version {version}. "
            "Read the whole table."
        )
    table = _table(session, root, version)
    require_names(table.columns, path)
    path_of = relative_path(table, _data(root, chosen))
    chosen_or_not = with_is_among(table, _CHOSEN, path_of, [file.path for file in chosen])
    return all_readable(chosen_or_not.where(_CHOSEN).drop(_CHOSEN))


def _table(session: SparkSession, root: str, version: int) -> DataFrame:
    return delta_reader(session).option("versionAsOf", version).load(spark_folder(root))


def _alone(
    session: SparkSession, root: str, shape: DeltaShape, files: tuple[DeltaFile, ...]
) -> DataFrame:
    fields = shape.columns.fields
    if not files:
        nothing = (F.lit(None).cast(field.dataType).alias(field.name) for field in fields)
        return session.range(0).select(*nothing)
    inside = StructType([field for field in fields if field.name not in shape.partition_by])
    data = _data(root, files)
    rows = session.read.schema(inside).parquet(*data.spark_paths())
    if not shape.partition_by:
        return rows
    # The file's path is a column of its own first: each partition column is taken from it.
    with_path = rows.select("*", relative_path(rows, data).alias("_file"))
    paths = [file.path for file in files]
    return with_path.select(
        *(
            folder_text(paths, field.name).cast(field.dataType).alias(field.name)
            if field.name in shape.partition_by
            else F.col(quoted(field.name))
            for field in fields
        )
    )


def _data(root: str, files: Sequence[DeltaFile]) -> DataFiles:
    return DataFiles(root, tuple(SourceFile(file.path, file.size) for file in files))
