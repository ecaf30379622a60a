"""Customer orders: what each user has ordered so far."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets import RecomputeKeys, SameDay, Sums, Table, fail, reconciles
from incremental_assets.retail.silver.orders import ORDERS


def transform(orders: DataFrame) -> DataFrame:
    """Sum all orders of a user that were not cancelled; `value` is decimal(28,4), exact.

    `dt` is the UTC day of the user's last order.
    """
    counted = orders.where("status != 'cancelled'")
    return (
        counted.groupBy("user_id")
        .agg(
            F.min("created_at").alias("first_order_at"),
            F.max("created_at").alias("last_order_at"),
            F.count(F.lit(1)).alias("orders"),
            F.sum("amount").alias("value"),
        )
        .withColumn("dt", F.col("last_order_at").cast("date"))
    )


CUSTOMER_ORDERS = Table(
    name="gold/customer_orders",
    description="Per user the first and last order, their number and exact value, none cancelled.",
    reads=(SameDay(ORDERS),),
    key=("user_id",),
    rules=fail(reconciles()),
    sums=Sums(
        {
            "value": ("sum(amount) FILTER (WHERE status != 'cancelled')", "sum(value)"),
            "orders": ("count_if(status != 'cancelled')", "sum(orders)"),
        },
        rows=False,
    ),
    write=RecomputeKeys(),
    transform=transform,
    lineage={
        "first_order_at": ("silver/orders.created_at",),
        "last_order_at": ("silver/orders.created_at",),
        "orders": ("silver/orders.order_id",),
        "value": ("silver/orders.amount",),
        "dt": ("silver/orders.created_at",),
    },
    owners=("team:customers",),
)
