from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.quality.rules import fail, reconciles
from incremental_assets.table import SameDay, Sums, Table
from incremental_assets.writes import ReplaceDay
from incremental_assets_tests.end_to_end.corner_shop.silver.orders import ORDERS


def transform(orders: DataFrame) -> DataFrame:
    """Count the orders by the day of their last change and by status."""
    return orders.groupBy("dt", "status").agg(
        F.count(F.lit(1)).alias("orders"), F.sum("amount").alias("amount")
    )


DAILY_ORDERS = Table(
    name="gold/daily_orders",
    description="Orders per day of their last change, by status.",
    reads=(SameDay(ORDERS),),
    key=("status",),
    rules=fail(reconciles()),
    sums=Sums({"amount": ("sum(amount)", "sum(amount)")}, rows=False),
    write=ReplaceDay(),
    transform=transform,
)
