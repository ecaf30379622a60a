"""A truncate of a change log: a delete of every key that there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.intake.intake import HASH
from incremental_assets.lake.history import DELETED


def with_deletes(
    rows: DataFrame, keys: DataFrame, places: Sequence[Mapping[str, Column]]
) -> DataFrame:
    """The events, and at each place a delete of each of the keys; a place names its columns."""
    for place in places:
        marks = {
            DELETED: F.lit(True),
            "_operation": F.lit("delete"),
            HASH: F.lit(""),
            "_reasons": F.array().cast("array<string>"),
        }
        deletes = keys.withColumns({**place, **marks})
        rows = rows.unionByName(deletes, allowMissingColumns=True)
    return rows
