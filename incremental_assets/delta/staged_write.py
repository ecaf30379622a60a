"""What a batch will commit: staged files, the files they replace, and the rows of side tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from pyspark.sql import DataFrame

from incremental_assets.delta.publish import publish
from incremental_assets.delta.side_table import put_side_rows
from incremental_assets.delta.stage import Staged, discard
from incremental_assets.delta.transaction import Transaction


@dataclass(frozen=True)
class SideRows:
    """Rows for a side table, under a Delta application of their own in its log.

    They are appended before the batch commits; those of an abandoned batch are removed.
    """

    path: str
    name: str
    rows: DataFrame
    columns: tuple[tuple[str, str], ...]

    def put(self, batch: int) -> None:
        """Append them."""
        put_side_rows(self.rows, self.path, self.name, batch, self.columns)


@dataclass(frozen=True)
class SideWrite:
    """A staged write of another table, which the batch publishes before its own."""

    name: str
    write: StagedWrite

    def put(self, batch: int) -> None:
        """Publish it."""
        publish(
            self.write.staged,
            Transaction(self.name, batch, f'{{"batch":{batch}}}'),
            replaced_files=self.write.replaced,
            searched_files=self.write.searched_files,
        )


@dataclass(frozen=True)
class StagedWrite:
    """The files that a batch staged, which files they replace, and rows changed per day.

    Rows changed are counted at None where they are of no day. `replaced_by` names partitions that
    are replaced: a column, and values of it. `searched_files` are those in which keys were looked
    up, of a `version` of the table.
    `side` is put into other tables, in this order, before the commit; `notes` are logged.
    """

    staged: Staged
    replaced: tuple[str, ...] = ()
    inserted: Mapping[date | None, int] = field(default_factory=dict)
    updated: Mapping[date | None, int] = field(default_factory=dict)
    deleted: int = 0
    searched_files: tuple[str, ...] = ()
    version: int | None = None
    replaced_by: tuple[str, tuple[Any, ...]] | None = None
    side: tuple[SideRows | SideWrite, ...] = ()
    notes: tuple[str, ...] = ()

    def of_days(self, column: str, days: Collection[date]) -> StagedWrite:
        """The write of some days' partitions; staged files of others are removed."""
        staged = self.staged.only(column, days)
        discard(self.staged.without(staged))
        replaced = tuple(path for path in self.replaced if _day_in(path, column) in days)
        by = self.replaced_by
        if by is not None:
            by = (by[0], tuple(day for day in by[1] if day in days))
        return replace(self, staged=staged, replaced=replaced, replaced_by=by)

    @property
    def changes(self) -> bool:
        """Whether committing it would change the table at all."""
        return bool(self.staged.files or self.replaced or self.replaced_by)

    @property
    def rows_inserted(self) -> int:
        """The rows inserted, of all days."""
        return sum(self.inserted.values())

    @property
    def rows_updated(self) -> int:
        """The rows updated, of all days."""
        return sum(self.updated.values())


def _day_in(path: str, column: str) -> date:
    """The day of a data file, whose folder names it."""
    return date.fromisoformat(path.rsplit(f"{column}=", 1)[1][: len("2017-01-05")])
