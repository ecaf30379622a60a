"""What a table is filled by, recorded with the table: rows of two keys, or writes, do not mix."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.errors import LakeError

_PROPERTY = "incremental_assets.key"
_ROWS_OF_KEY = "incremental_assets.rows_of_key"


def key_properties(key: Sequence[str], rows_of_key: str = "") -> dict[str, str]:
    """The properties of a table that is filled by the key; none without one.

    `rows_of_key` is what its write keeps of each (`WriteStrategy.rows_of_key`), if it is recorded.
    """
    if not key:
        return {}
    more = {_ROWS_OF_KEY: rows_of_key} if rows_of_key else {}
    return {_PROPERTY: json.dumps(list(key)), **more}


def recorded_key(table: DeltaTable) -> tuple[str, ...]:
    """The key that the table is filled by; empty where none is recorded."""
    return tuple(json.loads(table.metadata().configuration.get(_PROPERTY) or "[]"))


def recorded_rows_of_key(table: DeltaTable) -> str:
    """What the table holds of each key; "" where it is not recorded."""
    found: str | None = table.metadata().configuration.get(_ROWS_OF_KEY)
    return found or ""


def record_key(table: DeltaTable, key: Sequence[str], rows_of_key: str = "") -> None:
    """Record the key of a table that an older version created, in a commit of its own."""
    properties = key_properties(key, rows_of_key)
    try:
        table.alter.set_table_properties(properties, raise_if_not_exists=False)
    except DeltaError as error:
        raise LakeError(
            f"{table.table_uri} cannot be given a property: {error}. Load again."
        ) from error


def is_same_key(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether both name the same columns, in whatever order and case."""
    return _folded(one) == _folded(other)


def _folded(key: Sequence[str]) -> set[str]:
    return {name.lower() for name in key}
