"""The sales mart: each sale with its user and its product as they were when it happened."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets import (
    AsOf,
    Merge,
    SameDay,
    Sums,
    Table,
    fail,
    join_as_of,
    reconciles,
)
from incremental_assets.retail.silver.products import PRODUCTS
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.retail.silver.users import USERS

USER_THEN = AsOf(USERS, key="user_id", at="event_ts")
PRODUCT_THEN = AsOf(PRODUCTS, key="product_id", at="event_ts")


def transform(sales: DataFrame, users: DataFrame, products: DataFrame) -> DataFrame:
    """Join the versions at `event_ts`, with their columns as `user_…` and `product_…`.

    `total_price` is decimal(29,4), exact.
    """
    mart = join_as_of(sales, users, USER_THEN, "user_")
    mart = join_as_of(mart, products, PRODUCT_THEN, "product_")
    return mart.withColumn("total_price", F.col("qty") * F.col("unit_price"))


SALES_MART = Table(
    name="gold/sales_mart",
    description="Each sale with its exact total price, its user and its product as of the sale.",
    reads=(SameDay(SALES), USER_THEN, PRODUCT_THEN),
    key=("order_id",),
    rules=fail(reconciles()),
    sums=Sums({"revenue": ("sum(qty * unit_price)", "sum(total_price)")}),
    write=Merge(),
    transform=transform,
    lineage={
        "total_price": ("silver/sales.qty", "silver/sales.unit_price"),
        "user_*": ("silver/users.*",),
        "product_*": ("silver/products.*",),
    },
    owners=("team:sales",),
)
