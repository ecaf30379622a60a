"""The one daily partitions definition, and how days of one table map to days of another."""

from __future__ import annotations

from datetime import date

import dagster as dg

from incremental_assets.days import day_range, parse_day
from incremental_assets.errors import DayError
from incremental_assets.settings import Settings
from incremental_assets.table import AsOf, SameDay, Table

# The tags of a run that takes a range of days.
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
_FROM_THE_START = -36_500  # days: more than there are partitions


def daily(settings: Settings) -> dg.DailyPartitionsDefinition:
    """Every UTC day from the start date up to and including today."""
    return dg.DailyPartitionsDefinition(
        start_date=str(settings.start_date), end_offset=1, timezone="UTC"
    )


def mapping(table: Table, read: SameDay | AsOf, settings: Settings) -> dg.PartitionMapping:
    """Which days of an upstream a day is made from.

    A business day D is fed by the landing days D-1 (a source in another time zone is ahead) to
    D + the allowed lateness. A version that is looked up may have begun on any day up to D, and
    rows that are recomputed by key continue those of the days before. Any other day is fed by the
    same day.
    """
    if isinstance(read, AsOf) or table.write.recomputes_keys:
        return up_to_the_day()
    if isinstance(read, SameDay) and read.table.layer == "bronze" and read.table.day is not None:
        allowed_lateness = table.allowed_lateness_in(settings.allowed_lateness)
        if allowed_lateness is not None:
            return dg.TimeWindowPartitionMapping(
                start_offset=-1,
                end_offset=allowed_lateness.days,
                allow_nonexistent_upstream_partitions=True,
            )
    return dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)


def up_to_the_day() -> dg.PartitionMapping:
    """A day depends on all days up to it."""
    return dg.TimeWindowPartitionMapping(
        start_offset=_FROM_THE_START, allow_nonexistent_upstream_partitions=True
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
