"""ReplaceDay: a day that changed is rebuilt whole."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames, quoted
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import WriteStrategy


@dataclass(frozen=True, slots=True)
class ReplaceDay(WriteStrategy):
    """A day that changed is rebuilt whole.

    `day` is the partition column that holds it; a day that the batch touches is read again from
    the source, with all its rows.
    """

    day: str = "dt"

    loses_rows: ClassVar[bool] = False

    @property
    def replaced_partition(self) -> str:
        return self.day

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """All rows of the days that the batch touches; they replace these days."""
        days: tuple[Any, ...] = tuple(to.days)
        if not to.days:
            days = days_in(changes.rows, self.day)
            if changes.every is not None:
                changes = replace(changes, rows=changes.every.where(is_of_days(self.day, days)))
        write = to.stage(to.spread(to.as_written(changes)))
        return replace(write, replaced_by=(self.day, days) if days else None)


def days_in(rows: DataFrame, day: str) -> tuple[Any, ...]:
    """The days that rows hold. Raises DefinitionError for a column of instants."""
    kind = rows.schema[day].dataType.typeName()
    if kind.startswith("timestamp"):
        raise DefinitionError(
            f"{day!r} is a {kind}, and a partition that is replaced has to be a day; use a date "
            "column."
        )
    return tuple(row[0] for row in rows.select(quoted(day)).distinct().collect())


def is_of_days(day: str, days: Collection[Any]) -> Column:
    """Whether the day of a row is among these, which may hold None."""
    column = F.col(quoted(day))
    found = column.isin([each for each in days if each is not None])
    return found | column.isNull() if None in days else found
