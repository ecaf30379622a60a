"""ORC and Avro files as a table: the columns of all files, with the types that the files have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from io import SEEK_END
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType, TimestampType

from incremental_assets.errors import SourceError
from incremental_assets.frames import quoted
from incremental_assets.sources.avro_types import as_spark_reads
from incremental_assets.sources.java_zone import java_zone, require_utc
from incremental_assets.sources.path_columns import folder_columns, relative_path
from incremental_assets.sources.rows import OwnColumn, Reading, holds, require_names, with_facts
from incremental_assets.sources.source_file import not_readable
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.storage import open_file

AVRO_MAGIC: Final = b"Obj\x01"
_SCHEMA = b"avro.schema"
_LONGEST, _SYNC = 1 << 24, 16
_AT_ONCE = 8


def orc_rows(session: SparkSession, reading: Reading) -> DataFrame:
    """The rows of the files; a column that a file lacks is null there.

    Raises SourceError if a table cannot have the columns, or for timestamps where Java's zone is
    not UTC; files that contradict each other are an error of Spark.
    """
    data = reading.data
    rows = session.read.option("mergeSchema", reading.merges).orc(data.spark_paths())
    if holds(rows.schema, TimestampType, TimestampNTZType):  # one without a zone is of Java's
        require_utc(java_zone(session), reading.source)
    return _typed_rows(rows, data, reading)


def avro_rows(session: SparkSession, reading: Reading) -> DataFrame:
    """The rows of the files; a column that a file lacks is null there.

    Raises SourceError for a file that is not Avro, if a table cannot have the columns, or where
    files have other types for one.
    """
    return in_one_table(avro_parts(session, reading), reading.source)


def in_one_table(parts: Sequence[DataFrame], source: str) -> DataFrame:
    """The rows of all parts; a column that a part lacks is null there.

    Raises SourceError where they have other types for one.
    """
    types: dict[str, tuple[str, DataType]] = {}
    for part in parts:
        for field in part.schema.fields:
            _, kind = types.setdefault(field.name.lower(), (field.name, field.dataType))
            if kind != field.dataType:
                raise SourceError(
                    f"{source}: {field.name} is {kind.simpleString()} in some files and "
                    f"{field.dataType.simpleString()} in others. Nothing was loaded; write the "
                    "files again with one type, or read them as a feed that keeps rows as they are."
                )
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def avro_parts(session: SparkSession, reading: Reading) -> list[DataFrame]:
    """The rows of the files: a frame for each schema that they have.

    Spark would read all of them by the schema of one. Raises SourceError for a file that is not
    Avro, or if a table cannot have the columns.
    """
    data = reading.data
    groups: dict[str, set[str]] = {}
    for file in data.files:
        groups.setdefault(avro_schema(f"{data.root}/{file.path}"), set()).add(file.path)
    return [
        _avro_part(session, schema, data.only(some), reading) for schema, some in groups.items()
    ]


def _avro_part(session: SparkSession, schema: str, data: DataFiles, reading: Reading) -> DataFrame:
    """The rows of files with one schema, by which they are read as far as Spark knows its types."""
    reader, own = session.read.format("avro"), json.loads(schema)
    known = as_spark_reads(own)
    if known != own:
        reader = reader.option("avroSchema", json.dumps(known))
    return _typed_rows(reader.load(data.spark_paths()), data, reading)


def _typed_rows(rows: DataFrame, data: DataFiles, reading: Reading) -> DataFrame:
    """Rows of typed columns as a source gives them."""
    names = rows.columns
    folders = folder_columns(reading, names)
    require_names([*names, *(column.name for column in folders)], reading.source)
    columns = [OwnColumn(name, F.col(quoted(name))) for name in names]
    facts = (relative_path(rows, data).alias("_file"), F.lit(None).cast("string").alias("_raw"))
    return with_facts(rows.select("*", *facts), [*columns, *folders])


def by_schema(reading: Reading, kind: str | None) -> list[Reading]:
    """The files of Parquet or ORC, in as many parts as they have schemas.

    Read together, a row would have the columns of other files, and their spelling and types.
    """
    if len(reading.data.files) < 2:
        return [reading]
    root, files = reading.data.root, reading.data.files
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        schemas = list(pool.map(lambda file: _schema(f"{root}/{file.path}", kind), files))
    groups: dict[str, set[str]] = {}
    for file, schema in zip(files, schemas, strict=True):
        groups.setdefault(schema, set()).add(file.path)
    parts = (reading.data.only(paths) for paths in groups.values())
    return [replace(reading, data=part, has_one_schema=True) for part in parts]


def _schema(where: str, kind: str | None) -> str:
    """The columns of a file of Parquet or ORC, as text that equal ones share."""
    try:
        with open_file(where) as stream:
            if kind == "orc":
                return str(orc.ORCFile(stream).schema.remove_metadata())
            return _parquet_schema(pq.read_metadata(stream).schema)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"{where} cannot be read as {kind}: {error}. Nothing was loaded; repair or remove the "
            "file, and run again."
        ) from error


def _parquet_schema(schema: pq.ParquetSchema) -> str:
    """The columns of a Parquet file, and how they are stored.

    To pyarrow timestamps of 96 bits and of nanoseconds are one type, and Spark reads a file of the
    one and a file of the other only apart.
    """
    columns = (schema.column(at) for at in range(len(schema)))
    stored = [f"{c.path} {c.physical_type} {c.logical_type}" for c in columns]
    return "\n".join([str(schema.to_arrow_schema().remove_metadata()), *stored])


def avro_schema(where: str) -> str:
    """The schema in an Avro file's header, as JSON in a form that equal schemas share.

    Raises SourceError for a file that has none.
    """
    try:
        with open_file(where) as stream:
            if stream.read(len(AVRO_MAGIC)) != AVRO_MAGIC:
                raise ValueError("it does not begin as an Avro file does")
            found = dict(_header(stream))
            sync = stream.read(_SYNC)
            if len(sync) == _SYNC:
                stream.seek(-_SYNC, SEEK_END)
            if len(sync) != _SYNC or stream.read(_SYNC) != sync:
                raise ValueError("it does not end with a whole block, so it was cut off")
            if _SCHEMA not in found:
                raise ValueError("its header has no schema")
            return json.dumps(json.loads(found[_SCHEMA]), separators=(",", ":"))
    except ValueError as error:
        raise SourceError(
            f"{where} cannot be read as Avro: {error}. Nothing was loaded; repair or remove the "
            "file, and run again."
        ) from error
    except OSError as error:
        raise not_readable(where, error) from error


def _header(stream: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a header: blocks of names and values, ended by an empty one."""
    while count := _long(stream):
        if count < 0:  # then the bytes of the block follow
            count = -count
            _long(stream)
        for _ in range(count):
            yield _bytes(stream), _bytes(stream)


def _bytes(stream: IO[bytes]) -> bytes:
    length = _long(stream)
    found = stream.read(length) if 0 <= length <= _LONGEST else b""
    if len(found) != length:
        raise ValueError("its header is cut off or broken")
    return found


def _long(stream: IO[bytes]) -> int:
    """A whole number as Avro writes it: seven bits a byte, the lowest first, the sign in them."""
    number = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise ValueError("its header is cut off")
        number |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return (number >> 1) ^ -(number & 1)
    raise ValueError("its header is broken")
