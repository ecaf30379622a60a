"""Publishing staged files: one commit of the Delta log, with the batch number in it.

The commit is made by delta-rs without a JVM. If anybody committed in between, the table is read
again and the decision is made again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake.transaction import RemoveAction

from incremental_assets.delta.delta_table import active_paths, schema_of
from incremental_assets.delta.stage import Staged
from incremental_assets.delta.transaction import Transaction
from incremental_assets.delta.writable import (
    fields_of,
    require_plain_writes,
    require_whole_files,
)
from incremental_assets.delta_protocol.commit import (
    NO_HOOKS,
    commit_files,
    retried_commit,
    write_due_checkpoint,
)
from incremental_assets.errors import ConflictError, DefinitionError, LakeError


def publish(
    staged: Staged,
    transaction: Transaction,
    *,
    replaced_days: Collection[date] = (),
    replaced_files: Collection[str] = (),
    replaced_by: tuple[str, Collection[Any]] | None = None,
    searched_files: Collection[str] | None = None,
) -> None:
    """Make the staged files part of the table, instead of those that they replace.

    Removed are all files of `replaced_days`, `replaced_files` (paths as the log has them), and the
    files of the partitions that `replaced_by` names: a column, and values of it. `searched_files`
    are all the files in which keys were looked up: a file that is not among them may hold one of
    the keys. New columns are added to the table. Raises ConflictError, and publishes nothing, if
    the transaction number was used or fenced meanwhile, or if another program replaced such a file;
    LakeError for a table to which plain files cannot be written, or with a column that is NOT NULL.
    """

    def attempt() -> None:
        table = DeltaTable(staged.table_path)
        if (table.transaction_version(transaction.app_id) or 0) >= transaction.number:
            raise ConflictError(
                f"{transaction.app_id}: batch {transaction.number} was abandoned by another run "
                "while this one was writing. Nothing of it was published; run again."
            )
        require_plain_writes(table, staged.table_path)
        _require_values(table, staged)
        new = _new_columns(staged, table)
        if new:
            table.alter.add_columns(new, post_commithook_properties=NO_HOOKS)
            attempt()
            return
        if searched_files is not None:
            _require_known(table, transaction, searched_files)
        column, values = replaced_by or ("dt", replaced_days)
        commit_files(
            table,
            [*staged.added(), *_removed(table, column, values, replaced_files)],
            note=transaction.note,
            transaction=(transaction.app_id, transaction.number),
            hooks=NO_HOOKS,
        )
        write_due_checkpoint(table, staged.table_path, table.version() + 1)

    retried_commit(staged.table_path, attempt, "Nothing was published")


def remove_files(path: str, files: Collection[str]) -> None:
    """Remove files from a table by its log alone: their rows need not be readable.

    Files that are no longer in the table are ignored. Raises ConflictError and LakeError.
    """

    def attempt() -> None:
        table = DeltaTable(path)
        removed = _removed(table, "", (), active_paths(table) & set(files))
        if removed:
            commit_files(table, removed, hooks=NO_HOOKS)
            write_due_checkpoint(table, path, table.version() + 1)

    retried_commit(path, attempt, "Nothing was removed")


def _require_known(
    table: DeltaTable, transaction: Transaction, searched_files: Collection[str]
) -> None:
    unknown = sorted(active_paths(table) - set(searched_files))
    if unknown:
        raise ConflictError(
            f"{table.table_uri}: another program wrote {unknown[0]} while batch "
            f"{transaction.number} of {transaction.app_id} was being merged. Nothing was "
            "published; run again."
        )


def _require_values(table: DeltaTable, staged: Staged) -> None:
    """Raise LakeError where a file has a null in a column that is NOT NULL in the table.

    As far as the statistics of the files show it: of the first 32 columns, and of no nested ones.
    """
    needed = {f["name"] for f in fields_of(table) if not f["nullable"]}
    needed -= set(table.metadata().partition_columns)
    lacking = needed - {field["name"] for field in staged.fields}
    for file in staged.files if needed else ():
        nulls = json.loads(file.statistics).get("nullCount", {})
        for name in sorted(needed):
            rows = file.rows if name in lacking else nulls.get(name, 0)
            if rows:
                raise LakeError(
                    f"{staged.table_path}: {name} is NOT NULL in the table, and {rows:,} of the "
                    "rows that were to be written have no value. Nothing was published. "
                    "Quarantine them by a rule, or ALTER TABLE "
                    f"delta.`{staged.table_path}` ALTER COLUMN {name} DROP NOT NULL, and run again."
                )


def _removed(
    table: DeltaTable, column: str, values: Collection[Any], files: Collection[str]
) -> list[RemoveAction]:
    if not (values or files):
        return []
    now = int(time.time() * 1000)
    partition_by = table.metadata().partition_columns
    active = pa.table(table.get_add_actions(flatten=True))
    paths = [unquote(path) for path in active["path"].to_pylist()]
    sizes = active["size_bytes"].to_pylist()
    partitions = {name: active[f"partition.{name}"].to_pylist() for name in partition_by}
    missing = set(files) - set(paths)
    if missing:
        raise ConflictError(
            f"{table.table_uri}: {min(missing)} was replaced by another program (by OPTIMIZE, for "
            "example) while it was being rewritten. Nothing was published; run again."
        )
    found = []
    for at, path in enumerate(paths):
        partition = {name: partitions[name][at] for name in partition_by}
        if path in files or (column in partition and partition[column] in values):
            texts = {n: None if v is None else partition_text(v) for n, v in partition.items()}
            found.append(RemoveAction(path, True, now, sizes[at], texts))
    if found:
        require_whole_files(table, table.table_uri)
    return found


def partition_text(value: Any) -> str:
    """A partition value as Delta's protocol writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return str(value)


def _new_columns(staged: Staged, table: DeltaTable) -> list[Field]:
    """The columns that the table lacks. Raises DefinitionError for a column of another type."""
    have = {f["name"].lower(): f for f in fields_of(table)}
    new: list[Mapping[str, Any]] = []
    for field in staged.fields:
        known = have.get(field["name"].lower())
        if known is None:
            new.append(field)
        elif _plain(known["type"]) != _plain(field["type"]):
            raise DefinitionError(
                f"{staged.table_path}: column {field['name']} is {known['type']} in the table and "
                f"{field['type']} in what was to be written. Give the transform's column the "
                "table's type, or a new name. Nothing was published."
            )
    return list(schema_of(staged.table_path, new).fields)


def _plain(kind: Any) -> str:
    """A type without nullability and metadata, in which the two may differ."""
    if isinstance(kind, dict):
        inner = {k: _plain(v) for k, v in kind.items() if k not in _NOT_TYPE}
        return json.dumps(inner, sort_keys=True)
    if isinstance(kind, list):
        return json.dumps([_plain(each) for each in kind])
    return str(kind)


_NOT_TYPE = frozenset({"nullable", "metadata", "containsNull", "valueContainsNull"})
