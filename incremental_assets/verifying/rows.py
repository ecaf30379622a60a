"""The rows of a table, and of its quarantine, that are compared, and how they are matched."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import DayRange, contiguous
from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.columns import CHANGED_AT, ORDER, WITHIN
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.quarantine import (
    IDENTITY,
    OutdatedRows,
    Quarantine,
    without_outdated,
)
from incremental_assets.delta.read import DataFile, read_version
from incremental_assets.frames import with_is_among
from incremental_assets.row_hash import payload_hash
from incremental_assets.table import Table
from incremental_assets.verifying.compare import Matching

# Of the load's own columns those that define which change of a key is the later one.
_ORDER_COLUMNS = (ORDER, WITHIN, CHANGED_AT)
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


def with_lines(rows: DataFrame) -> DataFrame:
    """Rows of bronze with their lines as this version stores them, whichever stored them."""
    return rows.withColumn("_raw", decodable_stored(F.col("_raw")))


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


def by_key(table: Table, real: DataFrame, rebuilt: DataFrame) -> Matching:
    """How the rows of a silver or gold table are matched, and which columns are compared."""
    names = dict.fromkeys((*real.columns, *rebuilt.columns))
    columns = [n for n in names if not n.startswith("_") or n in _ORDER_COLUMNS]
    key = [name for name in _key(table) if name in names]
    return Matching("dt", key, columns, key)


def by_line(real: DataFrame) -> Matching:
    """How the rows of a bronze table of landed files are matched: by all their columns."""
    return Matching("_landing_day", (), [n for n in real.columns if n != "_batch"], ("_file",))


def by_hash(*, dated: bool) -> Matching:
    """How those of a stored source are, which may lack old rows; the file may be another now."""
    days = ("_landing_day",) if dated else ()
    return Matching(
        "_landing_day", ("_hash",), (*days, "payload", "_raw"), ("_hash",), forgets=True
    )


def as_hashed(rows: DataFrame, *, dated: bool) -> DataFrame:
    """Rows of a stored source as they are compared: a column that was added makes no difference.

    Where the day is that of the load, a rebuild has none.
    """
    rows = rows.withColumn("payload", payload_hash("payload"))
    return rows if dated else rows.withColumn("_landing_day", F.lit(None).cast("date"))


QUARANTINED = Matching("_day", IDENTITY, ("reasons",), ("_file",))


def _key(table: Table) -> tuple[str, ...]:
    """What no two rows of a table have in common; () where any may be the same."""
    if not table.key or table.write.appends:
        return ()
    if table.write.keeps_versions:
        return (*table.key, "valid_from")
    if table.is_typed:
        return (*table.key, "dt") if table.day is not None else table.key
    if table.write.recomputes_keys and not table.write.running_columns:
        return table.key
    return (*table.key, "dt")
