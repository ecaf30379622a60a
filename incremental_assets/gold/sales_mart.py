"""The sales mart: each sale with its user as the user was when it happened."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.batches.lookups import validity
from incremental_assets.lake.strategy import ReplaceDay
from incremental_assets.quality.rules import fail, reconciles
from incremental_assets.silver.sales import SALES
from incremental_assets.silver.users import USERS
from incremental_assets.table import AsOf, ByDay, Sums, Table


def transform(sales: DataFrame, users: DataFrame) -> DataFrame:
    """Join the user's version at `event_ts`; before the first one, the first.

    A user's columns come prefixed with `user_`; a sale's own column of that name wins.
    `total_price` is decimal(29,4), exact.
    """
    taken = {name.lower() for name in sales.columns}
    attributes = {
        name: f"user_{name}"
        for name in users.columns
        if not name.startswith("_") and name not in ("dt", "user_id")
    }
    attributes = {name: new for name, new in attributes.items() if new.lower() not in taken}
    versions = validity(users, "user_id", "updated_at").select(
        F.col("user_id").alias("_user_id"),
        "_from",
        "_to",
        *(F.col(name).alias(new) for name, new in attributes.items()),
    )
    valid = (
        (F.col("user_id") == F.col("_user_id"))
        & (F.col("_from").isNull() | (F.col("event_ts") >= F.col("_from")))
        & (F.col("_to").isNull() | (F.col("event_ts") < F.col("_to")))
    )
    joined = sales.join(versions, valid, "left")
    return joined.withColumn("total_price", F.col("qty") * F.col("unit_price"))


SALES_MART = Table(
    name="gold/sales_mart",
    description="Each sale with its exact total price and its user as of the sale.",
    reads=(
        ByDay(SALES),
        AsOf(USERS, key="user_id", at="event_ts", valid_from="updated_at"),
    ),
    rules=fail(reconciles()),
    sums=Sums({"revenue": ("sum(qty * unit_price)", "sum(total_price)")}),
    write=ReplaceDay(),
    transform=transform,
    owners=("team:sales",),
)
