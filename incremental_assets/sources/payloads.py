"""Rows as `VARIANT` payloads, for tables that keep rows as they landed."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from incremental_assets.decodable import decodable, decodable_stored
from incremental_assets.frames import quoted
from incremental_assets.sources.base64_values import in_base64
from incremental_assets.sources.lines import only_value, unread
from incremental_assets.sources.rows import FACTS

HASH = "_hash"
"""What identifies a row, where its source knows."""
LANDED = "_landed"
"""The landing day of a row, where its source gives one."""
MESSAGE = "_message"
"""What a message of a topic has besides its value: key, headers, offset, timestamp."""
_SHAPE = ("payload", "_key", "_raw", "_file")
_OF_AN_EVENT = frozenset({"op", "__op", "__deleted"})


def line_objects(lines: DataFrame) -> DataFrame:
    """Lines as `read_lines` gives them: the JSON of each as `payload`, or the line in `_raw`."""
    return lines.select("payload", unread(), "_file")


def line_payloads(lines: DataFrame) -> DataFrame:
    """The same, with a `_key` that no line has."""
    return lines.select("payload", _nothing("variant").alias("_key"), unread(), "_file")


def row_objects(rows: DataFrame, json: Collection[str] = ()) -> DataFrame:
    """Typed rows with `_file` and `_raw` as `payload` objects of their columns."""
    return rows.select(payload_of(rows, json).alias("payload"), "_raw", "_file")


def payload_of(rows: DataFrame, json: Collection[str] = ()) -> Column:
    """A row as an object of its own columns; null where `_raw` holds a line instead.

    Of the columns `json` the value that their text is; one that is none, such as an object with a
    key twice, stays a text. Bytes are the text that they are, or `base64:…`, as of lines; inside of
    a structure they are base64, as JSON has them.
    """
    own = [
        _own(field, is_json=field.name in json).alias(field.name)
        for field in rows.schema.fields
        if field.name not in FACTS
    ]
    row = F.to_variant_object(F.struct(*own)) if own else _nothing("variant")
    return F.when(F.col("_raw").isNull(), row)


def _own(field: StructField, *, is_json: bool) -> Column:
    value = F.col(quoted(field.name))
    if isinstance(field.dataType, BinaryType):
        return decodable(value.cast("string"))
    kind = _as_in_json(field.dataType)
    if kind != field.dataType:
        return in_base64(value, field.dataType).cast(kind)
    return _value(value) if is_json else value


def _as_in_json(kind: DataType) -> DataType:
    """The type with texts for bytes, and for the keys of all maps, as a document of JSON has."""
    if isinstance(kind, MapType):
        return MapType(StringType(), _as_in_json(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, ArrayType):
        return ArrayType(_as_in_json(kind.elementType), kind.containsNull)
    if isinstance(kind, StructType):
        return StructType(
            [StructField(f.name, _as_in_json(f.dataType), f.nullable) for f in kind.fields]
        )
    return StringType() if kind == BinaryType() else kind


def _value(text: Column) -> Column:
    return F.coalesce(F.try_parse_json(text), text.cast("variant"))


def row_payloads(rows: DataFrame) -> DataFrame:
    """Typed rows with `_file` and `_raw` as payloads.

    A row is an object of its columns. But of a message with a text or binary column `value`, as a
    topic is dumped (no column shows what happened to a row), `payload` is the JSON in it and `_key`
    that in `key`: a value of null is JSON null, one that is not JSON goes to `_raw`, and a key that
    is not JSON is a text.
    """
    own = [field for field in rows.schema.fields if field.name not in FACTS]
    value = _text_column(own, "value")
    if value is None or not _OF_AN_EVENT.isdisjoint(field.name for field in own):
        return row_objects(rows).withColumn("_key", _nothing("variant")).select(*_SHAPE)
    key = _text_column(own, "key")
    key = _nothing("string") if key is None else key
    read = rows.select(
        value.alias("value"),
        only_value(value).alias("found"),
        F.coalesce(only_value(key), decodable_stored(key).cast("variant")).alias("_key"),
        F.col("_raw").alias("broken"),
        "_file",
    )
    null = F.when(F.col("broken").isNull() & F.col("value").isNull(), F.parse_json(F.lit("null")))
    raw = F.when(F.col("found").isNull(), decodable(F.col("value")))
    return read.select(
        F.coalesce("found", null).alias("payload"),
        "_key",
        F.coalesce("broken", raw).alias("_raw"),
        "_file",
    ).select(*_SHAPE)


def _text_column(own: list[StructField], name: str) -> Column | None:
    """The column of that name as text, if it holds texts or bytes."""
    for field in own:
        if field.name.lower() == name and isinstance(field.dataType, StringType | BinaryType):
            return F.col(quoted(field.name)).cast("string")
    return None


def _nothing(kind: str) -> Column:
    return F.lit(None).cast(kind)
