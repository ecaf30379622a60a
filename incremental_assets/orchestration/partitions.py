"""The one daily partitions definition. A day of a table maps to the same day of its upstreams.

A business day may be built from rows of several landing days, and a lookup from any day before; the
ledger knows which. If Dagster knew it too, three days of a backfill would become every day that
depends on them: nine days of silver, and gold up to today.
"""

from __future__ import annotations

from datetime import date

import dagster as dg

from incremental_assets.days import day_range, parse_day
from incremental_assets.errors import DayError
from incremental_assets.settings import Settings

# The tags of a run that takes a range of days.
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"


def daily(settings: Settings) -> dg.DailyPartitionsDefinition:
    """Every UTC day from the start date up to and including today."""
    return dg.DailyPartitionsDefinition(
        start_date=str(settings.start_date), end_offset=1, timezone="UTC"
    )


def days_of(context: dg.AssetExecutionContext) -> list[date]:
    """The days that a run is to load. Raises DayError for none or a reversed range."""
    name = context.asset_key.to_user_string()
    if not (context.has_partition_key or context.has_partition_key_range):
        raise DayError(
            f"{name} is loaded by day: give --partition 2017-01-05 or "
            "--partition-range 2017-01-01...2017-01-31."
        )
    keys = context.partition_key_range
    day_range(parse_day(keys.start), parse_day(keys.end))
    return [parse_day(key) for key in context.partition_keys]
