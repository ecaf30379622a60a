"""The comments of a table and of its columns, in its Delta log: every reader of the log has them.

They are commits of delta-rs, as all of a table's are. Spark's own ALTER TABLE … COMMENT would be
one of Spark, and in an object store its commits and those of delta-rs do not exclude one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from incremental_assets.delta.writable import fields_of
from incremental_assets.delta_protocol.commit import NO_HOOKS, ONCE, retried_commit

_COMMENT = "comment"  # Delta's protocol, "Schema Serialization Format": what Spark shows of a field


@dataclass(frozen=True, slots=True)
class Comments:
    """What a table is, and its columns by name; "" and no entry: no description."""

    table: str
    columns: Mapping[str, str]

    def __len__(self) -> int:
        return bool(self.table) + len(self.columns)


def missing_comments(table: DeltaTable, wanted: Comments) -> Comments:
    """Those of the wanted comments that the table does not have; of columns that it has."""
    found = {f["name"]: (f.get("metadata") or {}).get(_COMMENT) for f in fields_of(table)}
    return Comments(
        wanted.table if wanted.table != (table.metadata().description or "") else "",
        {
            name: text
            for name, text in wanted.columns.items()
            if text and name in found and found[name] != text
        },
    )


def write_comments(path: str, wanted: Comments) -> int:
    """Give the table those of the wanted comments that it does not have; how many those are.

    Each is a commit of its own, which changes no row. Comments of columns without a wanted one stay
    as they are. Raises ConflictError and LakeError.
    """
    written = 0

    def attempt() -> None:
        nonlocal written
        table = DeltaTable(path)
        missing = missing_comments(table, wanted)
        if missing.table:
            table.alter.set_table_description(
                missing.table, commit_properties=ONCE, post_commithook_properties=NO_HOOKS
            )
            written += 1
        for name, text in missing.columns.items():
            table.alter.set_column_metadata(
                name, {_COMMENT: text}, commit_properties=ONCE, post_commithook_properties=NO_HOOKS
            )
            written += 1

    retried_commit(path, attempt, "Not all of its comments were written")
    return written
