"""The one daily partitions definition. A day of a table maps to the same day of its upstreams.

A business day may be built from rows of several landing days, and a lookup from any day before; the
ledger knows which. If Dagster knew it too, three days of a backfill would become every day that
depends on them: nine days of silver, and gold up to today.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from threading import Thread

import dagster as dg

from incremental_assets.days import ONE_DAY, DayRange, day_range, parse_day, parse_days, utc_today
from incremental_assets.errors import DayError
from incremental_assets.plan.known_days import last_known_day
from incremental_assets.settings import Settings
from incremental_assets.table import Table

# The tags of a run that takes a range of days.
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
PARTITION = "dagster/partition"
# Dagster's list of runs shows no tag of its own but the partition: this one has the range to read.
DAYS = "days"

# A lake with a day so near is of a business that goes on: its partitions end today.
_GOES_ON = timedelta(days=31)
_MOST_SECONDS = 10.0
# The words of Dagster's command lines that execute a run (`dagster asset materialize`, `dagster job
# execute`, `dg launch`), or by which its launchers start one. Of a code server it is a child by
# multiprocessing.
_RUN_BY = frozenset({"materialize", "execute", "launch", "execute_run", "execute_step"})


def daily(settings: Settings, last: date | None = None) -> dg.DailyPartitionsDefinition:
    """Every UTC day from the start date up to and including `last`; None: today."""
    return dg.DailyPartitionsDefinition(
        start_date=str(settings.start_date),
        end_date=None if last is None or last == date.max else str(last + ONE_DAY),
        end_offset=1,
        timezone="UTC",
    )


def last_day(
    tables: Sequence[Table], settings: Settings, now: datetime | None = None
) -> date | None:
    """The day that the partitions end with; None for one that moves on: today.

    The end that is set, or the last day that is known. Today, where that was not long ago, where
    nothing is known yet or in time, and where no more is known than that a source has rows. Today
    for a run, too: it may load days that nobody knew when it was asked for.
    """
    today = utc_today(now or datetime.now(UTC))
    if is_of_a_run():
        return None
    if settings.end_date is not None:
        return settings.end_date if settings.end_date < today else None
    found: list[date | None] = []

    def look() -> None:
        # A source of somebody's own may raise anything; whoever loads it gets the reason.
        with suppress(Exception):
            found.append(last_known_day(tables, settings, before=today - _GOES_ON))

    # A store that does not answer would hold up all that Dagster shows.
    looking = Thread(target=look, daemon=True)
    looking.start()
    looking.join(_MOST_SECONDS)
    return found[0] if found else None


def is_of_a_run() -> bool:
    """Whether this process executes a run, or a step of one, and does not show what there is."""
    return multiprocessing.parent_process() is not None or bool(_RUN_BY & set(sys.argv[1:4]))


def tags_of(days: DayRange) -> dict[str, str]:
    """The tags of a run over these days."""
    return {DAYS: str(days), RANGE_START: str(days.first), RANGE_END: str(days.last)}


def days_of_run(run: dg.DagsterRun) -> DayRange | None:
    """The days that a run was asked for; None for a run of something else."""
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    span = f"{first}...{last}" if first and last else run.tags.get(PARTITION, "")
    try:
        return parse_days(span)
    except DayError:
        return None


def show_days_of(instance: dg.DagsterInstance, run_id: str) -> None:
    """Tag a run over a range with its days where it has no such tag, as those of a backfill."""
    run = instance.get_run_by_id(run_id)
    if run is not None and RANGE_START in run.tags and DAYS not in run.tags:
        days = days_of_run(run)
        if days is not None:
            instance.add_run_tags(run_id, {DAYS: str(days)})


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
