"""The files that commits of a Delta table added, read from its log without Spark."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import StructType

from incremental_assets.delta_protocol.log_files import (
    DELTA_LOG,
    PLAIN_FEATURES,
    actions_at,
    actions_of,
    commit_bytes,
    commit_file,
    log_files,
)
from incremental_assets.errors import SourceError
from incremental_assets.locations import local_path
from incremental_assets.sources.path_columns import folder_values
from incremental_assets.sources.source_file import not_readable
from incremental_assets.storage import open_store

# With these, the rows of a file without a deletion vector are what its Parquet holds.
_PLAIN_BUT_FOR_DELETIONS = PLAIN_FEATURES | {"deletionVectors", "vacuumProtocolCheck"}


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A data file that a commit added: its path relative to the table, and its size in bytes.

    `partition` are the log's own texts. Of some rows of a file, a deletion vector may say that
    they are deleted; and a later commit may have put the same rows into another file.
    """

    path: str
    size: int
    partition: tuple[tuple[str, str | None], ...] = ()
    has_deletions: bool = False
    rewritten: bool = False

    @property
    def has_partition_in_path(self) -> bool:
        """Whether the folders of the path name the values that the log gives."""
        found = folder_values([self.path])
        return all(
            name in found and found[name][self.path] == value for name, value in self.partition
        )


@dataclass(frozen=True, slots=True)
class CommittedFiles:
    """What commits added: files whose rows are new, if nothing was removed.

    `complete` is False where the files are not all of it: the log lacks commits, or a
    file can no longer be read by itself. `removed` means that a commit also deleted or changed
    rows. In both cases only the table as a whole shows what is new.
    """

    files: tuple[DeltaFile, ...]
    complete: bool
    removed: bool


@dataclass(frozen=True, slots=True)
class DeltaShape:
    """The columns of a version, and whether its files can be read as plain Parquet."""

    columns: StructType
    partition_by: tuple[str, ...]
    plain: bool


def table_root(path: str) -> str:
    """The folder of a table, absolute on a local disk."""
    local = local_path(path)
    return path.rstrip("/") if local is None else os.path.abspath(local.expanduser())


def newest_commit(path: str) -> tuple[int, str]:
    """The newest version of a table, and a digest of its commit, as `commit_digest` gives it.

    Raises SourceError if its log cannot be read.
    """
    root = table_root(path)
    try:
        log = log_files(root)
    except OSError as error:
        raise not_readable(error.filename or root, error) from error
    newest = max(log.commits.keys() | log.checkpoints, default=None)
    if newest is None:
        raise _broken(root, "it holds no commit")
    first = newest  # the oldest version from which the log has every commit
    while first in log.commits and first not in log.checkpoints:
        first -= 1
    if first not in log.checkpoints | {-1}:
        raise _broken(root, f"version {first} is missing, and no checkpoint follows it")
    with _reading(root, newest):
        text = commit_bytes(root, newest)
        if text is None:
            return newest, ""
        actions_of(text)  # raises where it is cut off
    return newest, _digest(text)


def commit_digest(path: str, version: int) -> str:
    """A digest that differs where another table replaced this one.

    "" where the log no longer has the commit. Raises SourceError if it cannot be read.
    """
    root = table_root(path)
    with _reading(root, version):
        text = commit_bytes(root, version)
    return "" if text is None else _digest(text)


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def delta_files_since(path: str, low_version: int, high_version: int) -> CommittedFiles:
    """The files that the commits after `low_version`, up to `high_version`, added with new data.

    Commits that only rearrange rows (OPTIMIZE) add nothing. Raises SourceError if a commit cannot
    be read.
    """
    root = table_root(path)
    files: dict[str, DeltaFile] = {}
    removed = False
    complete = low_version <= high_version
    for version in range(low_version + 1, high_version + 1):
        with _reading(root, version):
            actions = actions_at(root, version)
        if actions is None:
            complete = False
            continue
        # A deletion vector replaces a file by itself, in any order of the two actions.
        for removal in (action["remove"] for action in actions if "remove" in action):
            removed |= bool(removal["dataChange"])
            _take_out(files, removal)
        for added in (action["add"] for action in actions if "add" in action):
            _put_in(files, added)
    found = tuple(sorted(files.values(), key=lambda file: file.path))
    complete &= all("://" not in file.path and not file.path.startswith("/") for file in found)
    lost = complete and any(file.rewritten for file in found)
    if lost and not _still_there(root, high_version, found):
        complete = False
    return CommittedFiles(found, complete, removed)


def shape_of(path: str, version: int) -> DeltaShape | None:
    """The columns of a version; None where delta-rs cannot open it."""
    try:
        table = DeltaTable(table_root(path), version=version)
        metadata, protocol = table.metadata(), table.protocol()
        columns = StructType.fromJson(json.loads(table.schema().to_json()))
    except (DeltaError, OSError, ValueError):
        return None
    mapped = metadata.configuration.get("delta.columnMapping.mode", "none") != "none"
    plain = not mapped and not set(protocol.reader_features or ()) - _PLAIN_BUT_FOR_DELETIONS
    return DeltaShape(columns, tuple(metadata.partition_columns), plain)


def version_size(path: str, version: int) -> int:
    """Bytes of a version's data files; beyond all bounds where delta-rs cannot open it."""
    try:
        files = DeltaTable(table_root(path), version=version).get_add_actions()
        return sum(pa.table(files)["size_bytes"].to_pylist())
    except (DeltaError, OSError, ValueError):
        return 2**62


def can_be_read_alone(shape: DeltaShape | None, files: tuple[DeltaFile, ...]) -> bool:
    """Whether Spark can read the files as Parquet, without Delta's reader."""
    return (
        shape is not None
        and shape.plain
        and all(not file.has_deletions and file.has_partition_in_path for file in files)
    )


def _take_out(files: dict[str, DeltaFile], removal: Mapping[str, Any]) -> None:
    path = unquote(removal["path"])
    if path not in files:
        return
    if removal["dataChange"]:
        del files[path]
    else:
        files[path] = replace(files[path], rewritten=True)


def _put_in(files: dict[str, DeltaFile], added: Mapping[str, Any]) -> None:
    path = unquote(added["path"])
    if not added["dataChange"] and path not in files:
        return
    values = added.get("partitionValues") or {}
    files[path] = DeltaFile(
        path,
        int(added["size"]),
        tuple((name, value or None) for name, value in values.items()),
        has_deletions=bool(added.get("deletionVector")),
    )


def _still_there(root: str, version: int, files: tuple[DeltaFile, ...]) -> bool:
    """Whether files that are no part of the table any more can be read nevertheless."""
    if not can_be_read_alone(shape_of(root, version), files):
        return False
    local = local_path(root)
    if local is not None:
        return all((local / file.path).exists() for file in files)
    store, inside = open_store(root)
    return all(store.exists(f"{inside}/{file.path}") for file in files if file.rewritten)


@contextmanager
def _reading(root: str, version: int) -> Iterator[None]:
    """Reads a commit: raises SourceError where that cannot be done."""
    try:
        yield
    except OSError as error:
        raise not_readable(commit_file(root, version), error) from error
    except ValueError as error:
        raise _broken(root, f"its commit {version} is not JSON ({error})") from error


def _broken(root: str, what: str) -> SourceError:
    return SourceError(
        f"The Delta log of {root} cannot be read: {what}. Nothing was loaded; restore "
        f"{root}/{DELTA_LOG} from a backup, or write the table again, and run again."
    )
