"""Whether a commit of staged files is right for a table as it is.

Such a commit writes plain Parquet files and checks no constraint, so tables with features that need
more are refused: Delta's readers would give other rows than were written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import DeltaTable

from incremental_assets.errors import LakeError

CHANGE_FEED = "delta.enableChangeDataFeed"
_COLUMN_MAPPING = "delta.columnMapping.mode"
_CONSTRAINT = "delta.constraints."
_COMPUTED = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


def require_plain_writes(table: DeltaTable, path: str) -> None:
    """Raise LakeError for a table to which a commit of plain files alone would be wrong."""
    settings = {name.lower(): v for name, v in table.metadata().configuration.items()}
    if (settings.get(CHANGE_FEED.lower()) or "").lower() == "true":
        # Delta's protocol, "Change Data Files": without them a reader of the feed takes all rows of
        # a file that was rewritten for deleted and inserted.
        raise LakeError(
            f"{path} has Delta's change data feed switched on ({CHANGE_FEED}), by hand or by a "
            "default of the Spark that created it. Its commits would give wrong change rows. "
            f"Nothing was published. Switch it off, and run again: ALTER TABLE delta.`{path}` SET "
            f"TBLPROPERTIES ({CHANGE_FEED} = false). What a batch changed are the rows with its "
            "number in _batch."
        )
    if (settings.get(_COLUMN_MAPPING.lower()) or "none").lower() != "none":
        raise LakeError(
            f"{path} has Delta's column mapping switched on ({_COLUMN_MAPPING}). New files name "
            "their columns plainly, and readers would find none of a column that was renamed. "
            f"Nothing was published. Rewrite the table without it (ALTER TABLE delta.`{path}` "
            f"SET TBLPROPERTIES ({_COLUMN_MAPPING} = 'none')), and run again."
        )
    unchecked = sorted(name for name in settings if name.startswith(_CONSTRAINT))
    unchecked += [f"{f['name']} ({name})" for f in fields_of(table) for name in _special(f)]
    if unchecked:
        raise LakeError(
            f"{path} has {', '.join(unchecked)}: a commit of staged files checks no constraint "
            "and computes no column. Nothing was published. Drop it (ALTER TABLE … DROP "
            "CONSTRAINT), declare the same as a rule of the table, and run again."
        )


def require_whole_files(table: DeltaTable, path: str) -> None:
    """Raise LakeError where a file cannot be removed by its path alone.

    With deletion vectors a file is known by its path and its vector, so the removal would be of
    none, and its rows would be there twice.
    """
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise LakeError(
            f"{path} uses deletion vectors, so its files cannot be replaced. Nothing was "
            f"published. Rewrite the table (REORG TABLE delta.`{path}` APPLY (PURGE)), take the "
            f"feature away (ALTER TABLE delta.`{path}` DROP FEATURE deletionVectors), and run "
            "again."
        )


def fields_of(table: DeltaTable) -> Sequence[Mapping[str, Any]]:
    """The columns, as the fields of Delta's schema."""
    fields: Sequence[Mapping[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields


def _special(field: Mapping[str, Any]) -> list[str]:
    return [name for name in _COMPUTED if name in (field.get("metadata") or {})]
