"""The key that a table is filled by, recorded with the table: rows of two keys do not mix."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.errors import LakeError

_PROPERTY = "incremental_assets.key"


def key_properties(key: Sequence[str]) -> dict[str, str]:
    """The properties of a table that is filled by the key; none without one."""
    return {_PROPERTY: json.dumps(list(key))} if key else {}


def recorded_key(table: DeltaTable) -> tuple[str, ...]:
    """The key that the table is filled by; empty where none is recorded."""
    return tuple(json.loads(table.metadata().configuration.get(_PROPERTY) or "[]"))


def record_key(table: DeltaTable, key: Sequence[str]) -> None:
    """Record the key of a table that an older version created, in a commit of its own."""
    try:
        table.alter.set_table_properties(key_properties(key), raise_if_not_exists=False)
    except DeltaError as error:
        raise LakeError(
            f"{table.table_uri} cannot be given a property: {error}. Load again."
        ) from error


def is_same_key(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether both name the same columns, in whatever order and case."""
    return _folded(one) == _folded(other)


def _folded(key: Sequence[str]) -> list[str]:
    return sorted(name.lower() for name in key)
