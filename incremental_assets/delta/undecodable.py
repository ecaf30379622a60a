"""Tables of an older lake in which bytes lie where text should be: read, and written anew.

Spark wrote them and reads them. delta-rs, which drops rows of a quarantine and shows them, refuses
a file with a text that is not UTF-8; so its rows are read by Arrow, which does not look into text,
and where rows are to be dropped such files are written anew first, decodably, in one commit.
"""

from __future__ import annotations

import io
import secrets
import time
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from incremental_assets.decodable import decodable_rows
from incremental_assets.delta.delta_log import active_paths
from incremental_assets.delta.publish import partition_text
from incremental_assets.delta.read import DataFile, TableFiles, plain_files
from incremental_assets.delta.stage import NO_BATCH, NO_PARTITION, Staged, StagedFile
from incremental_assets.delta.statistics import file_statistics
from incremental_assets.delta_commit import NO_HOOKS, commit_files, retried_commit
from incremental_assets.errors import LakeError
from incremental_assets.settings import local_path
from incremental_assets.storage import open_file, remove, write_file


def is_undecodable(error: Exception) -> bool:
    """Whether delta-rs gave up at a text that is not UTF-8. Its error has no type of its own."""
    return "utf-8" in str(error).lower()


def decoded(path: str, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of all rows, with text as a quarantine keeps it. Raises LakeError.

    A column that a file does not have yet is null there.
    """
    files = plain_files(path, DeltaTable(path).version())
    found = [_columns(decodable_rows(_rows(path, file)), file, columns) for file in files.files]
    return pl.concat(found, how="diagonal_relaxed") if found else pl.DataFrame(schema=columns)


def make_decodable(path: str) -> int:
    """Write the files anew that hold text which is not UTF-8, in one commit; how many they were.

    What is kept of such a text tells its bytes. Raises LakeError, and ConflictError if others kept
    writing; the table is then as it was.
    """

    def attempt() -> int:
        table = DeltaTable(path)
        files = plain_files(path, table.version())
        written = {f.path: new for f in files.files if (new := _written_anew(files, f)) is not None}
        try:
            if written:
                _exchange(table, files, written)
        except CommitFailedError:
            for file in written.values():
                remove(f"{path}/{file.path}")
            raise
        return len(written)

    return retried_commit(path, attempt, "Nothing was written")


def _rows(path: str, file: DataFile) -> pa.Table:
    try:
        with open_file(f"{path}/{file.path}") as stream:
            return pq.read_table(stream, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise LakeError(
            f"{path}/{file.path} cannot be read: {error}. Look at the disk or the store; if the "
            "file is gone or broken, restore it, or drop the table if nobody needs its rows."
        ) from error


def _columns(rows: pa.Table, file: DataFile, columns: Sequence[str]) -> pl.DataFrame:
    """The columns of a file, those of its partition with their value."""
    there = [name for name in columns if name in rows.column_names]
    frame = pl.DataFrame(rows.select(there))
    outside = {n: pl.lit(v) for n, v in file.partition.items() if n in columns}
    return frame.with_columns(**outside)


def _written_anew(table: TableFiles, file: DataFile) -> StagedFile | None:
    """A file with its text made decodable, where nobody refers to it; None if all of it was."""
    rows = _rows(table.path, file)
    decoded_rows = decodable_rows(rows)
    if decoded_rows is rows:
        return None
    content = io.BytesIO()
    pq.write_table(decoded_rows, content)
    partition = {
        name: None if value is None else partition_text(value)
        for name, value in file.partition.items()
    }
    places = [f"{name}={NO_PARTITION if v is None else v}" for name, v in partition.items()]
    folder = "/".join([f"{NO_BATCH}-{secrets.token_hex(4)}", *places])
    local = local_path(table.path)
    if local is not None:
        (local / folder).mkdir(parents=True)
    path = f"{folder}/part-0.parquet"
    write_file(f"{table.path}/{path}", content.getvalue())
    count, statistics = file_statistics(pq.read_metadata(content))
    now = int(time.time() * 1000)
    return StagedFile(path, content.getbuffer().nbytes, now, partition, count, statistics)


def _exchange(table: DeltaTable, files: TableFiles, written: dict[str, StagedFile]) -> None:
    if not written.keys() <= active_paths(table):
        raise CommitFailedError("a file was replaced meanwhile")
    sizes = {file.path: file.size for file in files.files}
    now = int(time.time() * 1000)
    staged = Staged(files.path, tuple(written.values()), ())
    removed = [
        RemoveAction(old, True, now, sizes[old], dict(new.partition))
        for old, new in written.items()
    ]
    commit_files(table, [*staged.added(), *removed], note='{"decodable":true}', hooks=NO_HOOKS)
