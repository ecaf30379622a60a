"""The changes of a batch, and the table that they go to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.delta.columns import BATCH, DELETED, HASH, TABLE, WHY
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.lookup import few_keys
from incremental_assets.delta.merge import OLD, TO_DELETE, merge, stage_with
from incremental_assets.delta.read import DataFile, every_file, no_file, plain_files, read_files
from incremental_assets.delta.side_table import (
    SIDE_COLUMNS,
    SIDE_ROWS,
    side_files,
    side_rows,
    side_table_of,
)
from incremental_assets.delta.stage import Staged, folder_of, stage
from incremental_assets.delta.staged_write import SideRows, StagedWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames, quoted

DELETED_BECAUSE = "deleted"
CONFLICT = "lost by its hash alone"


@dataclass(frozen=True)
class ChangeSet:
    """The good rows of a batch: what is to be inserted, updated and deleted.

    `rows` have the columns `own` (the source's or the transform's, with their types), those of the
    destination's order (`_hash` is the last) and, where there may be some, a true `_deleted` for
    deletes. `deletes`: there may be deletes. `every` are all rows that the source has, of whatever
    day, for a write that replaces days whole. `count` is how many rows the gate has counted.
    """

    rows: DataFrame
    own: Mapping[str, DataType]
    deletes: bool = False
    every: DataFrame | None = None
    count: int = 0

    @property
    def changes(self) -> DataFrame:
        """The rows, each with `_deleted`."""
        if DELETED in self.rows.columns:
            return self.rows
        return self.rows.withColumn(DELETED, F.lit(False))


@dataclass(frozen=True)
class Destination:
    """The Delta table that a batch writes to, and what identifies its rows.

    `name` is the load's, by which its commits are known in the table's log. `order` are the columns
    of the total order between versions of a key, the row hash last; without any, the row of the
    batch wins. Of equal rows that with the lowest `first_by` stays. Intervals of versions are
    measured in the first column of the order, or in `valid_time`. `partition_by` is how the table
    is partitioned. `days` are those of the batch, for a table that is partitioned by them. `keep`
    names the files in which the batch's keys may be, and a write looks into no others: days that
    are rebuilt whole are staged as if the table had no file, and the load replaces what was there.
    `counted_by` is the column of the day that changed rows are counted by.
    `tombstones`: deletes may be kept in its side table. `truncates`: a delete of no key is a
    truncate. `hidden` are columns whose change makes no new version.
    """

    name: str
    path: str
    batch: int
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    columns: Mapping[str, DataType] = field(default_factory=dict)
    first_by: str = ""
    valid_time: str = ""
    days: Sequence[date] = ()
    keep: Callable[[DataFile], bool] = every_file
    counted_by: str = ""
    tombstones: bool = True
    truncates: bool = False
    hidden: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The beginning of the folders' names in which the batch stages its files."""
        return folder_of(self.name, self.batch)

    @property
    def position(self) -> tuple[str, ...]:
        """The columns of the order but for the row hash: the position of a change."""
        return self.order[:-1]

    @property
    def earlier(self) -> str:
        """SQL for `merge`, which compares `order`: whether a row is earlier than the table's.

        Raises DefinitionError for gold, whose rows have no order.
        """
        if not self.order:
            raise DefinitionError(
                f"{self.name}: rows of a gold table have no order, so none is earlier. Each row of "
                'a batch is the one that counts: merge it with wins="true".'
            )
        return f"{struct_of(self.order)} < {struct_of(self.order, f'{OLD}.')}"

    @property
    def number(self) -> Column:
        """The batch number, as a column of the rows that it writes."""
        return F.lit(self.batch).cast("long").alias(BATCH)

    def written(self, own: Mapping[str, DataType]) -> list[str]:
        """The columns that are written after the batch's number, quoted."""
        return [quoted(name) for name in dict.fromkeys((*own, *self.order))]

    def as_written(self, changes: ChangeSet) -> DataFrame:
        """The rows of the changes, with the columns that are written and no others.

        Where there may be deletes, also with `_to_delete`, by which `merge` deletes their keys.
        """
        written: list[Column | str] = [self.number, *self.written(changes.own)]
        if not changes.deletes:
            return changes.rows.select(*written)
        return changes.changes.select(*written, F.col(DELETED).alias(TO_DELETE))

    def stage(self, rows: DataFrame) -> StagedWrite:
        """Stage rows with the columns that are written, as they are, without those to delete."""
        rows = _without_deletes(rows)
        staged = stage(rows, self.path, self.folder, self.partition_by)
        return StagedWrite(staged, inserted=self.inserted(staged))

    def stage_new(self, rows: DataFrame) -> StagedWrite:
        """Stage rows of keys that the table does not have, without those to delete."""
        if self.counted_by:
            return self.stage(rows)
        rows = _without_deletes(rows)
        # A target may be a table of somebody's own, with columns that the source has not.
        table = plain_files(self.path, version_of(self.path))
        staged = stage_with(rows, None, table, self.folder)
        return StagedWrite(staged, inserted=self.inserted(staged))

    def merge(
        self, frames: Frames, rows: DataFrame, wins: str, compared: Sequence[str] = ()
    ) -> StagedWrite:
        """Stage rows, one per key: those of new keys, and those that win over the table's row.

        `wins` is SQL, in which `_old` is a struct of the `compared` columns of the table's row:
        `updated_at > _old.updated_at`. A row with a true `_to_delete` that wins deletes its key.
        """
        if self.is_empty():  # it may not even have the columns yet
            return self.stage_new(rows)
        write, _ = merge(
            frames,
            rows,
            self.path,
            self.folder,
            self.key,
            F.expr(wins),
            compared,
            self.keep,
            day=self.counted_by or None,
        )
        return write

    def inserted(self, staged: Staged) -> Mapping[date | None, int]:
        """The rows that were staged, per day where the destination counts by it."""
        if not self.counted_by:
            return {None: sum(file.rows for file in staged.files)}
        return {day: rows for (day,), rows in staged.rows.items()}

    def spread(self, rows: DataFrame) -> DataFrame:
        """Rows of several days, each day's together: every task would write a file for each."""
        return rows.hint("rebalance", "dt") if len(self.days) > 1 else rows

    def is_empty(self) -> bool:
        """Whether no file of the table, as it is now, may hold one of the batch's keys."""
        if self.keep is no_file:
            return True
        return not any(map(self.keep, plain_files(self.path, version_of(self.path)).files))

    def superseded(self, session: SparkSession) -> DataFrame | None:
        """The rows of its side table: tombstones, superseded versions, conflicts; None without."""
        return side_rows(session, side_table_of(self.path))

    def last_deletes(self, frames: Frames, changes: DataFrame) -> DataFrame | None:
        """The last delete of the keys of some changes, `_marker` a struct of its position.

        Of a small side table those of other keys are among them.
        """
        table = side_files(side_table_of(self.path)) if self.tombstones else None
        if table is None:
            return None
        key = [quoted(name) for name in self.key]
        deletes = read_files(frames.session, table, table.files).where(DELETED)
        few = few_keys(frames, changes.select(*key), table.files)
        if few is not None:  # what was ever deleted is not grouped for them
            deletes = deletes.join(few, list(self.key), "left_semi")
        last = F.max(F.struct(*map(quoted, self.position))).alias("_marker")
        return deletes.groupBy(*key).agg(last)

    def side(self, rows: DataFrame, own: Mapping[str, DataType], name: str = SIDE_ROWS) -> SideRows:
        """Rows that the table does not show, for its side table; `_why` has the reason."""
        there = {*own, *self.order, *self.lineage, DELETED, WHY}
        named = rows.select(
            *(quoted(n) for n in rows.columns if n in there),
            self.number,
            F.lit(self.name).alias(TABLE),
        )
        path = side_table_of(self.path)
        return SideRows(path, f"{name} {self.name}", named, SIDE_COLUMNS)

    def conflicts(self, rows: DataFrame, hashed: str = HASH) -> DataFrame:
        """Rows of which only the hash decided, as the side table keeps them."""
        names = (*self.key, *self.position, *self.lineage)
        there = [quoted(n) for n in dict.fromkeys(names) if n in rows.columns]
        return rows.selectExpr(
            *there, f"{hashed} AS {HASH}", f"false AS {DELETED}", f"'{CONFLICT}' AS {WHY}"
        )


def _without_deletes(rows: DataFrame) -> DataFrame:
    return rows.where(f"NOT {TO_DELETE}").drop(TO_DELETE) if TO_DELETE in rows.columns else rows


def struct_of(names: Sequence[str], prefix: str = "") -> str:
    """The SQL of a struct of these columns, for comparing positions; `true` of none."""
    parts = (f"{prefix}{quoted(name)} AS {quoted(name)}" for name in names)
    return f"struct({', '.join(parts)})" if names else "true"
