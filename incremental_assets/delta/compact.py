"""Joining the small files of a partition: written aside, and exchanged in one commit.

Not by Spark's `OPTIMIZE`: that reads, writes and commits in one go, so whoever wants to load the
table would wait for all of it, or fail; and on a local disk Delta's own commit excludes no other
process. Here the files are staged while loads go on, and the exchange is a commit of milliseconds
that is made only for partitions of which no file has been replaced meanwhile. It says of every
file that no data changed, so nothing that reads the log takes it for news.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby

from deltalake import DeltaTable
from deltalake.transaction import RemoveAction
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.delta.delta_log import active_paths
from incremental_assets.delta.publish import partition_text
from incremental_assets.delta.read import DataFile, TableFiles, every_file, read_files
from incremental_assets.delta.stage import NO_BATCH, Staged, discard, stage
from incremental_assets.delta_commit import NO_HOOKS, commit_files, retried_commit
from incremental_assets.errors import LakeError
from incremental_assets.frames import quoted

_MEGABYTE = 2**20
# The children of a union are spread over the cores, not put one into the other.
_APART = {"spark.sql.unionOutputPartitioning": "false"}
Place = tuple[str | None, ...]
"""The values of the partition columns, as the log writes them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Files of less than `small` bytes are joined into ones of about `target` bytes.

    Where a partition has fewer than `min_rows` of them they are left alone, so that what is joined
    once is not written anew for every file that comes after it.
    """

    small: int = 32 * _MEGABYTE
    target: int = 128 * _MEGABYTE
    min_rows: int = 4


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Joint:
    """Files of one partition that become one file."""

    place: Place
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def joints(
    table: TableFiles, limits: Limits, keep: Callable[[DataFile], bool] = every_file
) -> list[Joint]:
    """What is to be joined in a version of a table, by partition; nothing where little would be.

    Files are joined in the order of their batches, so that the bounds of `_batch`, by which
    readers skip files, stay narrow.
    """
    small = [file for file in table.files if file.size < limits.small and keep(file)]
    found: list[Joint] = []
    for place, group in groupby(sorted(small, key=lambda f: _order(table, f)), _place_in(table)):
        files = list(group)
        if len(files) >= limits.min_rows:
            found += [Joint(place, some) for some in _packed(files, limits) if len(some) > 1]
    return found


def stage_joined(session: SparkSession, table: TableFiles, some: Sequence[Joint]) -> Staged:
    """Write a file for each joint, where nobody sees it. One Spark job, a task per file.

    Raises LakeError if a row were lost or doubled by it.
    """
    for name, value in _APART.items():
        session.conf.set(name, value)
    frames = [read_files(session, table, joint.files).coalesce(1) for joint in some]
    order = [name for name in (*table.partition_by, "_batch") if name in table.schema.names]
    rows = reduce(DataFrame.unionByName, frames)
    if order:
        rows = rows.sortWithinPartitions(*map(quoted, order))
    staged = stage(rows, table.path, NO_BATCH, table.partition_by)
    known = [file.rows for joint in some for file in joint.files]
    counted, wanted = sum(staged.rows.values()), sum(rows or 0 for rows in known)
    if None not in known and counted != wanted:
        discard(staged)
        raise LakeError(
            f"{table.path}: {wanted} rows became {counted} when their files were joined. Nothing "
            "was exchanged; look whether somebody wrote the table's files by hand."
        )
    return staged


def exchange(staged: Staged, some: Sequence[Joint]) -> list[Joint]:
    """Put staged files in the place of those that they join; those joints that it was done for.

    A partition of which such a file is gone by now is left as it is. Raises ConflictError if
    others kept writing, and LakeError.
    """

    def attempt() -> list[Joint]:
        table = DeltaTable(staged.table_path)
        there = active_paths(table)
        lost = {j.place for j in some if any(file.path not in there for file in j.files)}
        done = [joint for joint in some if joint.place not in lost]
        if done:
            _commit(table, staged, done)
        return done

    return retried_commit(staged.table_path, attempt, "Nothing was exchanged")


def discard_other(staged: Staged, done: Iterable[Joint]) -> None:
    """Remove what was staged for partitions that are not among those done, if it is in no table."""
    places = {joint.place for joint in done}
    there = active_paths(DeltaTable(staged.table_path))
    files = (f for f in staged.files if tuple(f.partition.values()) not in places)
    discard(replace(staged, files=tuple(f for f in files if f.path not in there)))


def _commit(table: DeltaTable, staged: Staged, done: Sequence[Joint]) -> None:
    names = table.metadata().partition_columns
    places = {joint.place for joint in done}
    mine = (f for f in staged.files if tuple(f.partition[name] for name in names) in places)
    added = replace(staged, files=tuple(mine)).added(data_change=False)
    now = int(time.time() * 1000)
    removed = [
        RemoveAction(f.path, False, now, f.size, dict(zip(names, joint.place, strict=True)))
        for joint in done
        for f in joint.files
    ]
    commit_files(table, [*added, *removed], note='{"joined":true}', hooks=NO_HOOKS)


def _packed(files: Sequence[DataFile], limits: Limits) -> list[tuple[DataFile, ...]]:
    packed: list[tuple[DataFile, ...]] = []
    some: list[DataFile] = []
    for file in files:
        if some and sum(f.size for f in some) + file.size > limits.target:
            packed.append(tuple(some))
            some = []
        some.append(file)
    return [*packed, tuple(some)]


def _place_in(table: TableFiles) -> Callable[[DataFile], Place]:
    def place(file: DataFile) -> Place:
        values = (file.partition[name] for name in table.partition_by)
        return tuple(None if value is None else partition_text(value) for value in values)

    return place


def _order(table: TableFiles, file: DataFile) -> tuple[tuple[str, ...], int, str]:
    place = tuple(text or "" for text in _place_in(table)(file))
    return place, file.first_batch or 0, file.path
