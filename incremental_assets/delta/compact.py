"""Compaction: the small files of a partition become one; they are staged, and committed at once.

Not by Spark's `OPTIMIZE`: that reads, writes and commits in one go, so a load of the table would
wait for all of it, or fail; and on a local disk Delta's own commit excludes no other process. Here
the files are staged while loads go on. The commit takes milliseconds and leaves out partitions of
which a file has been replaced meanwhile. It records of every file that no data changed, so nothing
that reads the log takes it for new data.
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

from incremental_assets.delta.delta_table import active_paths
from incremental_assets.delta.publish import partition_text
from incremental_assets.delta.read import DataFile, TableFiles, every_file, read_files
from incremental_assets.delta.stage import NO_BATCH, Staged, discard, stage
from incremental_assets.delta_protocol.commit import NO_HOOKS, commit_files, retried_commit
from incremental_assets.errors import LakeError
from incremental_assets.frames import quoted

_MEGABYTE = 2**20
# The children of a union are spread over the cores, not put one into the other.
_PARALLEL_UNION = {"spark.sql.unionOutputPartitioning": "false"}
_NOTE = '{"joined":true}'
PartitionValues = tuple[str | None, ...]
"""The values of the partition columns, as the log writes them."""


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """Files of less than `small` bytes are compacted into ones of about `target` bytes.

    A partition with fewer than `min_files` small files is left alone, so that a compacted file is
    not rewritten for every file that comes after it.
    """

    small: int = 32 * _MEGABYTE
    target: int = 128 * _MEGABYTE
    min_files: int = 4


DEFAULT_LIMITS = CompactionLimits()


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """Files of one partition that become one file."""

    partition: PartitionValues
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def compaction_groups(
    table: TableFiles, limits: CompactionLimits, keep: Callable[[DataFile], bool] = every_file
) -> list[CompactionGroup]:
    """What a version of a table is compacted to, by partition; `keep` names the files to consider.

    Files of neighbouring batches are put together, so that the bounds of `_batch`, by which
    readers skip files, stay narrow.
    """
    small = [file for file in table.files if file.size < limits.small and keep(file)]
    groups: list[CompactionGroup] = []
    by_partition = groupby(sorted(small, key=lambda f: _order(table, f)), _partition_in(table))
    for partition, some in by_partition:
        files = list(some)
        if len(files) >= limits.min_files:
            packed = _packed(files, limits)
            groups += [CompactionGroup(partition, each) for each in packed if len(each) > 1]
    return groups


def stage_compaction(
    session: SparkSession, table: TableFiles, groups: Sequence[CompactionGroup]
) -> Staged:
    """Stage a file for each group. One Spark job, a task per file.

    Raises LakeError if a row were lost or doubled by it.
    """
    for name, value in _PARALLEL_UNION.items():
        session.conf.set(name, value)
    frames = [read_files(session, table, group.files).coalesce(1) for group in groups]
    order = [name for name in (*table.partition_by, "_batch") if name in table.schema.names]
    rows = reduce(DataFrame.unionByName, frames)
    if order:
        rows = rows.sortWithinPartitions(*map(quoted, order))
    staged = stage(rows, table.path, NO_BATCH, table.partition_by)
    known = [file.rows for group in groups for file in group.files]
    counted, wanted = sum(staged.rows.values()), sum(rows or 0 for rows in known)
    if None not in known and counted != wanted:
        discard(staged)
        raise LakeError(
            f"{table.path}: {wanted:,} rows became {counted:,} when their files were compacted. "
            "Nothing was committed; check whether the table's files were written by hand."
        )
    return staged


def commit_compaction(staged: Staged, groups: Sequence[CompactionGroup]) -> list[CompactionGroup]:
    """Replace the files of these groups by the staged ones; the groups that were committed.

    A partition of which such a file is no longer in the table is left as it is. Raises
    ConflictError if others kept writing, and LakeError.
    """

    def attempt() -> list[CompactionGroup]:
        table = DeltaTable(staged.table_path)
        active = active_paths(table)
        replaced = {g.partition for g in groups if any(f.path not in active for f in g.files)}
        done = [group for group in groups if group.partition not in replaced]
        if done:
            _commit(table, staged, done)
        return done

    return retried_commit(staged.table_path, attempt, "Nothing was compacted")


def discard_uncommitted(staged: Staged, done: Iterable[CompactionGroup]) -> None:
    """Remove what was staged for partitions that are not among those done, if it is in no table."""
    committed = {group.partition for group in done}
    active = active_paths(DeltaTable(staged.table_path))
    files = (f for f in staged.files if tuple(f.partition.values()) not in committed)
    discard(replace(staged, files=tuple(f for f in files if f.path not in active)))


def _commit(table: DeltaTable, staged: Staged, done: Sequence[CompactionGroup]) -> None:
    names = table.metadata().partition_columns
    partitions = {group.partition for group in done}
    mine = (f for f in staged.files if tuple(f.partition[name] for name in names) in partitions)
    added = replace(staged, files=tuple(mine)).added(data_change=False)
    now = int(time.time() * 1000)
    removed = [
        RemoveAction(f.path, False, now, f.size, dict(zip(names, group.partition, strict=True)))
        for group in done
        for f in group.files
    ]
    commit_files(table, [*added, *removed], note=_NOTE, hooks=NO_HOOKS)


def _packed(files: Sequence[DataFile], limits: CompactionLimits) -> list[tuple[DataFile, ...]]:
    packed: list[tuple[DataFile, ...]] = []
    some: list[DataFile] = []
    for file in files:
        if some and sum(f.size for f in some) + file.size > limits.target:
            packed.append(tuple(some))
            some = []
        some.append(file)
    return [*packed, tuple(some)]


def _partition_in(table: TableFiles) -> Callable[[DataFile], PartitionValues]:
    def partition(file: DataFile) -> PartitionValues:
        values = (file.partition[name] for name in table.partition_by)
        return tuple(None if value is None else partition_text(value) for value in values)

    return partition


def _order(table: TableFiles, file: DataFile) -> tuple[tuple[str, ...], int, str]:
    partition = tuple(text or "" for text in _partition_in(table)(file))
    return partition, file.first_batch or 0, file.path
