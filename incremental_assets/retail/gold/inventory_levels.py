"""Inventory levels: what a store had of a product at the end of each day on which it moved."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from incremental_assets import RecomputeKeys, SameDay, Sums, Table, fail, reconciles
from incremental_assets.retail.silver.inventory_movements import INVENTORY_MOVEMENTS

_PLACE = ("product_id", "store_id")


def transform(movements: DataFrame, opening: DataFrame) -> DataFrame:
    """Continue the level from its last day; `delta` is what the day changed, in whole pieces.

    A level holds until the next row of its product and store.
    """
    days = movements.groupBy(*_PLACE, "dt").agg(F.sum("delta").alias("delta"))
    before = opening.select(*_PLACE, F.col("level").alias("_before"))
    so_far = F.sum("delta").over(Window.partitionBy(*_PLACE).orderBy("dt"))
    level = F.coalesce(F.col("_before"), F.lit(0)) + so_far
    return days.join(before, list(_PLACE), "left").withColumn("level", level).drop("_before")


INVENTORY_LEVELS = Table(
    name="gold/inventory_levels",
    description="The level of each product and store at the end of each day on which it changed.",
    reads=(SameDay(INVENTORY_MOVEMENTS),),
    key=_PLACE,
    rules=fail(reconciles()),
    sums=Sums({"delta": ("sum(delta)", "sum(delta)")}, rows=False),
    write=RecomputeKeys(running={"level": "bigint"}),
    transform=transform,
    lineage={"level": ("silver/inventory_movements.delta",)},
    owners=("team:supply",),
)
