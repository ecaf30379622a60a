"""The quarantine of a table or of a loader's target: what its gate held back, with all reasons.

Rows are stored as text rather than as VARIANT: so outdated ones can be dropped without a JVM, any
Delta reader can show them, and a line that is cut in half is no VARIANT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from deltalake.exceptions import DeltaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.columns import BATCH, HASH, REASONS, TABLE
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.literals import sql_days, sql_text
from incremental_assets.delta.read import DataFile, data_files, read_version
from incremental_assets.delta.side_table import (
    abandon_side_rows,
    cleanup,
    delete_side_rows,
    fence_side_table,
    put_side_rows,
    quarantine_name,
)
from incremental_assets.errors import LakeError
from incremental_assets.query import query
from incremental_assets.storage import open_file, write_file

IDENTITY = ("_day", "_landing_day", "_file", "row")
"""What identifies a row of a table of the lake; that of a target is identified by its `_hash`."""
# Has the moment up to which rows have expired.
_EXPIRED = "_expired_before.json"
_LATER = {"first_seen": "timestamp", "tried": "int", "details": "array<string>"}


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


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The rows in quarantine at a path: those of a table of the lake, or of a load of a target.

    Rows of a target have no day. Several loads may fill one, and each has the rows with its name:
    such a quarantine `is_shared`.
    """

    path: str
    table: str
    is_shared: bool = False

    def put(
        self,
        rows: DataFrame,
        batch: int,
        now: datetime,
        known: DataFrame | None = None,
        staying: DataFrame | None = None,
    ) -> None:
        """Add the rows of a batch that have `_reasons`.

        They have `_file`, `_line` (the line's JSON, or the line as it landed where it is none), if
        there are any `_details` (what exactly is unreadable), and `_day` and `_landing_day`, or of
        a target `_hash`. `first_seen` and `tried` are counted on from the same rows in `known`.
        The rows `staying` are there already: they are put again as they are, under this batch.
        """
        number = F.lit(batch).cast("long").alias(BATCH)
        stored = self._stored(rows, number, now)
        if known is not None:
            stored = self._counted_on(stored, known)
        if staying is not None:
            stored = stored.unionByName(staying.withColumn(BATCH, number).select(stored.columns))
        by_day = () if self.is_shared else ("_day",)
        put_side_rows(stored, self.path, quarantine_name(self.table), batch, (), by_day)

    def read(
        self,
        session: SparkSession,
        outdated: Iterable[OutdatedRows],
        days: Collection[date] | None = None,
    ) -> DataFrame | None:
        """The rows that count, of some days (None: of all); None where there are none.

        `first_seen`, `tried` and `details` are null in one of an older version.
        """
        there = open_table(self.path)
        if there is None or "reasons" not in {field.name for field in there.schema().fields}:
            return None
        if not there.file_uris():
            return None

        def of_these_days(file: DataFile) -> bool:
            return days is None or file.partition["_day"] in days

        rows = read_version(session, self.path, there.version(), of_these_days)
        missing = {n: F.lit(None).cast(t) for n, t in _LATER.items() if n not in rows.columns}
        rows = rows.withColumns(missing | {"row": decodable_stored(F.col("row"))})
        if self.is_shared:
            rows = rows.where(F.col(TABLE) == F.lit(self.table))
        if days is not None:
            rows = rows.where(f"_day IN ({sql_days(days)})")
        return without_outdated(rows, self.remaining(outdated, there.version()))

    def count(self, outdated: Iterable[OutdatedRows], reason: str) -> int:
        """How many rows that count have a reason, counted without a JVM. Raises LakeError."""
        has = f"array_has(reasons, {sql_text(reason)})"
        return self._count(
            "reasons", " AND ".join([has, *(f"NOT {each.sql}" for each in outdated)])
        )

    def remaining(
        self, outdated: Iterable[OutdatedRows], version: int | None = None
    ) -> list[OutdatedRows]:
        """The outdated rows that a file may still hold. Reads only the log."""
        found = list(outdated)
        there = open_table(self.path) if found else None
        if there is None:
            return []
        files = data_files(self.path, there.version() if version is None else version)
        return [each for each in found if any(map(each.may_be_in, files))]

    def drop(self, outdated: Sequence[OutdatedRows]) -> None:
        """Remove outdated rows. Raises LakeError."""
        if outdated:
            rows = " OR ".join(each.sql for each in outdated)
            delete_side_rows(
                self.path,
                self._own(rows),
                lambda file: not self.is_shared and any(e.covers(file) for e in outdated),
            )

    def remove_outdated(self, outdated: Iterable[OutdatedRows], log: Callable[[str], None]) -> None:
        """Remove outdated rows that are left.

        No result depends on it: a failure is logged and not raised, and the next load tries again.
        """
        with cleanup(f"{self.table}: outdated rows in quarantine", log):
            self.drop(self.remaining(outdated))

    def abandon(self, batch: int, log: Callable[[str], None]) -> None:
        """Keep an abandoned batch from adding rows, and remove those that it has added.

        By the ledger those of a table of the lake do not count, so their removal may fail.
        """
        name = quarantine_name(self.table)
        if self.is_shared:
            abandon_side_rows(self.path, name, batch, {TABLE: self.table})
            return
        fence_side_table(self.path, name, batch)
        with cleanup(f"{self.table}: rows in quarantine of batch {batch}", log):
            abandon_side_rows(self.path, name, batch)

    def expire(self, before: datetime) -> None:
        """Drop the rows that were first seen before a moment.

        That moment is noted first: the setting that it comes from may change, and then it does not
        show which rows are gone. Raises LakeError.
        """
        if not self.expired(before):
            return
        noted = self.expired_before()
        try:
            if noted is None or before > noted:
                content = json.dumps({"before": before.isoformat()})
                write_file(f"{self.path}/{_EXPIRED}", content.encode())
        except OSError as error:
            raise LakeError(
                f"{self.path}/{_EXPIRED} cannot be written ({error.strerror or error}), so no row "
                "was dropped. Make room, or make the folder writable, and run again."
            ) from error
        delete_side_rows(self.path, self._own(_seen_before(before)))

    def expired_before(self) -> datetime | None:
        """Rows that were first seen before this moment may be gone; None where none expired."""
        try:
            with open_file(f"{self.path}/{_EXPIRED}") as stream:
                return datetime.fromisoformat(json.load(stream)["before"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def expired(self, before: datetime) -> int:
        """How many rows were, counted without a JVM. Raises LakeError."""
        return self._count("first_seen", _seen_before(before))

    def _stored(self, rows: DataFrame, number: Column, now: datetime) -> DataFrame:
        nothing = F.array().cast("array<string>")
        of_target = (F.lit(self.table).alias(TABLE), F.col(HASH))
        return rows.where(f"size({REASONS}) > 0").select(
            number,
            *(of_target if self.is_shared else ("_day", "_landing_day")),
            "_file",
            decodable_stored(F.col("_line")).alias("row"),
            F.lit(now).cast("timestamp_ltz").alias("first_seen"),
            F.lit(1).alias("tried"),
            F.col(REASONS).alias("reasons"),
            (F.col("_details") if "_details" in rows.columns else nothing).alias("details"),
        )

    def _counted_on(self, rows: DataFrame, known: DataFrame) -> DataFrame:
        identity = (HASH,) if self.is_shared else IDENTITY
        once = known.groupBy(*identity).agg(
            F.min("first_seen").alias("_since"), F.max("tried").alias("_times")
        )
        same = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in identity]
        return (
            rows.alias("a")
            .join(once.alias("b"), same, "left")
            .select("a.*", "_since", "_times")
            .withColumns(
                {
                    "first_seen": F.coalesce("_since", "first_seen"),
                    "tried": (F.coalesce("_times", F.lit(0)) + F.col("tried")).cast("int"),
                }
            )
            .select(rows.columns)
        )

    def _own(self, condition: str) -> str:
        """The condition, for delta-rs, on rows of this table or load."""
        mine = f" AND {TABLE} = {sql_text(self.table)}" if self.is_shared else ""
        return f"({condition}){mine}"

    def _count(self, column: str, condition: str) -> int:
        """How many rows meet a condition on a column, which may be missing in an older version."""
        there = open_table(self.path)
        if there is None or column not in {field.name for field in there.schema().fields}:
            return 0
        try:
            found = query(there, f"count(*) FILTER (WHERE {self._own(condition)})")
            return int(found.item())
        except (DeltaError, OSError) as error:
            raise LakeError(f"{self.path} cannot be read: {error}") from error


def without_outdated(rows: DataFrame, outdated: Sequence[OutdatedRows]) -> DataFrame:
    """The rows that still count."""
    for each in outdated:
        rows = rows.where(~F.coalesce(each.column, F.lit(False)))
    return rows


def _seen_before(moment: datetime) -> str:
    return f"first_seen < '{moment:%Y-%m-%dT%H:%M:%SZ}'"
