"""Whether a commit of staged files is right for a table as it is.

Such a commit writes plain Parquet files and checks no constraint, so tables with features that need
more are refused: Delta's readers would give other rows than were written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import DeltaTable

from incremental_assets.delta_protocol.log_files import PLAIN_FEATURES
from incremental_assets.errors import LakeError

CHANGE_FEED = "delta.enableChangeDataFeed"
_APPEND_ONLY = "delta.appendOnly"
_COLUMN_MAPPING = "delta.columnMapping.mode"
_DELETION_VECTORS = "delta.enableDeletionVectors"
# Those with which delta-rs 1.6.6 commits. What some of them switch on is refused by its property.
_WRITTEN = PLAIN_FEATURES | {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "generatedColumns",
    "invariants",
}
_IDENTITY_WRITER = 6
"""The last writer version without a list of features; it stands for identity columns."""
REMOVE_AND_REBUILD = (
    "Of silver and gold: remove the table's folder, run `incremental-assets ledger rebuild "
    "TABLE`, and load it again. Of bronze: if the source still has all that was loaded, the same, "
    "together with the tables that read it; otherwise restore the table from a backup. A loader's "
    "target: load into an empty target_path, with an empty watermark_path."
)
_CONSTRAINT = "delta.constraints."
_COMPUTED = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


def require_plain_writes(table: DeltaTable, path: str) -> None:
    """Raise LakeError for a table to which a commit of plain files alone would be wrong."""
    require_known_features(table, path)
    if setting(table, CHANGE_FEED) == "true":
        # Delta's protocol, "Change Data Files": without them a reader of the feed takes all rows of
        # a file that was rewritten for deleted and inserted.
        raise LakeError(
            f"{path} has Delta's change data feed switched on ({CHANGE_FEED}), by hand or by a "
            "default of the Spark that created it. Its commits would give wrong change rows. "
            f"Nothing was published. Switch it off, and run again: ALTER TABLE delta.`{path}` SET "
            f"TBLPROPERTIES ({CHANGE_FEED} = false). What a batch changed are the rows with its "
            "number in _batch."
        )
    if setting(table, _APPEND_ONLY) == "true":
        raise LakeError(
            f"{path} is append-only ({_APPEND_ONLY}), so no load can replace its rows. Nothing "
            f"was published. Switch it off, and run again: ALTER TABLE delta.`{path}` SET "
            f"TBLPROPERTIES ({_APPEND_ONLY} = false)."
        )
    if has_column_mapping(table):
        raise LakeError(
            f"{path} has Delta's column mapping switched on ({_COLUMN_MAPPING}). New files name "
            "their columns plainly, and readers would find none of a column that was renamed. "
            f"Nothing was published. {without_column_mapping(path)}"
        )
    named = (name.lower() for name in table.metadata().configuration)
    unchecked = sorted(name for name in named if name.startswith(_CONSTRAINT))
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
    if may_have_deletion_vectors(table):
        raise LakeError(
            f"{path} uses deletion vectors, so its files cannot be replaced. Nothing was "
            f"published. {without_deletion_vectors(path)}"
        )


def require_known_features(table: DeltaTable, path: str) -> None:
    """Raise LakeError for a table with a feature with which delta-rs makes no commit."""
    protocol = table.protocol()
    unknown = set(protocol.writer_features or ()) - _WRITTEN
    if protocol.min_writer_version == _IDENTITY_WRITER:
        unknown.add("identityColumns")
    if unknown:
        raise LakeError(
            f"{path} has {', '.join(sorted(unknown))}, by hand or by a default of another program: "
            "features of Delta with which no load can write it. Nothing was published. DROP "
            "FEATURE leaves most such tables with another of these features. "
            f"{REMOVE_AND_REBUILD}"
        )


def has_column_mapping(table: DeltaTable) -> bool:
    """Whether files name their columns otherwise than the schema does.

    The feature stays in the protocol when the mode is none again.
    """
    return setting(table, _COLUMN_MAPPING) not in {"", "none"}


def may_have_deletion_vectors(table: DeltaTable) -> bool:
    """Whether a file of the table has a deletion vector, or may get one from other writers.

    The feature stays in the protocol when the table has none any more. Raises DeltaError and
    OSError if a vector cannot be read.
    """
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return False
    if setting(table, _DELETION_VECTORS) == "true":
        return True
    return any(batch.num_rows for batch in table.deletion_vectors())


def without_column_mapping(path: str) -> str:
    """How to rewrite a table without column mapping."""
    return (
        "Rewrite the table without it, and run again: "
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({_COLUMN_MAPPING} = 'none')"
    )


def without_deletion_vectors(path: str) -> str:
    """How to rewrite a table without deletion vectors."""
    return (
        "Switch them off, rewrite the files that have one, and run again: "
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({_DELETION_VECTORS} = false); "
        f"REORG TABLE delta.`{path}` APPLY (PURGE)"
    )


def setting(table: DeltaTable, name: str) -> str:
    """The value of a table's property in lower case; "" without one."""
    settings = {each.lower(): v for each, v in table.metadata().configuration.items()}
    return (settings.get(name.lower()) or "").lower()


def fields_of(table: DeltaTable) -> Sequence[Mapping[str, Any]]:
    """The columns, as the fields of Delta's schema."""
    fields: Sequence[Mapping[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return fields


def _special(field: Mapping[str, Any]) -> list[str]:
    return [name for name in _COMPUTED if name in (field.get("metadata") or {})]
