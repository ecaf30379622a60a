"""An unambiguous hash of a row: equal rows have equal hashes, whatever the order of columns.

Version 1: `1:` and 128 bits of SHA-256, in hexadecimal, over the row's columns as a JSON object in
order of name. JSON keeps one column's text from the next one's and '' from null; a column that is
null counts as not there, so a table that has grown since hashes its rows as before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from incremental_assets.frames import quoted

HASH_VERSION = 1


def row_hash(types: Mapping[str, DataType], ignore: Collection[str] = ()) -> Column:
    """The hash over columns of these types, without those that are ignored."""
    names = sorted(name for name in types if name not in ignore)
    values = [_exact(F.col(quoted(name)), types[name]).alias(name) for name in names]
    text = F.to_json(F.struct(*values)) if values else F.lit("{}")
    return F.concat(F.lit(f"{HASH_VERSION}:"), F.substring(F.sha2(text, 256), 1, 32))


def payload_hash(payload: str, ignore: Collection[str] = ()) -> Column:
    """The hash of a JSON value in a `VARIANT` column.

    Of an object it is over what is neither null nor ignored in it, in order of name, in which
    a variant keeps them.
    """
    fields = F.col(payload).try_cast("map<string,variant>")
    ignored = list(ignore)
    there = F.map_filter(
        fields, lambda name, value: ~F.is_variant_null(value) & ~name.isin(ignored)
    )
    text = F.coalesce(F.to_json(there), F.to_json(F.col(payload)))
    return F.concat(F.lit(f"{HASH_VERSION}:"), F.substring(F.sha2(text, 256), 1, 32))


def _exact(value: Column, kind: DataType) -> Column:
    """A value as JSON keeps it without loss, which cuts an instant to milliseconds.

    Entries of a map have no order of their own.
    """
    if isinstance(kind, TimestampType):
        return F.unix_micros(value)
    if isinstance(kind, TimestampNTZType):
        return F.unix_micros(value.cast("timestamp_ltz"))
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda each: _exact(each, kind.elementType))
    if isinstance(kind, StructType):
        inner = [_exact(value.getField(f.name), f.dataType).alias(f.name) for f in kind.fields]
        return F.when(value.isNotNull(), F.struct(*inner))
    if isinstance(kind, MapType):
        return _exact(F.array_sort(F.map_entries(value)), _entries(kind))
    return value


def _entries(kind: MapType) -> DataType:
    entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
    return ArrayType(entry)
