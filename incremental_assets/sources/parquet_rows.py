"""Parquet files as a table: the columns of all files, with the types that the files have."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from incremental_assets.errors import SourceError
from incremental_assets.frames import quoted
from incremental_assets.locations import local_path
from incremental_assets.sources.path_columns import folder_columns, relative_path
from incremental_assets.sources.rows import (
    OwnColumn,
    Reading,
    require_names,
    with_facts,
)
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.storage import open_file

# Spark's message for timestamps in nanoseconds, which is what pandas writes, and the one setting
# with which it sees them at all: as numbers.
_NANOSECONDS = "TIMESTAMP(NANOS"
_AS_NUMBERS = "spark.sql.legacy.parquet.nanosAsLong"
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

    Timestamps in nanoseconds are cut to microseconds. Raises SourceError if a table cannot have
    the columns; files that contradict each other are an error of Spark.
    """
    data = reading.data
    moments: dict[str, bool] = {}
    rows = _without_nanoseconds(session, reading)
    if rows is None:
        shape = _shape_with_numbers(session, reading)
        rows = session.read.schema(shape).parquet(*data.spark_paths())
        moments = _moments(data)
    shape = rows.schema
    folders = folder_columns(reading, shape.names)
    require_names([*shape.names, *(c.name for c in folders)], reading.source)
    columns = [OwnColumn(field.name, _value(field, moments)) for field in shape.fields]
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
    before = session.conf.get(_AS_NUMBERS)
    session.conf.set(_AS_NUMBERS, "true")
    try:
        return _read(session, reading).schema
    finally:
        session.conf.set(_AS_NUMBERS, before or "false")


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
        try:
            with open_file(where) as stream:
                schema = pq.read_metadata(stream).schema
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"{where} cannot be read as Parquet: {error}. Nothing was loaded; repair or "
                "remove the file, and run again."
            ) from error
        for column in map(schema.column, range(len(schema))):
            yield where, column, json.loads(column.logical_type.to_json())


def _moment(nanoseconds: Column, *, in_utc: bool) -> Column:
    whole = nanoseconds - F.pmod(nanoseconds, F.lit(1000))  # `div` alone would round towards 1970
    moment = F.timestamp_micros(F.call_function("div", whole, F.lit(1000)))
    return moment if in_utc else moment.cast("timestamp_ntz")
