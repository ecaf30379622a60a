"""Truncates of a change log: each is a delete of every key that there was.

What a truncate does to a key is written as a delete of that key, at the first truncate after each
event of it: a later one finds nothing of that event. So a load's plan does not grow with the
truncates that its log has ever had.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.delta.columns import DELETED, HASH, ORDER, PARTIAL, WITHIN
from incremental_assets.frames import quoted

Digits = tuple[str, str]
"""The position of a truncate as it is written down: its order, and its number within it."""


def is_truncate(key: Sequence[str]) -> str:
    """In a side table, a delete of no key in particular is of all. SQL."""
    return f"{DELETED} AND {quoted(key[0])} IS NULL"


def earlier_truncates(
    superseded: DataFrame | None, key: Sequence[str], columns: Sequence[str]
) -> DataFrame | None:
    """The positions of the truncates that a side table holds; None without one."""
    if superseded is None:
        return None
    return superseded.where(is_truncate(key)).select(*columns).distinct()


def deletes_after(
    events: DataFrame, truncates: DataFrame, names: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """For each event, a delete of its key (`names`) at the first truncate after it, if any.

    `truncates` have the columns of the order but for the hash, and any more that a delete gets.
    """
    key, position = [quoted(name) for name in names], list(order[:-1])
    kinds = {name: truncates.schema[name].dataType for name in position}
    at = F.struct(*(F.col(name).cast(kinds[name]).alias(name) for name in position))
    others = [name for name in truncates.columns if name not in position]
    each = truncates.select(
        F.struct(*position).alias("_truncated_at"), F.struct(*position, *others).alias("_truncate")
    )
    known = events.select(*key, at.alias("_at")).distinct()
    found = known.join(F.broadcast(each), F.expr("_at < _truncated_at"))
    first = found.groupBy(*key, "_at").agg(F.min("_truncate").alias("_first"))
    return as_deletes(first.select(*key, "_first.*").distinct())


def known_events(
    shown: DataFrame, superseded: DataFrame | None, key: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """Key and position of every event that a table shows, or that its side table holds.

    Also of those that a row has a value of, for a column that its own event lacks.
    """
    names = (*key, *order[:-1])
    # A target that was filled by other means has rows without a position, older than everything.
    there = [F.col(quoted(n)) if n in shown.columns else F.lit(None).alias(n) for n in names]
    events = shown.select(*there)
    if PARTIAL in shown.columns:
        entries = shown.select(*map(quoted, key), F.explode(PARTIAL).alias("_entry"))
        position = (F.col("_entry")[name].alias(name) for name in order[:-1])
        events = events.unionByName(
            entries.where("_entry.known").select(*map(quoted, key), *position)
        )
    if superseded is None:
        return events
    return events.unionByName(superseded.where(f"NOT {DELETED}").selectExpr(*map(quoted, names)))


def as_deletes(positions: DataFrame) -> DataFrame:
    """Rows of a position, with or without a key, as the deletes that events are."""
    as_delete = {DELETED: F.lit(True), "_operation": F.lit("delete"), HASH: F.lit("")}
    return positions.withColumns(as_delete)


def positions_of(session: SparkSession, digits: Sequence[Digits], kind: DataType) -> DataFrame:
    """Stored truncates as rows; `kind` is the type of the order."""
    fields = "array<struct<at:string,within:string>>"
    text = json.dumps([{"at": at, "within": within} for at, within in digits])
    each = F.explode(F.from_json(F.lit(text), fields)).alias("position")
    at = F.col("position.at")
    is_time = kind.typeName() == "timestamp"
    order = F.timestamp_micros(at.cast("bigint")) if is_time else at.cast(kind)
    within = F.col("position.within").cast("decimal(38,0)")
    return session.range(1).select(each).select(order.alias(ORDER), within.alias(WITHIN))
