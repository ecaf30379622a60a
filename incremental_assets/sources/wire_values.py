"""Values in a schema registry's wire format, each read by the schema that it was written with."""

from __future__ import annotations

import json
from collections.abc import Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType

from incremental_assets.sources.base64_values import in_base64
from incremental_assets.sources.lines import only_value
from incremental_assets.sources.protobuf_values import ProtobufReader, is_known
from incremental_assets.sources.schema_registry import SchemaRegistry, WireSchema

_PREFIX = 5  # a zero, and the number of the schema in four bytes
_ALL = 2**31 - 1
# What is put before and behind a message's bytes: only if both are found again, all of it was read.
_BEGIN, _END = b"\x01", b"the end."


def with_wire_values(
    messages: DataFrame, content: str, name: str, registry: SchemaRegistry
) -> DataFrame:
    """The messages, with the values of some bytes as `VARIANT`.

    A value is null where the bytes have no such format, the registry has no schema of their number,
    or they do not match the schema. The messages are read once more, for the numbers.
    """
    schemas = {
        number: schema
        for number in _numbers(messages, content)
        if (schema := registry.schema(number)) is not None
    }
    column, number = F.col(content), _number(content)
    found = F.lit(None).cast("variant")
    by_protobuf = {
        n: s.files for n, s in schemas.items() if s.kind == "PROTOBUF" and is_known(s.files)
    }
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
    for of_avro, value in _avro_values(messages, column, schemas).items():
        found = F.coalesce(found, F.when(number == of_avro, value))
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


def _avro_values(
    messages: DataFrame, column: Column, schemas: Mapping[int, WireSchema]
) -> dict[int, Column]:
    framed = F.concat(F.lit(_BEGIN), _body(column), F.lit(_END))
    found = {}
    for number, schema in schemas.items():
        if schema.kind != "AVRO":
            continue
        record = from_avro(framed, _frame_of(schema.avro), {"mode": "PERMISSIVE"})
        kind = _kind_of(messages, record["value"])
        if kind is None:
            continue
        value = F.struct(in_base64(record["value"], kind).alias("value"))
        value = F.try_variant_get(F.to_variant_object(value), "$.value", "variant")
        whole = record["begin"] & (record["end"] == F.lit(_END))
        found[number] = F.when(whole, value)
    return found


def _frame_of(schema: str) -> str:
    """The schema of a record that holds the message between two marks."""
    end = {"type": "fixed", "name": "incremental_assets_end", "size": len(_END)}
    fields = [("begin", "boolean"), ("value", json.loads(schema)), ("end", end)]
    return json.dumps(
        {
            "type": "record",
            "name": "incremental_assets_frame",
            "fields": [{"name": name, "type": kind} for name, kind in fields],
        }
    )


def _kind_of(messages: DataFrame, value: Column) -> DataType | None:
    """The type of a value; None where Spark does not know the schema, as one that holds itself."""
    try:
        return messages.select(value.alias("value")).schema["value"].dataType
    except (PySparkException, Py4JError):
        return None
