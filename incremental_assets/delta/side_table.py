"""Side tables: rows of a batch that the table itself does not show.

Tombstones, superseded versions, conflicts, quarantine. They are appended before the batch commits,
and so the rows of an abandoned batch can be removed by its number, without a JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.delta.columns import BATCH, DELETED, TABLE, WHY
from incremental_assets.delta.delta_log import FENCE, ensure_number, find_commit, transaction
from incremental_assets.delta.delta_table import ensure_table, field_of, open_table, version_of
from incremental_assets.delta.legacy_text import is_invalid_utf8, rewrite_as_utf8
from incremental_assets.delta.literals import sql_text
from incremental_assets.delta.publish import publish, remove_files
from incremental_assets.delta.read import (
    DataFile,
    TableFiles,
    data_files,
    plain_files,
    read_files,
)
from incremental_assets.delta.stage import discard_batch, folder_of, stage
from incremental_assets.delta.transaction import Transaction
from incremental_assets.errors import IncrementalAssetsError, LakeError

SIDE_ROWS, CONFLICTS = "beside", "ties of"
"""The Delta applications of a load in the log of its side table begin with these."""
SIDE_COLUMNS = ((BATCH, "long"), (TABLE, "string"), (DELETED, "boolean"), (WHY, "string"))


def side_table_of(path: str) -> str:
    """The path of the side table with the tombstones, superseded versions and conflicts."""
    return f"{path}/_beside"


def quarantine_name(table: str) -> str:
    """The Delta application of a table's loads in the log of its quarantine."""
    return f"quarantine of {table}"


def last_number(path: str, quarantine: str, table: str) -> int:
    """The highest batch number that a table, its side table or its quarantine has ever had."""
    side = side_table_of(path)
    logs = (
        (path, table),
        (side, f"{SIDE_ROWS} {table}"),
        (side, f"{CONFLICTS} {table}"),
        (quarantine, quarantine_name(table)),
    )
    return max(transaction(log, app) for log, app in logs)


def side_rows(session: SparkSession, path: str) -> DataFrame | None:
    """The rows of a side table; None where there are none.

    Without a file it may lack columns: older versions created it in more than one commit.
    """
    table = side_files(path)
    return read_files(session, table, table.files) if table is not None else None


def side_files(path: str) -> TableFiles | None:
    """The files of a side table; None where there are none."""
    there = open_table(path)
    return plain_files(path, there.version()) if there is not None and there.file_uris() else None


def put_side_rows(
    rows: DataFrame,
    path: str,
    name: str,
    batch: int,
    columns: Sequence[tuple[str, str]],
    partition_by: Sequence[str] = (),
) -> int:
    """Append the rows of a batch, which have a column `_batch`; the number of rows.

    The table is created with all columns at once: the rows' own and `columns`, names and Delta
    types.
    """
    own = [(field["name"], field["type"]) for field in map(field_of, rows.schema.fields)]
    ensure_table(path, name, list((dict(columns) | dict(own)).items()), partition_by)
    staged = stage(rows, path, folder_of(name, batch), partition_by)
    publish(staged, Transaction(name, batch, f'{{"batch":{batch}}}'))
    return sum(file.rows for file in staged.files)


def abandon_side_rows(
    path: str,
    name: str,
    batch: int,
    own: Mapping[str, str] | None = None,
    columns: Sequence[tuple[str, str]] = (),
) -> None:
    """Drop the rows of an abandoned batch.

    `own` are columns, with values, that separate its rows from those of other loads with the same
    batch number. Its writer may still be alive, so its number is fenced here, too, before the drop:
    with `columns` also in a table that is not there yet, and that the writer would create.
    """
    if open_table(path) is None:
        if not columns:
            return
        ensure_table(path, name, columns, ())
    fence_side_table(path, name, batch)
    staged = f"{folder_of(name, batch)}-"

    def whole(file: DataFile) -> bool:
        alone = not own and file.first_batch == file.last_batch == batch
        return alone or file.path.startswith(staged)

    mine = [f"{column} = {sql_text(value)}" for column, value in (own or {}).items()]
    delete_side_rows(path, " AND ".join([f"_batch = {batch}", *mine]), whole)
    commit = find_commit(path, name, batch)
    if commit is None or commit.note.get(FENCE):
        discard_batch(path, name, batch)


def fence_side_table(path: str, name: str, batch: int) -> None:
    """Make it impossible to add rows of an abandoned batch, if the table exists."""
    ensure_number(path, name, batch)


def _none(_: DataFile) -> bool:
    return False


def delete_side_rows(path: str, predicate: str, whole: Callable[[DataFile], bool] = _none) -> None:
    """Drop the rows that meet a condition. Raises LakeError.

    `whole` selects files all of whose rows do. They are removed by the log alone, even if their
    text is no UTF-8; others are rewritten without the rows, after text of an older version that is
    no UTF-8 has been made so.
    """
    if open_table(path) is None:
        return
    try:
        files = data_files(path, version_of(path))
        if not files:  # an older version may have made it without the columns of the condition
            return
        remove_files(path, [f.path for f in files if whole(f)])
        try:
            DeltaTable(path).delete(predicate)
        except DeltaError as error:
            if not (is_invalid_utf8(error) and rewrite_as_utf8(path)):
                raise
            DeltaTable(path).delete(predicate)
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path}: rows cannot be dropped ({error}). Run again.") from error


@contextmanager
def cleanup(what: str, log: Callable[[str], None]) -> Iterator[None]:
    """Clean-up, on which no result depends: an error in it is logged, and not raised."""
    try:
        yield
    except (IncrementalAssetsError, OSError) as error:
        log(
            f"warning: {what} could not be removed: {error} They do not count, and no reader of "
            "the table sees them; a later load, or maintenance, removes them."
        )
