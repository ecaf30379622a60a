"""Tables of an older version with text that is not UTF-8: reading them, and rewriting their files.

Spark wrote them and reads them. delta-rs, which shows and drops rows of a quarantine, refuses such
a file. So its rows are read by Arrow, which does not check text, and before rows are dropped such
files are rewritten in UTF-8, in one commit.
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
from incremental_assets.delta.delta_table import active_paths
from incremental_assets.delta.publish import partition_text
from incremental_assets.delta.read import DataFile, TableFiles, plain_files
from incremental_assets.delta.stage import NO_BATCH, NO_PARTITION, Staged, StagedFile
from incremental_assets.delta.statistics import file_statistics
from incremental_assets.delta_protocol.commit import NO_HOOKS, commit_files, retried_commit
from incremental_assets.errors import LakeError
from incremental_assets.locations import local_path
from incremental_assets.storage import open_file, remove, write_file


def is_invalid_utf8(error: Exception) -> bool:
    """Whether delta-rs failed at a text that is not UTF-8. Its error has no type of its own."""
    return "utf-8" in str(error).lower()


def read_decoded(path: str, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of all rows, with text as a quarantine stores it. Raises LakeError.

    A column that a file does not have yet is null there.
    """
    files = plain_files(path, DeltaTable(path).version())
    found = [_columns(decodable_rows(_rows(path, file)), file, columns) for file in files.files]
    return pl.concat(found, how="diagonal_relaxed") if found else pl.DataFrame(schema=columns)


def rewrite_as_utf8(path: str) -> int:
    """Rewrite the files with text that is not UTF-8, in one commit; the number of files.

    Such a text is stored in base64, so no byte is lost. Raises LakeError, and ConflictError if
    others kept writing; the table is then as it was.
    """

    def attempt() -> int:
        table = DeltaTable(path)
        files = plain_files(path, table.version())
        rewritten = {f.path: new for f in files.files if (new := _rewritten(files, f)) is not None}
        try:
            if rewritten:
                _commit(table, files, rewritten)
        except CommitFailedError:
            for file in rewritten.values():
                remove(f"{path}/{file.path}")
            raise
        return len(rewritten)

    return retried_commit(path, attempt, "Nothing was written")


def _rows(path: str, file: DataFile) -> pa.Table:
    try:
        with open_file(f"{path}/{file.path}") as stream:
            return pq.read_table(stream, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise LakeError(
            f"{path}/{file.path} cannot be read: {error}. Check the disk or the store; if the "
            "file is gone or broken, restore it, or drop the table if its rows are not needed."
        ) from error


def _columns(rows: pa.Table, file: DataFile, columns: Sequence[str]) -> pl.DataFrame:
    """The columns of a file, with those of its partition."""
    frame = pl.DataFrame(rows.select([name for name in columns if name in rows.column_names]))
    partition = {n: pl.lit(v) for n, v in file.partition.items() if n in columns}
    return frame.with_columns(**partition)


def _rewritten(table: TableFiles, file: DataFile) -> StagedFile | None:
    """A staged copy of a file with its text in UTF-8; None if all of it was."""
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
    folders = [f"{name}={NO_PARTITION if v is None else v}" for name, v in partition.items()]
    folder = "/".join([f"{NO_BATCH}-{secrets.token_hex(4)}", *folders])
    local = local_path(table.path)
    if local is not None:
        (local / folder).mkdir(parents=True)
    path = f"{folder}/part-0.parquet"
    write_file(f"{table.path}/{path}", content.getvalue())
    count, statistics = file_statistics(pq.read_metadata(content))
    now = int(time.time() * 1000)
    return StagedFile(path, content.getbuffer().nbytes, now, partition, count, statistics)


def _commit(table: DeltaTable, files: TableFiles, rewritten: dict[str, StagedFile]) -> None:
    if not rewritten.keys() <= active_paths(table):
        raise CommitFailedError("a file was replaced meanwhile")
    sizes = {file.path: file.size for file in files.files}
    now = int(time.time() * 1000)
    staged = Staged(files.path, tuple(rewritten.values()), ())
    removed = [
        RemoveAction(old, True, now, sizes[old], dict(new.partition))
        for old, new in rewritten.items()
    ]
    commit_files(table, [*staged.added(), *removed], note='{"decodable":true}', hooks=NO_HOOKS)
