"""The rows of a table, and of its quarantine, that are compared, and how they are matched."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import DayRange, contiguous
from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.quarantine import (
    IDENTITY,
    OutdatedRows,
    Quarantine,
    without_outdated,
)
from incremental_assets.delta.read import DataFile, read_version
from incremental_assets.frames import with_is_among
from incremental_assets.verifying.compare import Matching

_LEFT_OUT = "_left_out"


@dataclass(frozen=True)
class RowSelection:
    """The days of a table that are compared: those asked for before `before`, but `except_days`.

    Rows of `files` are not compared; rows without a day, or of a day that the ledger does not know,
    are.
    """

    asked: DayRange | None = None
    except_days: Collection[date] = ()
    before: date | None = None
    files: Collection[str] = ()

    def sql(self, column: str) -> str:
        """The condition on a column that holds the day."""
        found = [
            f"{column} NOT BETWEEN DATE'{days.first}' AND DATE'{days.last}'"
            for days in contiguous(self.except_days)
        ]
        if self.before is not None:
            found.append(f"{column} < DATE'{self.before}'")
        if self.asked is None:
            return f"coalesce({' AND '.join(found) or 'true'}, true)"
        found.append(f"{column} BETWEEN DATE'{self.asked.first}' AND DATE'{self.asked.last}'")
        return " AND ".join(found)

    def may_hold(self, file: DataFile, column: str) -> bool:
        """Whether a file, by its partition, may hold such rows."""
        return self.asked is None or file.partition.get(column) in self.asked


def table_rows(
    session: SparkSession, path: str, version: int, selection: RowSelection, day: str
) -> DataFrame:
    """The rows of a version of a table of the days that are compared."""
    rows = read_version(session, path, version, lambda file: selection.may_hold(file, day))
    if selection.files:
        rows = with_is_among(rows, _LEFT_OUT, F.col("_file"), selection.files)
        rows = rows.where(f"NOT {_LEFT_OUT}").drop(_LEFT_OUT)
    return rows.where(selection.sql(day))


def rebuilt_rows(
    session: SparkSession, path: str, real: DataFrame, selection: RowSelection, day: str
) -> DataFrame:
    """The rows of a rebuild likewise; where nothing was rebuilt there is no table."""
    rebuilt = open_table(path)
    if rebuilt is None:
        return real.where("false")
    return table_rows(session, path, rebuilt.version(), selection, day)


def quarantine_rows(
    session: SparkSession,
    quarantine: Quarantine,
    version: int | None,
    selection: RowSelection,
    settled: int,
    outdated: Iterable[OutdatedRows] = (),
) -> DataFrame | None:
    """Rows that the batches up to `settled` have quarantined; None where there never were any.

    Without those that are `outdated`.
    """
    there = None if version is None else open_table(quarantine.path)
    if there is None or version is None:
        return None
    if "reasons" not in {field.name for field in there.schema().fields}:
        return None
    rows = table_rows(session, quarantine.path, version, selection, "_day")
    rows = rows.where(f"_batch <= {settled}")
    rows = without_outdated(rows, quarantine.remaining(outdated, version))
    return rows.withColumns(
        {"reasons": F.array_sort("reasons"), "row": decodable_stored(F.col("row"))}
    )


QUARANTINED = Matching("_day", IDENTITY, ("reasons",), ("_file",))
