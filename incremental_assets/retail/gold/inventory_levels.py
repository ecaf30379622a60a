"""Inventory levels: the stock of a product in a store at the end of each day with a movement."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from incremental_assets import RecomputeKeys, SameDay, Sums, Table, fail, reconciles
from incremental_assets.retail.silver.inventory_movements import INVENTORY_MOVEMENTS

_PRODUCT_AND_STORE = ("product_id", "store_id")


def transform(movements: DataFrame, opening: DataFrame) -> DataFrame:
    """Continue the level from its last day; `delta` is what the day changed, in whole pieces.

    A level holds until the next row of its product and store.
    """
    days = movements.groupBy(*_PRODUCT_AND_STORE, "dt").agg(F.sum("delta").alias("delta"))
    before = opening.select(*_PRODUCT_AND_STORE, F.col("level").alias("_before"))
    so_far = F.sum("delta").over(Window.partitionBy(*_PRODUCT_AND_STORE).orderBy("dt"))
    level = F.coalesce(F.col("_before"), F.lit(0)) + so_far
    return (
        days.join(before, list(_PRODUCT_AND_STORE), "left")
        .withColumn("level", level)
        .drop("_before")
    )


INVENTORY_LEVELS = Table(
    name="gold/inventory_levels",
    description="The level of each product and store at the end of each day on which it changed.",
    reads=(SameDay(INVENTORY_MOVEMENTS),),
    key=_PRODUCT_AND_STORE,
    rules=fail(reconciles()),
    sums=Sums({"delta": ("sum(delta)", "sum(delta)")}, rows=False),
    write=RecomputeKeys(running={"level": "bigint"}),
    transform=transform,
    lineage={"level": ("silver/inventory_movements.delta",)},
    owners=("team:supply",),
)
