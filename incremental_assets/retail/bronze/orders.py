"""Orders as the shop's table had them after each change."""

from __future__ import annotations

from datetime import timedelta

from incremental_assets import Append, Stored, Table, Timestamp

ORDERS = Table(
    name="bronze/orders",
    description="Rows of the shop's table of orders as they were read, on the day of their change.",
    reads=(Stored("orders"),),
    # Some changes are delivered days late: a day that has more rows is read again as a whole.
    changes=Timestamp("updated_at", lookback=timedelta(days=1)),
    write=Append(),
    owners=("team:ingest",),
)
