"""Parquet files as a table: the columns of all files, with the types that the files have."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    NullType,
    StructField,
    StructType,
)

from incremental_assets.errors import SourceError
from incremental_assets.frames import quoted, with_columns
from incremental_assets.locations import local_path
from incremental_assets.sources.path_columns import folder_columns, relative_path
from incremental_assets.sources.rows import (
    OwnColumn,
    Reading,
    no_rows,
    require_names,
    with_facts,
)
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.sources.typed_rows import in_one_table
from incremental_assets.storage import open_file

# Spark's message for timestamps in nanoseconds, which is what pandas writes, and the one setting
# with which it sees them at all: as numbers.
_NANOSECONDS = "TIMESTAMP(NANOS"
_AS_NUMBERS = "spark.sql.legacy.parquet.nanosAsLong"
# With it, Spark sees that a column has no type, as pandas and polars write one that is null in each
# row of a file; by default it takes it for an int. It merges such a column with no other.
_AS_UNTYPED = "spark.sql.parquet.reader.respectUnknownTypeAnnotation.enabled"
_CONTRADICTION = "CANNOT_MERGE"
_AT_ONCE = 8
# Its messages for types that it lacks, and in which other type to write those.
_NO_TYPES = ("UNSUPPORTED_TIME_TYPE", "PARQUET_TYPE_ILLEGAL", "DECIMAL_PRECISION_EXCEEDS")
_REMEDIES = {
    "Time": "a text, or a whole number",
    "UUID": "a text",
    "Float16": "a number of 32 bits",
    "Decimal": "a text, or with 38 digits at most",
}
_MOST_DIGITS = 38


def parquet_rows(session: SparkSession, reading: Reading) -> DataFrame:
    """The rows of the files; a column that a file lacks is null there.

    Timestamps in nanoseconds are cut to microseconds. A column without a type is null in each row
    of its file: it has the type of the other files, or else of the target, or is left out. Without
    a row in any file, such columns are none. Raises SourceError if a table cannot have the columns;
    files that contradict each other are that, or an error of Spark.
    """
    try:
        rows, untyped = _merged(session, reading)
    except (PySparkException, Py4JError) as error:
        if _CONTRADICTION not in str(error):
            raise
        by_untyped = _by_untyped(reading.data)
        if len(by_untyped) > 1:
            parts = (replace(reading, data=reading.data.only(some)) for some in by_untyped.values())
            rows = in_one_table([_merged(session, part)[0] for part in parts], reading.source)
        else:  # inside of a column, as in empty arrays, what has no type is an int to Spark
            shape = _shape_with_numbers(session, reading)
            rows = _by_shape(session, shape.fields, reading)
        untyped = sorted(set().union(*by_untyped))
    if untyped and not _have_rows(reading.data):
        return no_rows(session)
    there = {name.lower() for name in rows.columns}
    known = {n: reading.known_type(n) for n in untyped if n.lower() not in there}
    nulls = {n: F.lit(None).cast(kind) for n, kind in known.items() if kind is not None}
    return with_columns(rows, nulls)


def parquet_part(session: SparkSession, reading: Reading) -> DataFrame:
    """The rows of files that have the same columns, for payloads: null is null there in any type.

    Raises as `parquet_rows` does.
    """
    rows = _without_nanoseconds(session, reading)
    if rows is not None:
        return _as_source(rows, rows.schema.fields, {}, reading)
    return _by_shape(session, _shape_with_numbers(session, reading).fields, reading)


def _merged(session: SparkSession, reading: Reading) -> tuple[DataFrame, Sequence[str]]:
    """The rows, and the columns that are left out because no file has a type for them."""
    with _setting(session, _AS_UNTYPED):
        rows = _without_nanoseconds(session, reading)
        shape = _shape_with_numbers(session, reading) if rows is None else rows.schema
    untyped = [field.name for field in shape.fields if field.dataType == NullType()]
    fields = [field for field in shape.fields if field.name not in untyped]
    if any(_is_untyped(field.dataType) for field in fields):
        # Inside of a column, such as the items of empty arrays, there has to be some type.
        some = {field.name: field for field in _shape_with_numbers(session, reading).fields}
        rows, fields = None, [some[field.name] for field in fields]
    if rows is None:
        return _by_shape(session, fields, reading), untyped
    return _as_source(rows, fields, {}, reading), untyped


def _is_untyped(kind: DataType) -> bool:
    """Whether a type has a part without one."""
    if isinstance(kind, StructType):
        return any(_is_untyped(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return _is_untyped(kind.keyType) or _is_untyped(kind.valueType)
    return isinstance(kind, NullType) or (
        isinstance(kind, ArrayType) and _is_untyped(kind.elementType)
    )


def _by_shape(session: SparkSession, fields: Sequence[StructField], reading: Reading) -> DataFrame:
    """These columns of the files, in which nanoseconds are numbers."""
    rows = session.read.schema(StructType([*fields])).parquet(*reading.data.spark_paths())
    return _as_source(rows, fields, _moments(reading.data), reading)


def _as_source(
    rows: DataFrame, fields: Sequence[StructField], moments: Mapping[str, bool], reading: Reading
) -> DataFrame:
    """Columns of the rows, and those of the folders, as a source gives them."""
    names = [field.name for field in fields]
    folders = folder_columns(reading, names)
    require_names([*names, *(c.name for c in folders)], reading.source)
    columns = [OwnColumn(field.name, _value(field, moments)) for field in fields]
    data = reading.data
    facts = (relative_path(rows, data).alias("_file"), F.lit(None).cast("string").alias("_raw"))
    return with_facts(rows.select("*", *facts), [*columns, *folders])


def _value(field: StructField, moments: Mapping[str, bool]) -> Column:
    value = F.col(quoted(field.name))
    if field.name in moments and field.dataType == LongType():
        return _moment(value, in_utc=moments[field.name])
    return value


def _without_nanoseconds(session: SparkSession, reading: Reading) -> DataFrame | None:
    """The rows as Spark reads them; None where timestamps in nanoseconds are in its way.

    Spark is not asked where the first file has them: it would log the failure of a task.
    """
    data = reading.data
    if local_path(data.root) is not None and _moments(replace(data, files=data.files[:1])):
        return None
    try:
        return _read(session, reading)
    except PySparkException as error:
        if _NANOSECONDS not in str(error):
            raise
        return None


def _read(session: SparkSession, reading: Reading) -> DataFrame:
    files = reading.data.spark_paths()
    try:
        rows = session.read.option("mergeSchema", reading.merges).parquet(*files)
        _ = rows.schema  # over Connect, this is where the files are opened
    except PySparkException as error:
        if _NANOSECONDS not in str(error) and any(name in str(error) for name in _NO_TYPES):
            _require_known_types(reading.data)
        raise
    return rows


def _shape_with_numbers(session: SparkSession, reading: Reading) -> StructType:
    """The columns, with nanoseconds as numbers. Only finding out the columns needs the setting."""
    with _setting(session, _AS_NUMBERS):
        return _read(session, reading).schema


@contextmanager
def _setting(session: SparkSession, name: str) -> Iterator[None]:
    """With a setting of Spark's reader, which is off by default."""
    before = session.conf.get(name, "false")
    session.conf.set(name, "true")
    try:
        yield
    finally:
        session.conf.set(name, before or "false")


def _moments(data: DataFiles) -> dict[str, bool]:
    """The columns that hold timestamps in nanoseconds, each with whether they are in UTC."""
    found: dict[str, bool] = {}
    for where, column, logical in _stored_columns(data):
        if logical.get("timeUnit") != "nanoseconds" or logical["Type"] != "Timestamp":
            continue
        if column.path != column.name:
            raise SourceError(
                f"{where}: {column.path} holds timestamps in nanoseconds inside a nested "
                "column, which Spark cannot read. Write them in microseconds (with pyarrow: "
                'coerce_timestamps="us"), and run again.'
            )
        found[column.name] = bool(logical["isAdjustedToUTC"])
    return found


def _require_known_types(data: DataFiles) -> None:
    """Raise SourceError for a column of a type that Spark lacks."""
    for where, column, logical in _stored_columns(data):
        kind = logical["Type"]
        if kind not in _REMEDIES or logical.get("precision", sys.maxsize) <= _MOST_DIGITS:
            continue
        raise SourceError(
            f"{where}: {column.path} is stored as {column.logical_type}, which Spark cannot read. "
            f"Nothing was loaded; write it as {_REMEDIES[kind]}, and run again."
        )


def _stored_columns(data: DataFiles) -> Iterator[tuple[str, pq.ColumnSchema, dict[str, Any]]]:
    """The columns in the footers of the files, each with its file and its logical type."""
    for file in data.files:
        where = f"{data.root}/{file.path}"
        schema = _footer(where).schema
        for column in map(schema.column, range(len(schema))):
            yield where, column, json.loads(column.logical_type.to_json())


def _by_untyped(data: DataFiles) -> Mapping[frozenset[str], Collection[str]]:
    """The files, by the columns that have no type in them."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        untyped = list(pool.map(_untyped, (f"{data.root}/{file.path}" for file in data.files)))
    groups: dict[frozenset[str], set[str]] = {}
    for file, names in zip(data.files, untyped, strict=True):
        groups.setdefault(names, set()).add(file.path)
    return groups


def _untyped(where: str) -> frozenset[str]:
    schema = _footer(where).schema
    columns = [schema.column(at) for at in range(len(schema))]
    kinds = {c.name: json.loads(c.logical_type.to_json()) for c in columns if c.path == c.name}
    return frozenset(name for name, logical in kinds.items() if logical["Type"] == "Null")


def _have_rows(data: DataFiles) -> bool:
    """Whether there is a row in any file; mostly the first one shows it."""
    return any(_footer(f"{data.root}/{file.path}").num_rows for file in data.files)


def _footer(where: str) -> pq.FileMetaData:
    try:
        with open_file(where) as stream:
            return pq.read_metadata(stream)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{where} cannot be read as Parquet: {error}. Nothing was loaded; repair or "
            "remove the file, and run again."
        ) from error


def _moment(nanoseconds: Column, *, in_utc: bool) -> Column:
    whole = nanoseconds - F.pmod(nanoseconds, F.lit(1000))  # `div` alone would round towards 1970
    moment = F.timestamp_micros(F.call_function("div", whole, F.lit(1000)))
    return moment if in_utc else moment.cast("timestamp_ntz")
