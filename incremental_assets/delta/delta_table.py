"""A Delta table as a whole, without a JVM: opening, creating, its columns and its files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructField

from incremental_assets.delta.writable import CHANGE_FEED, require_plain_writes
from incremental_assets.delta_protocol.commit import NO_HOOKS, ONCE, retried_commit
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.locations import local_path

PROPERTIES = {"delta.enableDeletionVectors": "false", CHANGE_FEED: "false"}


def open_table(path: str) -> DeltaTable | None:
    """The table, or None where there is none. Raises LakeError if the log cannot be read."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise LakeError(f"The table {path} cannot be read: {error}") from error


def version_of(path: str) -> int:
    """The table's newest version. Raises LakeError if there is no table."""
    table = open_table(path)
    if table is None:
        raise LakeError(
            f"{path} should hold a Delta table, and there is none. If the lake was moved, set "
            "INCREMENTAL_ASSETS_LAKE; if the table was deleted, restore it from a backup."
        )
    version: int = table.version()
    return version


def bytes_of(path: str, days: Collection[date] | None = None) -> int:
    """The size of the table's files, or of those in the partitions of some days; 0 without one."""
    table = open_table(path)
    if table is None:
        return 0
    files = pa.table(table.get_add_actions(flatten=True))
    sizes = files["size_bytes"].to_pylist()
    if days is None or "partition.dt" not in files.column_names:
        return sum(sizes)
    of = zip(sizes, files["partition.dt"].to_pylist(), strict=True)
    return sum(size for size, day in of if day in days)


def bytes_per_row(path: str) -> float | None:
    """How many bytes of the table's files a row takes; None without a row."""
    table = open_table(path)
    if table is None:
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    rows = sum(n or 0 for n in files["num_records"].to_pylist())
    return sum(files["size_bytes"].to_pylist()) / rows if rows else None


def rows_by_file(path: str, column: str) -> list[tuple[str, date | None, int]]:
    """Each file of the table with its day in a partition column and its rows; none without one."""
    table = open_table(path)
    if table is None:
        return []
    files = pa.table(table.get_add_actions(flatten=True))
    if f"partition.{column}" not in files.column_names:  # there are no files
        return []
    days = files[f"partition.{column}"].to_pylist()
    found = zip(files["path"].to_pylist(), days, files["num_records"].to_pylist(), strict=True)
    return [(unquote(path), day, rows or 0) for path, day, rows in found]


def active_paths(table: DeltaTable) -> set[str]:
    """The paths of the table's files at its version, relative to it."""
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return {unquote(path) for path in paths}


def columns_of(path: str) -> list[str]:
    """The table's column names; empty where there is no table."""
    table = open_table(path)
    return [] if table is None else [f.name for f in table.schema().fields]


def ensure_table(
    path: str,
    name: str,
    columns: Sequence[tuple[str, Any]],
    partition_by: Sequence[str],
    properties: Mapping[str, str] = MappingProxyType({}),
) -> DeltaTable | None:
    """Create the table in one commit, or return the one that exists.

    `columns` are names and Delta types (text, or JSON of a nested one). A table of the lake is
    created before the further columns of its transform are known; its first write adds them.
    `properties` are added to the lake's own. Raises LakeError for an existing table that cannot be
    written plainly.
    """
    table = open_table(path)
    if table is not None:
        require_plain_writes(table, path)
        return table
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns]
    schema = schema_of(path, fields)
    try:
        local = local_path(path)
        if local is not None:
            local.mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            path,
            schema,
            mode="ignore",
            partition_by=list(partition_by),
            name=name,
            configuration={**PROPERTIES, **properties},
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        made = open_table(path)
        if made is not None:  # another first run was faster
            return made
        raise LakeError(
            f"The lake is not writable: {path} cannot be created ({error}). Set "
            "INCREMENTAL_ASSETS_LAKE to a path that this user may write."
        ) from error
    return None


def schema_of(path: str, fields: Sequence[Mapping[str, Any]]) -> Schema:
    """Fields of a Delta schema. Raises DefinitionError for a type that the table cannot have."""
    try:
        return _parsed(fields)
    except (DeltaError, ValueError) as error:
        odd = next((field for field in fields if not _is_known(field)), fields[0])
        raise DefinitionError(
            f"{path}: column {odd['name']} is of the type {odd['type']}, which a table of the lake "
            "cannot have: it is written without Spark. Give the source, or the transform, a plain "
            "type (CAST(… AS STRING) of text with a collation, or of a time). Nothing was written."
        ) from error


def _parsed(fields: Sequence[Mapping[str, Any]]) -> Schema:
    return Schema.from_json(json.dumps({"type": "struct", "fields": [*map(dict, fields)]}))


def _is_known(field: Mapping[str, Any]) -> bool:
    with suppress(DeltaError, ValueError):
        return bool(_parsed([field]))
    return False


def field_of(column: StructField) -> Mapping[str, Any]:
    """A column of Spark's as a field of a Delta schema, nullable."""
    kind = column.dataType.jsonValue()
    return {"name": column.name, "type": kind, "nullable": True, "metadata": {}}


def add_columns(path: str, columns: Sequence[Mapping[str, Any]]) -> None:
    """Add those of these columns (fields of Delta's schema) that the table lacks.

    Raises ConflictError and LakeError.
    """

    def attempt() -> None:
        table = DeltaTable(path)
        have = {field.name.lower() for field in table.schema().fields}
        new = [dict(field) for field in columns if field["name"].lower() not in have]
        if new:
            table.alter.add_columns(
                list(schema_of(path, new).fields),
                commit_properties=ONCE,
                post_commithook_properties=NO_HOOKS,
            )

    retried_commit(path, attempt, "Not all of its columns were added")
