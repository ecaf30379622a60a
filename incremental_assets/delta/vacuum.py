"""Removing data files that no version within the retention refers to, without a commit.

Not by delta-rs's own VACUUM: that makes two commits, which a load may have to try again for, and
forgets after a week which files a version had. Nor is its list of files (`dry_run`) followed, for
it names deletion vectors that are in use and checksums of files that stay (delta-rs 1.6.6).

The log alone names the files of a version. Kept are the files of the version that was the newest
when the retention began, of the newest one now, of any version that is named, and all files that
were written since.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.delta.delta_table import active_paths
from incremental_assets.delta.stage import is_staged
from incremental_assets.delta_protocol.log_files import DELTA_LOG, log_files
from incremental_assets.errors import LakeError
from incremental_assets.retries import retried
from incremental_assets.storage import (
    StoredFile,
    files_below,
    names_in,
    open_file,
    prune,
    remove,
    write_file,
)

# A load stages its files before it publishes them; loads in progress are considered, too.
STAGED_BEFORE = timedelta(days=1)
# Has the number of the first version whose files are complete.
_MARKER = "_whole_from.json"
_AT_ONCE = 16
_TRIES = 20
_NANOSECONDS = 1_000_000_000


def unreferenced(path: str, since: datetime) -> list[StoredFile]:
    """The data files that no version since a moment refers to.

    Among them are the staged files of a killed load. Files written since, or up to a day before,
    are too young. Raises LakeError if the log does not go back that far.
    """
    youngest = int((since - STAGED_BEFORE).timestamp() * _NANOSECONDS)
    try:
        needed = active_paths(DeltaTable(path, version=version_at(path, since)))
        found = _listed(path)
        needed |= active_paths(DeltaTable(path))  # last: with what was published until now
    except (DeltaError, OSError) as error:
        raise LakeError(
            f"{path}: its log does not show which files are needed ({error}). None was removed; "
            "check whether its log was cut by hand."
        ) from error
    return _without_tables_below(
        path,
        [
            file
            for file in found
            if 0 < file.modified < youngest
            and _is_data(file.path)
            and _data(file.path) not in needed
        ],
    )


def version_at(path: str, moment: datetime) -> int:
    """The newest version at a moment; the first one of a table that is younger.

    Raises LakeError if the log does not go back that far.
    """
    versions = log_files(path).commits
    until = moment.timestamp() * _NANOSECONDS
    there = [version for version, written in versions.items() if written <= until]
    if there:
        return max(there)
    first = min(versions, default=-1)
    if first:
        raise LakeError(
            f"{path}: its log goes back to version {first} only, which is younger than "
            f"{moment:%Y-%m-%d %H:%M} by the time of its file, so the files that were needed then "
            "are unknown. None was removed. If the lake was copied or restored since, the times "
            "are those of the copy: nothing is to be done, it ends by itself "
            "INCREMENTAL_ASSETS_VACUUM_DAYS after that. Otherwise set "
            "delta.logRetentionDuration of the table to more than these days."
        )
    return first


def drop(path: str, files: Sequence[StoredFile]) -> None:
    """Remove these files of a table, and the folders that are empty then. Raises LakeError."""
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda file: remove(f"{path}/{file.path}"), files))
        for folder in {file.path.rpartition("/")[0] for file in files}:
            prune(path, folder)
    except OSError as error:
        raise LakeError(f"{path}: files cannot be removed ({error}). Run again.") from error


def first_complete_version(path: str) -> int:
    """The first version of which VACUUM has removed no file; 0 where it never removed any."""
    try:
        with open_file(f"{path}/{_MARKER}") as stream:
            version: int = json.load(stream)["version"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0
    return version


def announce_removal(path: str, version: int) -> None:
    """Note that files of versions before this one are about to be removed.

    This comes before running loads are listed: so a load is either found there, or reads this.
    Raises LakeError.
    """
    try:
        if version > first_complete_version(path):
            write_file(f"{path}/{_MARKER}", json.dumps({"version": version}).encode())
    except OSError as error:
        raise LakeError(
            f"{path}/{_MARKER} cannot be written ({error.strerror or error}), and without it "
            "readers would not know which files are gone. No file was removed; make a little "
            "room, or make the folder writable, and run again."
        ) from error


def without_needed(
    path: str, files: Sequence[StoredFile], versions: Collection[int]
) -> list[StoredFile]:
    """The files that none of these versions refers to; a version that is gone refers to none."""
    needed: set[str] = set()
    for version in versions:
        with suppress(DeltaError, OSError):
            needed |= active_paths(DeltaTable(path, version=version))
    return [file for file in files if _data(file.path) not in needed]


def _listed(path: str) -> list[StoredFile]:
    # A load that goes on moves what it writes.
    return retried(lambda: files_below(path, skip=_is_hidden), on=FileNotFoundError, tries=_TRIES)


def _without_tables_below(path: str, files: Sequence[StoredFile]) -> list[StoredFile]:
    """The files that are not in another Delta table, which somebody put below this one."""
    others = {tuple(f.path.split("/")[:-1]) for f in files if not is_staged(f.path)}
    folders = {"/".join(parts[:n]) for parts in others for n in range(1, len(parts) + 1)}
    tables = tuple(f"{each}/" for each in folders if names_in(f"{path}/{each}/{DELTA_LOG}"))
    return [file for file in files if not file.path.startswith(tables)]


def _is_hidden(name: str) -> bool:
    """Folders that are no data of the table's, but for partitions by such a column."""
    return name.startswith("_") and "=" not in name and name != "_temporary"


def _is_data(path: str) -> bool:
    """Parquet and its checksums, also where Spark was killed before it renamed them.

    Files of another kind, such as deletion vectors, are referred to in other ways.
    """
    return path.endswith((".parquet", ".parquet.crc"))


def _data(path: str) -> str:
    """The data file that a file is, or is the checksum of."""
    folder, slash, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1 : -len(".crc")]
    return f"{folder}{slash}{name}"
