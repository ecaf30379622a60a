"""The sensor that asks for stale days: what stands on a published day is built at once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from incremental_assets.days import DayRange, utc_today
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.events import asset_key
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.plan.due import Due, stale_work
from incremental_assets.settings import Settings
from incremental_assets.table import Table

ASKED_FOR = "incremental_assets/asked_for"
MOST_ATTEMPTS = 3
_SECONDS = 30


def stale_days_sensors(tables: Sequence[Table], settings: Settings) -> list[dg.SensorDefinition]:
    """A sensor over all tables; none where no table is built on another.

    A tick reads the ledger and starts no JVM.
    """
    built = [asset_key(table) for table in tables if table.upstreams]
    if not built:
        return []
    ledger = Ledger(ledger_path(settings.lake))  # kept between ticks: what was read stays read

    @dg.sensor(
        name="stale_days",
        target=dg.AssetSelection.assets(*built),
        minimum_interval_seconds=_SECONDS,
        description="Asks for the days whose upstream has rows that they have not read: after a "
        "range with a held day, for what is built on the good days; after late rows, for their own "
        "days. The same state is asked for once; a run that died again, three times in all.",
    )
    def stale_days(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        today = utc_today(datetime.now(UTC))
        start = settings.start_date
        try:
            view = ledger.view()
        except IncrementalAssetsError as error:
            return dg.SkipReason(str(error))
        due = stale_work(tables, view, start, today, DayRange(start, today))
        requests, waiting = [], []
        for each in due:
            request = _request(each, context.instance)
            if isinstance(request, str):
                waiting.append(request)
            else:
                requests.append(request)
        if requests:
            return dg.SensorResult(requests)
        return dg.SkipReason("; ".join(waiting) or "Nothing is stale.")

    return [stale_days]


def _request(due: Due, instance: dg.DagsterInstance) -> dg.RunRequest | str:
    """The run to ask for, or why none is asked for."""
    what = f"{due.tables[0].name} {due.days}"
    position = hashlib.sha256(due.why.encode()).hexdigest()[:16]
    asked = f"{what}:{position}"
    runs = instance.get_runs(dg.RunsFilter(tags={ASKED_FOR: asked}), limit=MOST_ATTEMPTS)
    if any(not run.is_finished for run in runs):
        return f"{what} has been asked for"
    if len(runs) >= MOST_ATTEMPTS:
        return f"{what} was tried {len(runs)} times and is stale still; look at its last run"
    return dg.RunRequest(
        run_key=f"{asked}:{len(runs) + 1}",
        asset_selection=[asset_key(table) for table in due.tables],
        tags={
            ASKED_FOR: asked,
            RANGE_START: str(due.days.first),
            RANGE_END: str(due.days.last),
        },
    )
