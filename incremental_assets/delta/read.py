"""Reading a version of a table.

The files of a version are read from the Delta log by delta-rs, without a JVM, and Spark reads just
those: planning a scan of a small table through Delta's own reader takes several Spark jobs
over its log. A table that uses a feature which changes what a file means (deletion vectors, column
mapping, …) goes through Delta's reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, StringType, StructField, StructType

from incremental_assets.delta.delta_log import partition_day
from incremental_assets.delta.stage import NO_PARTITION, Staged
from incremental_assets.delta.writable import (
    REMOVE_AND_REBUILD,
    has_column_mapping,
    may_have_deletion_vectors,
    without_column_mapping,
    without_deletion_vectors,
)
from incremental_assets.delta_protocol.log_files import PLAIN_FEATURES
from incremental_assets.delta_protocol.reader import delta_reader
from incremental_assets.errors import LakeError
from incremental_assets.frames import literal, quoted
from incremental_assets.storage import spark_folder, spark_path

_COLUMN_MAPPING, _DELETION_VECTORS = "columnMapping", "deletionVectors"
_REMEDIES = {
    _COLUMN_MAPPING: without_column_mapping,
    _DELETION_VECTORS: without_deletion_vectors,
}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
# Above this, listing the files by name takes longer than planning the scan.
MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a version: its partition, bytes, and its rows and their batches, if known.

    `without_batch` is how many of the rows have no batch: another program wrote them.
    """

    path: str
    partition: Mapping[str, Any]
    size: int = 0
    first_batch: int | None = None
    last_batch: int | None = None
    rows: int | None = None
    without_batch: int | None = None

    @property
    def may_be_of_others(self) -> bool:
        """Whether a row of the file may have no batch; so it may, if the log does not show it."""
        return self.without_batch != 0 or self.first_batch is None or self.last_batch is None

    def may_hold_batches(self, low: int, high: int) -> bool:
        """Whether a row of a batch above `low` and up to `high` may lie in the file."""
        above = self.last_batch is None or self.last_batch > low
        return above and (self.first_batch is None or self.first_batch <= high)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A version of a table whose files Spark can read as they are."""

    path: str
    files: tuple[DataFile, ...]
    schema: StructType
    partition_by: tuple[str, ...]


def every_file(_: DataFile) -> bool:
    """Keep all files."""
    return True


def no_file(_: DataFile) -> bool:
    """Keep no file."""
    return False


def read_version(
    session: SparkSession, path: str, version: int, keep: Callable[[DataFile], bool] = every_file
) -> DataFrame:
    """The rows of a version in the files that `keep` keeps, with the columns of the log's schema.

    `keep` only saves reading: the caller still filters the rows. Raises LakeError if the version is
    no longer in the log.
    """
    table, why_not = _table_files(path, version)
    if why_not or len(table.files) > MAX_FILES:
        return delta_reader(session).option("versionAsOf", version).load(spark_folder(path))
    return read_files(session, table, [file for file in table.files if keep(file)])


def data_files(path: str, version: int) -> tuple[DataFile, ...]:
    """The files of a version. Raises LakeError."""
    return _table_files(path, version)[0].files


def plain_files(path: str, version: int) -> TableFiles:
    """The files of a version, for rewriting some of them.

    Raises LakeError if a file's rows are not just those of its Parquet file.
    """
    table, why_not = _table_files(path, version)
    if not why_not and any(_is_in_another_folder(file) for file in table.files):
        why_not = "has files in another table's folder"
    if why_not:
        remedy = next((how(path) for f, how in _REMEDIES.items() if f in why_not), None)
        raise LakeError(
            f"{path} {why_not}, so its files cannot be rewritten. {remedy or REMOVE_AND_REBUILD}"
        )
    return table


def read_staged(session: SparkSession, staged: Staged, names: Sequence[str]) -> DataFrame:
    """The rows of files that are not published yet."""
    schema = StructType.fromJson({"type": "struct", "fields": list(staged.fields)})
    files = tuple(
        DataFile(f.path, {n: partition_day(v) for n, v in f.partition.items()})
        for f in staged.files
    )
    return read_files(session, TableFiles(staged.table_path, files, schema, tuple(names)), files)


def read_files(
    session: SparkSession,
    table: TableFiles,
    files: Sequence[DataFile],
    file_column: str | None = None,
) -> DataFrame:
    """The rows of some files of a table; `file_column` gets the URI of each row's file."""
    fields = table.schema.fields
    named = [StructField(file_column, StringType())] if file_column else []
    if not files:
        return no_rows(session, StructType([*fields, *named]))
    inside = StructType([field for field in fields if field.name not in table.partition_by])
    rows = session.read.schema(inside).parquet(*(spark_path(table.path, f.path) for f in files))
    partition = {
        field.name: _partition_column(field.name, field.dataType, files)
        for field in fields
        if field.name in table.partition_by
    }
    # SQL, not columns: each of those takes ten calls to the JVM.
    columns = [partition.get(f.name, quoted(f.name)) for f in fields]
    uri = [f"_metadata.file_path AS {quoted(file_column)}"] if file_column else []
    return rows.selectExpr(*columns, *uri) if partition or uri else rows


def no_rows(session: SparkSession, schema: StructType) -> DataFrame:
    """A frame of these columns without a row; `createDataFrame` would start a Python worker."""
    columns = (F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)
    return session.range(0).select(*columns)


def _partition_column(name: str, kind: DataType, files: Sequence[DataFile]) -> str:
    """SQL for the value of a partition column, which a file does not hold, from the file's path."""
    values = {file.partition[name] for file in files}
    # Bytes are compared here; a regular expression over each row's path was a tenth of a load.
    value = f"substring_index(_metadata.file_path, {literal(f'/{name}=')}, -1)"
    if len(values) == 1:
        only = values.pop()
        value = "NULL" if only is None else literal(str(only))
    elif isinstance(kind, DateType) and None not in values:
        value = f"substring({value}, 1, {len('2017-01-01')})"
    else:
        text = _decoded(_decoded(f"substring_index({value}, '/', 1)"))
        value = f"nullif({text}, {literal(NO_PARTITION)})"
    return f"CAST({value} AS {kind.simpleString()}) AS {quoted(name)}"


def _decoded(text: str) -> str:
    """Percent-encoded text, decoded; a plus is a plus in a path."""
    return f"url_decode(replace({text}, '+', '%2B'))"


def _files(table: DeltaTable, names: Sequence[str]) -> list[DataFile]:
    active = pa.table(table.get_add_actions(flatten=True))
    columns = {name: active[name].to_pylist() for name in active.column_names}
    nothing: list[Any] = [None] * active.num_rows
    lows, highs = (columns.get(f"{end}._batch", nothing) for end in ("min", "max"))
    rows, nulls = (columns.get(name, nothing) for name in ("num_records", "null_count._batch"))
    of_each = zip(columns["path"], columns["size_bytes"], lows, highs, rows, nulls, strict=True)
    return [
        DataFile(unquote(path), {n: columns[f"partition.{n}"][at] for n in names}, *rest)
        for at, (path, *rest) in enumerate(of_each)
    ]


def _table_files(path: str, version: int) -> tuple[TableFiles, str]:
    """The files of a version, and why Spark cannot read them as they are; "" if it can."""
    try:
        table = DeltaTable(path, version=version)
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be read at version {version}: {error}") from error
    names = tuple(table.metadata().partition_columns)
    files = tuple(_files(table, names))
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    used = _features(table)
    if used:
        why_not = f"uses {', '.join(sorted(used))}"
    elif not all(_path_has_partition(file, names) for file in files):
        why_not = "has files whose path does not name their partition"
    else:
        why_not = ""
    return TableFiles(path, files, schema, names), why_not


def _features(table: DeltaTable) -> set[str]:
    """The features that change what a file of the table means, as far as they are in use."""
    used = set(table.protocol().reader_features or ()) - PLAIN_FEATURES
    used -= {_COLUMN_MAPPING, _DELETION_VECTORS}
    if has_column_mapping(table):
        used.add(_COLUMN_MAPPING)
    try:
        if may_have_deletion_vectors(table):
            used.add(_DELETION_VECTORS)
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"{table.table_uri}: its deletion vectors cannot be read: {error}"
        ) from error
    return used


def _path_has_partition(file: DataFile, names: Sequence[str]) -> bool:
    folders = [unquote(folder) for folder in file.path.split("/")[:-1]]
    return all(
        _PLAIN_NAME.fullmatch(name) and _has_folder(name, file.partition[name], folders)
        for name in names
    )


def _is_in_another_folder(file: DataFile) -> bool:
    """Whether the log names the file by its URI, as a shallow clone does."""
    return "://" in file.path


def _has_folder(name: str, value: Any, folders: Sequence[str]) -> bool:
    if isinstance(value, datetime):  # written in more than one way
        return any(folder.startswith(f"{name}=") for folder in folders)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name}={NO_PARTITION if value is None else text}" in folders
