"""The fields of JSON objects that a column holds, as columns of the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.sources.json_columns import column_of, fields_of
from incremental_assets.sources.rows import OwnColumn, Reading, require_names
from incremental_assets.sources.stored_files import DataFiles


def infer_columns(
    rows: DataFrame, objects: str, known: Mapping[str, DataType], source: str
) -> list[OwnColumn]:
    """The columns that the objects of a `VARIANT` column have, typed as those of JSON lines are.

    `known` are the target's columns, whose types and spelling these get. One aggregate over the
    rows. Raises SourceError if a table cannot have the columns; `source` names them in the message.
    """
    fields = fields_of(rows.select(F.col(objects).alias("payload")), source)
    require_names(list(fields), source)
    reading = Reading(source, DataFiles(source, ()), (), known)
    spelling = {name.lower(): name for name in known}
    found = [
        column_of(name, kinds, None, reading.known_type(name), F.col(objects))
        for name, kinds in fields.items()
    ]
    return [
        replace(column, name=spelling.get(column.name.lower(), column.name)) for column in found
    ]


def with_columns_of(rows: DataFrame, columns: list[OwnColumn]) -> DataFrame:
    """The rows with these columns, and `_unreadable`, the names of those that do not fit."""
    type_errors: list[Column] = [
        F.when(c.written & c.value.isNull(), F.lit(c.name))
        for c in columns
        if c.written is not None
    ]
    found = F.array_compact(F.array(*type_errors)) if type_errors else F.array()
    own = [c.value.alias(c.name) for c in columns]
    return rows.select("*", *own, found.cast("array<string>").alias("_unreadable"))
