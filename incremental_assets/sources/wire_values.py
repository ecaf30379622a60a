"""Values in a schema registry's wire format, each read by the schema that it was written with."""

from __future__ import annotations

import json
import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from incremental_assets.frames import Frames
from incremental_assets.sources.avro_types import as_spark_reads
from incremental_assets.sources.base64_values import in_base64
from incremental_assets.sources.lines import only_value
from incremental_assets.sources.protobuf_values import ProtobufReader, why_unknown
from incremental_assets.sources.schema_registry import SchemaRegistry

_PREFIX = 5  # a zero, and the number of the schema in four bytes
_ALL = 2**31 - 1
# What is put before and behind a message's bytes: only if both are found again, all of it was read.
_BEGIN, _END = b"\x01", b"the end."
_LONGEST = 200  # of what Spark says
_NO_REASON = re.compile(r"An error occurred while calling .*|\(?[\w.$]+(Exception|Error)\)?")


def with_wire_values(
    frames: Frames, messages: DataFrame, content: str, name: str, registry: SchemaRegistry
) -> DataFrame:
    """The messages, with the values of some bytes as `VARIANT`.

    A value is null where the bytes have no such format, the registry has no schema of their number,
    or they do not match the schema; also where the schema itself cannot be read, which the batch
    notes. The messages are read once more, for the numbers.
    """
    schemas = {
        number: schema
        for number in _numbers(messages, content)
        if (schema := registry.schema(number)) is not None
    }
    column, number = F.col(content), _number(content)
    found = F.lit(None).cast("variant")
    by_protobuf, unknown = {}, dict[int, str]()
    for n, one in schemas.items():
        if one.kind == "PROTOBUF":
            if why := why_unknown(one.files):
                unknown[n] = why
            else:
                by_protobuf[n] = one.files
    if by_protobuf:
        reader = ProtobufReader(by_protobuf)
        # By its annotations PySpark would take a method for one of another kind.
        read = F.udf(lambda message: reader.read(message), "string")  # noqa: PLW0108
        of_protobuf = F.when(number.isin(list(by_protobuf)), column)
        found = F.try_parse_json(read(of_protobuf))
    by_json = [n for n, s in schemas.items() if s.kind == "JSON"]
    if by_json:
        text = F.when(number.isin(by_json), _body(column).cast("string"))
        found = F.coalesce(found, only_value(text))
    for n, one in schemas.items():
        if one.kind == "AVRO":
            value = _avro_value(messages, column, one.avro)
            if isinstance(value, str):
                unknown[n] = value
            else:
                found = F.coalesce(found, F.when(number == n, value))
    for n, why in sorted(unknown.items()):
        frames.note(f"schema {n} of the registry cannot be read ({why}): its bytes are kept whole")
    return messages.withColumn(name, found)


def _numbers(messages: DataFrame, content: str) -> list[int]:
    """The numbers of the schemas that some bytes begin with."""
    numbers = messages.select(_number(content).alias("number")).where("number IS NOT NULL")
    return sorted(row["number"] for row in numbers.distinct().collect())


def _number(content: str) -> Column:
    column = F.col(content)
    prefixed = (F.octet_length(column) >= _PREFIX) & (F.substring(column, 1, 1) == F.lit(b"\x00"))
    return F.when(prefixed, F.conv(F.hex(F.substring(column, 2, 4)), 16, 10).cast("bigint"))


def _body(column: Column) -> Column:
    return F.substring(column, _PREFIX + 1, _ALL)


def _avro_value(messages: DataFrame, column: Column, schema: str) -> Column | str:
    """The value of bytes by an Avro schema; why Spark cannot read it, as one that holds itself."""
    framed = F.concat(F.lit(_BEGIN), _body(column), F.lit(_END))
    try:
        record = from_avro(framed, _frame_of(schema), {"mode": "PERMISSIVE"})
        kind = messages.select(record["value"].alias("value")).schema["value"].dataType
        value = F.struct(in_base64(record["value"], kind).alias("value"))
        value = F.try_variant_get(F.to_variant_object(value), "$.value", "variant")
        _ = messages.select(value).schema  # two fields that differ only by case fail here
    except (PySparkException, Py4JError) as error:
        return _reason(error)
    return F.when(record["begin"] & (record["end"] == F.lit(_END)), value)


def _reason(error: Exception) -> str:
    """The first line of an error of Spark that is not Py4J's own, nor the name of an exception."""
    lines = [line.strip(": \t") for line in str(error).splitlines()]
    stated = [line for line in lines if line and not _NO_REASON.fullmatch(line)]
    line = stated[0] if stated else type(error).__name__
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _frame_of(schema: str) -> str:
    """The schema of a record that holds the message between two marks."""
    end = {"type": "fixed", "name": "incremental_assets_end", "size": len(_END)}
    fields = [("begin", "boolean"), ("value", as_spark_reads(json.loads(schema))), ("end", end)]
    return json.dumps(
        {
            "type": "record",
            "name": "incremental_assets_frame",
            "fields": [{"name": name, "type": kind} for name, kind in fields],
        }
    )
