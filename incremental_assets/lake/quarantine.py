"""The quarantine of a table: the rows that its gate held back, with all their reasons.

Rows are kept as their text rather than as VARIANT, so that what an abandoned batch or an earlier
judgement left can be dropped without a JVM, so that any Delta reader can show them, and because a
line that is cut in half is no VARIANT.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime

from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import LakeError
from incremental_assets.lake.beside import abandon_beside, delete_beside, put_beside
from incremental_assets.lake.delta_log import open_table
from incremental_assets.lake.literals import sql_days
from incremental_assets.lake.read import DataFile, read_version
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
"""What the table is made with; `reasons` and `details`, arrays of strings, come with its rows."""

SAME = ("_day", "_landing_day", "_file", "row")


def as_kept(rows: DataFrame, batch: int, now: datetime) -> DataFrame:
    """The rows that have reasons, as quarantine keeps them.

    Takes `_day`, `_landing_day`, `_file`, `_line` (the line's JSON, or the line as it landed where
    it is none), `_reasons` and, if there are any, `_details`: what exactly cannot be read.
    """
    nothing = F.array().cast("array<string>")
    return rows.where("size(_reasons) > 0").select(
        F.lit(batch).cast("long").alias("_batch"),
        "_day",
        "_landing_day",
        "_file",
        F.col("_line").alias("row"),
        F.lit(now).cast("timestamp").alias("first_seen"),
        F.lit(1).alias("tried"),
        F.col("_reasons").alias("reasons"),
        (F.col("_details") if "_details" in rows.columns else nothing).alias("details"),
    )


def seen_before(rows: DataFrame, known: DataFrame) -> DataFrame:
    """The rows with when each was first seen, and how often it was tried, counting `known` ones."""
    once = known.groupBy(*SAME).agg(
        F.min("first_seen").alias("_since"), F.max("tried").alias("_times")
    )
    same = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in SAME]
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
    put_beside(rows, path, _name(table), batch, COLUMNS, ("_day",))


def read(session: SparkSession, path: str, days: Collection[date]) -> DataFrame | None:
    """The rows of some days; None where there is no quarantine yet.

    One that was made before rows said so has none of `first_seen`, `tried` and `details`.
    """
    there = open_table(path)
    if there is None or "reasons" not in {field.name for field in there.schema().fields}:
        return None

    def of_these_days(file: DataFile) -> bool:
        return file.partition["_day"] in days

    rows = read_version(session, path, there.version(), of_these_days)
    later = {"first_seen": "timestamp", "tried": "int", "details": "array<string>"}
    missing = {n: F.lit(None).cast(kind) for n, kind in later.items() if n not in rows.columns}
    return rows.withColumns(missing).where(f"_day IN ({sql_days(days)})")


def abandon(path: str, table: str, batch: int) -> None:
    """Drop the rows of a batch that was given up, for good."""
    abandon_beside(path, _name(table), batch)


def supersede(path: str, batch: int, replaced_from: Mapping[date, int]) -> None:
    """Drop what an earlier batch judged of the windows that `batch` judged again.

    `replaced_from` gives per day the first batch number whose rows are replaced.
    """
    conditions = [
        f"(_day = '{day}' AND _batch >= {low} AND _batch < {batch})"
        for day, low in replaced_from.items()
    ]
    if conditions:
        delete_beside(path, " OR ".join(conditions))


def drop(path: str, days: Collection[date], reason: str) -> None:
    """Drop the rows of some days; with a `reason`, those that have it."""
    also = f" AND array_has(reasons, {_literal(reason)})" if reason else ""
    delete_beside(path, f"_day IN ({sql_days(days)}){also}")


def expire(path: str, before: datetime) -> None:
    """Drop the rows that were first seen before a moment."""
    if open_table(path) is not None:
        delete_beside(path, _seen_before(before))


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


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(table: str) -> str:
    return f"quarantine of {table}"
