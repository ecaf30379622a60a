"""Bytes inside a value, such as those of an envelope's row, as the base64 that JSON has for them.

A VARIANT keeps bytes as they are, and gives them out as a text that need not be UTF-8: readers that
check their text (delta-rs, polars) refuse the whole file, and two such texts have one row hash.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType


def has_bytes(kind: DataType) -> bool:
    """Whether a value of this type is bytes, or holds some."""
    if isinstance(kind, StructType):
        return any(has_bytes(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return has_bytes(kind.keyType) or has_bytes(kind.valueType)
    return has_bytes(kind.elementType) if isinstance(kind, ArrayType) else kind == BinaryType()


def in_base64(value: Column, kind: DataType) -> Column:
    """The value of this type with a text of base64, in one line, in place of all bytes."""
    if not has_bytes(kind):
        return value
    if isinstance(kind, StructType):
        fields = (
            in_base64(value.getField(field.name), field.dataType).alias(field.name)
            for field in kind.fields
        )
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        of_element = kind.elementType
        return F.transform(value, lambda each: in_base64(each, of_element))
    if isinstance(kind, MapType):
        of_key, of_value = kind.keyType, kind.valueType
        if has_bytes(of_key):
            value = F.transform_keys(value, lambda key, _: in_base64(key, of_key))
        return F.transform_values(value, lambda _, each: in_base64(each, of_value))
    # By a setting Spark breaks lines of 76 characters, which JSON's base64 has not.
    return F.translate(F.base64(value), "\r\n", "")
