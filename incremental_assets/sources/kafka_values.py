"""What the bytes of a message hold, as a `VARIANT`: JSON, text, or what a registry knows."""

from __future__ import annotations

from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.decodable import decodable, decodable_stored
from incremental_assets.frames import Frames
from incremental_assets.sources.lines import only_value
from incremental_assets.sources.schema_registry import SchemaRegistry
from incremental_assets.sources.wire_values import with_wire_values

ValueFormat = Literal["json", "text", "registry"]
VALUE_FORMATS: tuple[ValueFormat, ...] = get_args(ValueFormat)
_PREFIX = 5  # of a registry's wire format: a zero, and the number of the schema in four bytes
_ALL = 2**31 - 1


def with_values(
    frames: Frames,
    messages: DataFrame,
    value: ValueFormat,
    key: ValueFormat,
    registry: SchemaRegistry | None,
) -> DataFrame:
    """The messages, with `payload`, `_key`, and `_raw` where the value is not what it should be."""
    if registry is not None:
        messages = frames.cache(messages)  # which are read for the numbers of their schemas, too
    found = _with(frames, messages, "value", "payload", value, registry)
    found = _with(frames, found, "key", "_key", key, registry)
    content, read = F.col("value"), F.col("payload")
    null = F.when(content.isNull(), F.parse_json(F.lit("null")))
    text = decodable_stored(F.col("key").cast("string")).cast("variant")
    return found.withColumns(
        {
            "payload": F.coalesce(null, read),
            "_key": F.coalesce("_key", text),
            "_raw": F.when(content.isNotNull() & read.isNull(), decodable(content.cast("string"))),
        }
    )


def _with(
    frames: Frames,
    messages: DataFrame,
    content: str,
    name: str,
    kind: ValueFormat,
    registry: SchemaRegistry | None,
) -> DataFrame:
    """The messages, with the value that some bytes are; null where they are none."""
    if kind == "registry":
        assert registry is not None
        return with_wire_values(frames, messages, content, name, registry)
    if kind == "json":
        return messages.withColumn(name, only_value(_json_text(F.col(content))))
    text = F.col(content).cast("string")
    row = text.cast("variant")
    if content == "value":
        row = F.to_variant_object(F.struct(text.alias("value")))
    return messages.withColumn(name, F.when(F.is_valid_utf8(text), row))


def _json_text(content: Column) -> Column:
    """JSON without the prefix of a registry's wire format: no JSON begins with a zero byte."""
    bare = F.substring(content, _PREFIX + 1, _ALL)
    prefixed = F.substring(content, 1, 1) == F.lit(b"\x00")
    return F.when(prefixed, bare).otherwise(content).cast("string")
