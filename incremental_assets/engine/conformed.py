"""Rows in the types and spelling of the columns that they go to, where nothing is lost by it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType

from incremental_assets.frames import quoted, with_columns


def conformed(rows: DataFrame, columns: Mapping[str, DataType]) -> DataFrame:
    """The rows in the types and spelling of the target's columns, where nothing is lost by it.

    Others are left as they are; publishing refuses them and names both types.
    """
    there = {name.lower(): (name, kind) for name, kind in columns.items()}
    changed: dict[str, Column] = {}
    for name, kind in {f.name: f.dataType for f in rows.schema.fields}.items():
        known = there.get(name.lower())
        if known is not None and known[1] != kind and _fits(kind, known[1]):
            changed[name] = F.col(quoted(name)).cast(known[1])
    return with_columns(rows, changed)


_WIDER = (
    "byte",
    "short",
    "integer",
    "long",
)


def _fits(kind: DataType, into: DataType) -> bool:
    """Whether every value of a type is also one of another."""
    a, b = kind.typeName(), into.typeName()
    if a in _WIDER and b in _WIDER:
        return _WIDER.index(a) < _WIDER.index(b)
    if isinstance(into, DecimalType):
        digits = into.precision - into.scale
        if isinstance(kind, DecimalType):
            return kind.scale <= into.scale and kind.precision - kind.scale <= digits
        return a in _WIDER and digits >= (3, 5, 10, 19)[_WIDER.index(a)]
    return (a, b) in {("float", "double"), ("date", "timestamp"), ("void", b)}
