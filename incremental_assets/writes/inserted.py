"""What staging new rows alone has in common, whichever strategy does it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from pyspark.sql import DataFrame

from incremental_assets.delta.stage import Staged
from incremental_assets.writes.destination import Destination


def inserted(staged: Staged, to: Destination) -> Mapping[date | None, int]:
    """The rows that were staged, per day where the destination counts by it."""
    if not to.counted_by:
        return {None: sum(file.rows for file in staged.files)}
    return {day: rows for (day,), rows in staged.rows.items()}


def spread(rows: DataFrame, to: Destination) -> DataFrame:
    """Rows of several days, each day's together: every task would write a file for each."""
    return rows.hint("rebalance", "dt") if len(to.days) > 1 else rows
