"""Bytes inside a value, such as those of an envelope's row, as the base64 that JSON has for them.

A VARIANT keeps bytes as they are, and gives them out as a text that need not be UTF-8: readers that
check their text (delta-rs, polars) refuse the whole file, and two such texts have one row hash.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

from incremental_assets.sources.rows import holds


def in_base64(value: Column, kind: DataType) -> Column:
    """The value of this type with a text of base64, in one line, in place of all bytes."""
    if not holds(kind, BinaryType):
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
        if holds(of_key, BinaryType):
            value = F.transform_keys(value, lambda key, _: in_base64(key, of_key))
        return F.transform_values(value, lambda _, each: in_base64(each, of_value))
    # By a setting Spark breaks lines of 76 characters, which JSON's base64 has not.
    return F.translate(F.base64(value), "\r\n", "")
