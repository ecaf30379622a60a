"""Reconciling a gold table with what it is made from: row counts and sums of either side."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.table import Sums

NOTHING: Mapping[str, Column] = MappingProxyType({})


def totals(
    frame: DataFrame, sums: Mapping[str, str], side: int, further: Mapping[str, Column] = NOTHING
) -> DataFrame:
    """`rows` and each of the sums (SQL, as decimal(38,4)) per `dt`, marked with the `side`.

    `further` are aggregates of this side alone.
    """
    own = [F.expr(sql).cast("decimal(38,4)").alias(name) for name, sql in sums.items()]
    own += [column.alias(name) for name, column in further.items()]
    found = frame.groupBy("dt").agg(F.count(F.lit(1)).alias("rows"), *own)
    return found.withColumn("side", F.lit(side))


def differences(
    sums: Sums, upstream: Mapping[str, Any], made: Mapping[str, Any]
) -> tuple[str, ...]:
    """How the totals of the two sides differ, in words."""
    names = [*(["rows"] if sums.rows else []), *sums.sums]
    found = []
    for name in names:
        expected, got = (side.get(name) or Decimal(0) for side in (upstream, made))
        if expected != got:
            found.append(f"{name} is {got}, upstream has {expected}")
    return tuple(found)
