"""Tables beside a table: rows that belong to a batch and are not readable in the table itself.

They are written before the batch commits, and only ever added to. So a batch that is given up
takes its rows away again by its number, without a JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame

from incremental_assets.errors import LakeError
from incremental_assets.lake.delta_log import (
    FENCE,
    ensure_table,
    find_commit,
    open_table,
    put_fence,
    transaction,
)
from incremental_assets.lake.publish import publish
from incremental_assets.lake.stage import discard_batch, folder_of, stage
from incremental_assets.lake.transaction import Transaction


def put_beside(
    rows: DataFrame,
    path: str,
    name: str,
    batch: int,
    columns: Sequence[tuple[str, str]],
    partition_by: Sequence[str] = (),
) -> int:
    """Add the rows of a batch, which have a column `_batch`; how many they were.

    `columns` are those that the table is made with, names and Delta types; others are added.
    """
    ensure_table(path, name, columns, partition_by)
    staged = stage(rows, path, folder_of(name, batch), partition_by)
    publish(staged, Transaction(name, batch, f'{{"batch":{batch}}}'))
    return sum(file.rows for file in staged.files)


def abandon_beside(path: str, name: str, batch: int, own: Mapping[str, str] | None = None) -> None:
    """Drop the rows of a batch that was given up, for good.

    `own` are columns that tell its rows from those of others who number their batches likewise.
    Its writer may still be alive, so its number is fenced here, too, before the rows are dropped.
    """
    if open_table(path) is None:
        return
    while transaction(path, name) < batch:
        put_fence(path, name, batch)
    mine = [f"{column} = {_literal(value)}" for column, value in (own or {}).items()]
    delete_beside(path, " AND ".join([f"_batch = {batch}", *mine]))
    commit = find_commit(path, name, batch)
    if commit is None or commit.note.get(FENCE):
        discard_batch(path, name, batch)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def delete_beside(path: str, predicate: str) -> None:
    """Drop the rows that meet a condition. Raises LakeError."""
    if open_table(path) is None:
        return
    try:
        DeltaTable(path).delete(predicate)
    except DeltaError as error:
        raise LakeError(f"{path}: rows cannot be dropped ({error}). Run again.") from error
