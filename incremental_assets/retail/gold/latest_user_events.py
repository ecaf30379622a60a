"""The latest event of each user and day."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets import ReplaceDay, SameDay, Sums, Table, fail, reconciles
from incremental_assets.retail.silver.sales import SALES

_COLUMNS = ("order_id", "store_id", "product_id", "qty", "unit_price", "event_ts")


def transform(sales: DataFrame) -> DataFrame:
    """The sale with the last `event_ts`, and of those at one instant that with the last order_id.

    The lines of a basket share their instant, so most days of a user are decided by the order_id.
    """
    latest = F.max_by(F.struct(*_COLUMNS), F.struct("event_ts", "order_id")).alias("latest")
    of_users = sales.where("user_id IS NOT NULL").groupBy("dt", "user_id").agg(latest)
    return of_users.select("dt", "user_id", "latest.*")


LATEST_USER_EVENTS = Table(
    name="gold/latest_user_events",
    description="Each user's latest event of each day; of events at one instant the last order_id.",
    reads=(SameDay(SALES),),
    key=("user_id",),
    rules=fail(reconciles()),
    sums=Sums({"users": ("count(DISTINCT user_id)", "count(1)")}, rows=False),
    write=ReplaceDay(),
    transform=transform,
    owners=("team:customers",),
)
