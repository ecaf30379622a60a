"""What the bytes of a message hold, as a `VARIANT`: JSON, or text."""

from __future__ import annotations

from typing import Literal, get_args

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.decodable import decodable, decodable_stored
from incremental_assets.sources.lines import only_value

ValueFormat = Literal["json", "text"]
VALUE_FORMATS: tuple[ValueFormat, ...] = get_args(ValueFormat)
_PREFIX = 5  # of a registry's wire format: a zero, and the number of the schema in four bytes
_ALL = 2**31 - 1


def value_of(content: Column, kind: ValueFormat) -> Column:
    """The value that some bytes are; null where they are none, JSON null where there are none."""
    null = F.when(content.isNull(), F.parse_json(F.lit("null")))
    if kind == "text":
        text = content.cast("string")
        row = F.to_variant_object(F.struct(text.alias("value")))
        return F.coalesce(null, F.when(F.is_valid_utf8(text), row))
    return F.coalesce(null, only_value(_json_text(content)))


def key_of(content: Column, kind: ValueFormat) -> Column:
    """The key that some bytes are: its value, or their text; null without a key."""
    text = decodable_stored(content.cast("string")).cast("variant")
    if kind == "text":
        return F.when(content.isNotNull(), text)
    return F.coalesce(only_value(_json_text(content)), text)


def undecoded(content: Column, value: Column) -> Column:
    """The bytes as text, or in base64, where they are not the value that they should be."""
    return F.when(value.isNull() & content.isNotNull(), decodable(content.cast("string")))


def _json_text(content: Column) -> Column:
    """JSON without the prefix of a registry's wire format: no JSON begins with a zero byte."""
    bare = F.substring(content, _PREFIX + 1, _ALL)
    prefixed = F.substring(content, 1, 1) == F.lit(b"\x00")
    return F.when(prefixed, bare).otherwise(content).cast("string")
