"""Daily product sales: units, revenue and orders per product and store."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets import ReplaceDay, SameDay, Sums, Table, fail, reconciles
from incremental_assets.retail.gold.sales_mart import SALES_MART


def transform(mart: DataFrame) -> DataFrame:
    """Sum by day, product and store; revenue is decimal(38,4), exact and unrounded."""
    return mart.groupBy("dt", "product_id", "store_id").agg(
        F.sum("qty").alias("units"),
        F.sum("total_price").alias("revenue"),
        F.count(F.lit(1)).alias("orders"),
    )


DAILY_PRODUCT_SALES = Table(
    name="gold/daily_product_sales",
    description="Units, exact revenue and number of orders per day, product and store.",
    reads=(SameDay(SALES_MART),),
    key=("product_id", "store_id"),
    rules=fail(reconciles()),
    sums=Sums(
        {
            "revenue": ("sum(total_price)", "sum(revenue)"),
            "units": ("sum(qty)", "sum(units)"),
            "orders": ("count(1)", "sum(orders)"),
        },
        rows=False,
    ),
    write=ReplaceDay(),
    transform=transform,
    lineage={
        "units": ("gold/sales_mart.qty",),
        "revenue": ("gold/sales_mart.total_price",),
        "orders": ("gold/sales_mart.order_id",),
    },
    owners=("team:sales",),
)
