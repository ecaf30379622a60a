"""Avro schemas with the types that Spark reads in the place of those that it cannot hold."""

from __future__ import annotations

from typing import Any, Final

_PARTS: Final = ("type", "fields", "items", "values")
_MOST_DIGITS: Final = 38


def as_spark_reads(schema: Any) -> Any:
    """A schema, as parsed JSON, for the same bytes, with types that Spark and Delta hold.

    A `time-micros` is its whole number, as a `time-millis` is to Spark. A `decimal` of more than 38
    digits is one of 38: Spark fails at a value that has more. Where even its scale is larger, it is
    its bytes.
    """
    if isinstance(schema, list):
        return [as_spark_reads(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {n: as_spark_reads(part) if n in _PARTS else part for n, part in schema.items()}
    logical, precision = found.get("logicalType"), found.get("precision")
    if logical == "time-micros":
        del found["logicalType"]
    elif logical == "decimal" and isinstance(precision, int) and precision > _MOST_DIGITS:
        scale = found.get("scale", 0)
        if isinstance(scale, int) and scale <= _MOST_DIGITS:
            found["precision"] = _MOST_DIGITS
        else:
            del found["logicalType"]
    return found
