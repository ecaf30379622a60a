"""Which days rows are of, where days are replaced whole."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted


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
