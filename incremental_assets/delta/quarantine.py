"""The quarantine of a table: the rows that its gate held back, with all their reasons.

Rows are stored as text rather than as VARIANT: so outdated ones can be dropped without a JVM, any
Delta reader can show them, and a line that is cut in half is no VARIANT.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.literals import sql_days, sql_text
from incremental_assets.delta.read import DataFile, data_files, read_version
from incremental_assets.delta.side_table import (
    delete_side_rows,
    fence_side_table,
    put_side_rows,
    quarantine_name,
)
from incremental_assets.delta.stage import discard_batch
from incremental_assets.errors import LakeError
from incremental_assets.query import query

COLUMNS = (
    ("_batch", "long"),
    ("_day", "date"),
    ("_landing_day", "date"),
    ("_file", "string"),
    ("row", "string"),
    ("first_seen", "timestamp"),
    ("tried", "integer"),
)
"""The first columns of the table; `reasons` and `details` are arrays of strings."""

IDENTITY = ("_day", "_landing_day", "_file", "row")


@dataclass(frozen=True, slots=True)
class OutdatedRows:
    """Rows of quarantine that no longer count: of a day (None: any), of the batches [low, high).

    With a `reason`, only those that have it.
    """

    day: date | None
    low: int
    high: int
    reason: str = ""

    @property
    def sql(self) -> str:
        """The condition, for delta-rs."""
        batches = f"_batch >= {self.low} AND _batch < {self.high}"
        day = "" if self.day is None else f" AND _day IN ({sql_days([self.day])})"
        reason = f" AND array_has(reasons, {sql_text(self.reason)})" if self.reason else ""
        return f"({batches}{day}{reason})"

    @property
    def column(self) -> Column:
        """The condition, for Spark."""
        found = (F.col("_batch") >= self.low) & (F.col("_batch") < self.high)
        if self.day is not None:
            found &= F.col("_day") == F.lit(self.day)
        return found & F.array_contains("reasons", self.reason) if self.reason else found

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file may hold such a row."""
        here = self.day is None or file.partition["_day"] == self.day
        return here and file.may_hold_batches(self.low - 1, self.high - 1)

    def covers(self, file: DataFile) -> bool:
        """Whether a file holds such rows only."""
        here = self.day is None or file.partition["_day"] == self.day
        if self.reason or not here or file.first_batch is None or file.last_batch is None:
            return False
        return self.low <= file.first_batch and file.last_batch < self.high


def as_stored(rows: DataFrame, batch: int, now: datetime) -> DataFrame:
    """The rows that have reasons, with the columns of a quarantine.

    Takes `_day`, `_landing_day`, `_file`, `_line` (the line's JSON, or the line as it landed where
    it is none), `_reasons` and, if there are any, `_details`: what exactly is unreadable.
    """
    nothing = F.array().cast("array<string>")
    return rows.where("size(_reasons) > 0").select(
        F.lit(batch).cast("long").alias("_batch"),
        "_day",
        "_landing_day",
        "_file",
        decodable_stored(F.col("_line")).alias("row"),
        F.lit(now).cast("timestamp_ltz").alias("first_seen"),
        F.lit(1).alias("tried"),
        F.col("_reasons").alias("reasons"),
        (F.col("_details") if "_details" in rows.columns else nothing).alias("details"),
    )


def with_first_seen(rows: DataFrame, known: DataFrame) -> DataFrame:
    """The rows with `first_seen` and `tried` counted on from the same rows in `known`."""
    once = known.groupBy(*IDENTITY).agg(
        F.min("first_seen").alias("_since"), F.max("tried").alias("_times")
    )
    same = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in IDENTITY]
    joined = rows.alias("a").join(once.alias("b"), same, "left")
    return joined.select(
        "a.*",
        F.coalesce("_since", "first_seen").alias("_first"),
        (F.coalesce("_times", F.lit(0)) + F.col("tried")).alias("_tried"),
    ).select(
        *(c for c in rows.columns if c not in ("first_seen", "tried")),
        F.col("_first").alias("first_seen"),
        F.col("_tried").cast("int").alias("tried"),
    )


def put(rows: DataFrame, path: str, table: str, batch: int) -> None:
    """Add a batch's rows, which have the columns of the quarantine."""
    put_side_rows(rows, path, quarantine_name(table), batch, COLUMNS, ("_day",))


def read(
    session: SparkSession, path: str, days: Collection[date] | None = None
) -> DataFrame | None:
    """The rows of some days (None: of all); None where there is no quarantine yet.

    `first_seen`, `tried` and `details` are null in one of an older version.
    """
    there = open_table(path)
    if there is None or "reasons" not in {field.name for field in there.schema().fields}:
        return None

    def of_these_days(file: DataFile) -> bool:
        return days is None or file.partition["_day"] in days

    rows = read_version(session, path, there.version(), of_these_days)
    later = {"first_seen": "timestamp", "tried": "int", "details": "array<string>"}
    missing = {n: F.lit(None).cast(kind) for n, kind in later.items() if n not in rows.columns}
    line = {"row": decodable_stored(F.col("row"))}
    rows = rows.withColumns(missing | line)
    return rows if days is None else rows.where(f"_day IN ({sql_days(days)})")


def fence(path: str, table: str, batch: int) -> None:
    """Keep an abandoned batch from adding rows. Those it has added do not count."""
    fence_side_table(path, quarantine_name(table), batch)


def remaining(
    path: str, outdated: Iterable[OutdatedRows], version: int | None = None
) -> list[OutdatedRows]:
    """The outdated rows that a file of the quarantine may still hold. Reads only its log."""
    found = list(outdated)
    there = open_table(path) if found else None
    if there is None:
        return []
    files = data_files(path, there.version() if version is None else version)
    return [each for each in found if any(map(each.may_be_in, files))]


def without_outdated(rows: DataFrame, outdated: Sequence[OutdatedRows]) -> DataFrame:
    """The rows that still count."""
    for each in outdated:
        rows = rows.where(~F.coalesce(each.column, F.lit(False)))
    return rows


def drop(path: str, outdated: Sequence[OutdatedRows]) -> None:
    """Remove outdated rows. Raises LakeError."""
    if outdated:
        predicate = " OR ".join(each.sql for each in outdated)
        delete_side_rows(path, predicate, lambda file: any(e.covers(file) for e in outdated))


def discard(path: str, table: str, batch: int) -> None:
    """Remove what a fenced batch had staged for the quarantine."""
    if open_table(path) is not None:
        discard_batch(path, quarantine_name(table), batch)


def expire(path: str, before: datetime) -> None:
    """Drop the rows that were first seen before a moment."""
    if open_table(path) is not None:
        delete_side_rows(path, _seen_before(before))


def expired(path: str, before: datetime) -> int:
    """How many rows were first seen before a moment, counted without a JVM. Raises LakeError."""
    there = open_table(path)
    if there is None or "first_seen" not in {field.name for field in there.schema().fields}:
        return 0
    try:
        return int(query(there, f"count(*) FILTER (WHERE {_seen_before(before)})").item())
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be read: {error}") from error


def _seen_before(moment: datetime) -> str:
    return f"first_seen < '{moment:%Y-%m-%dT%H:%M:%SZ}'"
