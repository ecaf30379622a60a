"""The latest change of each key of a batch."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, HASH
from incremental_assets.delta.merge import latest_per_key
from incremental_assets.frames import quoted
from incremental_assets.writes.destination import Destination, struct_of

_TRUNCATE = "_truncated_at"


def latest_changes(rows: DataFrame, to: Destination, before: str = "") -> DataFrame:
    """The last change of each key, and the rows that only their hash made lose against it.

    Of equal ones, one with a true `before` comes first.
    """
    latest = [f"{quoted(name)} DESC NULLS LAST" for name in to.position]
    first = [quoted(to.first_by)] if to.first_by else []
    last = [f"{before} DESC"] if before else []
    order = ", ".join((*latest, DELETED, f"{HASH} DESC NULLS LAST", *first, *last))
    key = to.key
    if to.truncates:  # each truncate stays: another may be rolled back
        nobody = f"{DELETED} AND {quoted(key[0])} IS NULL"
        position = f"CASE WHEN {nobody} THEN {struct_of(to.position)} END"
        rows = rows.withColumn(_TRUNCATE, F.expr(position))
        key = (*key, _TRUNCATE)
    found = latest_per_key(rows, key, order, struct_of((*to.position, DELETED)), f"NOT {DELETED}")
    return found.drop(_TRUNCATE)
