"""The sensor that requests stale days: what depends on a published day is loaded at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import dagster as dg

from incremental_assets.days import DayRange, utc_today
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.orchestration.cached_ledger import cached_ledger, ledger_id
from incremental_assets.orchestration.load_days import AssetJob
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.patience import SensorCursor, utc_now
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.orchestration.requests import MOST_ATTEMPTS, runs_for
from incremental_assets.plan.due import stale_tables, with_downstream
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def stale_days_sensors(
    tables: Sequence[Table],
    settings: Settings,
    load_days: AssetJob,
    now: Callable[[], datetime] = utc_now,
    naming: Naming = ALONE,
) -> list[dg.SensorDefinition]:
    """A sensor over all tables, which requests runs of `load_days`; none where nothing is built.

    A tick reads the ledger and starts no JVM. After a run that failed it also reports the days that
    are shown as failed without cause; only that may list sources.
    """
    if not any(table.upstreams for table in tables):
        return []
    ledger = cached_ledger(settings.lake)

    @dg.sensor(
        name=naming.own("stale_days"),
        target=load_days,
        minimum_interval_seconds=settings.sensor_seconds,
        description="Requests the days whose upstream has rows that they have not read: after a "
        "range with a held day, what is built on the good days; after late rows, their own days. "
        "The same state is requested once; after a run that died again, "
        f"{MOST_ATTEMPTS} times in all. Where a run failed, it also reports those of its days as "
        "materialized that are up to date.",
    )
    def stale_days(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        at, cursor = now(), SensorCursor.of(context.cursor)
        span = DayRange(settings.start_date, utc_today(at))
        try:
            view = ledger.view()
        except IncrementalAssetsError as error:
            cursor = cursor.unreachable(at, "stale_days", error)
            context.update_cursor(str(cursor))
            return dg.SkipReason(f"Since {cursor.unreachable_since}: {error}")
        red = RedDays(context.instance, view, settings, at, naming)
        seen = red.clear_after_failures(tables, cursor.failures_seen, context.log.info)
        context.update_cursor(str(SensorCursor(failures_seen=seen)))
        left: list[str] = []
        for table, stale in stale_tables(tables, view, span.first, span.last, span):
            last = view.table(table.name).last_final_batch
            lake = ledger_id(settings.lake)
            positions = {day: f"{lake} {last.get(day, 0)} {why}" for day, why in stale.items()}
            requests = runs_for(with_downstream(table, tables), positions, context.instance, naming)
            left += requests.left
            if requests.runs:  # what is stale further down is due after that
                return dg.SensorResult(requests.runs)
        return dg.SkipReason(" ".join(left) or "Nothing is stale.")

    return [stale_days]
