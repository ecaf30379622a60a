"""Days of a table that are replaced whole, whichever strategy or kind of batch does it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.stage import stage
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.inserted import inserted, spread


def stage_days(to: Destination, changes: ChangeSet, day: str, days: tuple[Any, ...]) -> StagedWrite:
    """The rows, which replace all that the table has of these days of the column `day`."""
    rows = spread(changes.rows.select(to.number, *to.written(changes.own)), to)
    staged = stage(rows, to.path, to.folder, to.partition_by)
    replaced_by = (day, days) if days else None
    return StagedWrite(staged, inserted=inserted(staged, to), replaced_by=replaced_by)


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
