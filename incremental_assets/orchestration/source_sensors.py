"""A sensor per source: it requests the landing days on which the source has something new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import dagster as dg

from incremental_assets.days import named
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.orchestration.cached_ledger import cached_ledger, ledger_id
from incremental_assets.orchestration.load_days import AssetJob
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.patience import SensorCursor, utc_now
from incremental_assets.orchestration.requests import RunRequests, runs_for
from incremental_assets.plan import PendingDays, pending_days
from incremental_assets.plan.due import with_downstream
from incremental_assets.plan.inspector import CachedInspector
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def source_sensors(
    tables: Sequence[Table],
    settings: Settings,
    load_days: AssetJob,
    now: Callable[[], datetime] = utc_now,
    naming: Naming = ALONE,
) -> list[dg.SensorDefinition]:
    """A sensor for each bronze table of the tables, whatever kind of source it reads.

    It requests runs of the job `load_days`, which has all the tables. A tick lists the source,
    reads the ledger and starts no JVM.
    """
    bronze = [table for table in tables if table.layer == "bronze"]
    return [_sensor(table, tables, settings, load_days, now, naming) for table in bronze]


def _sensor(
    table: Table,
    tables: Sequence[Table],
    settings: Settings,
    load_days: AssetJob,
    now: Callable[[], datetime],
    naming: Naming,
) -> dg.SensorDefinition:
    below = with_downstream(table, tables)
    _, _, source = table.name.partition("/")
    ledger, inspector = cached_ledger(settings.lake), CachedInspector()

    @dg.sensor(
        name=naming.own(f"new_in_{source}"),
        target=load_days,
        minimum_interval_seconds=settings.sensor_seconds,
        description=f"Requests the landing days of {table.name} on which its source has something "
        "new, with all that is built on it. What was requested is not requested again unless it "
        "changes, or its run died.",
    )
    def new_in_source(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        cursor = SensorCursor.of(context.cursor)
        at = now()
        try:
            view = ledger.view()
            pending = pending_days(table, view, settings, at, inspector)
        except IncrementalAssetsError as error:
            cursor = cursor.unreachable(at, table.name, error)
            context.update_cursor(str(cursor))
            return dg.SkipReason(f"Since {cursor.unreachable_since}: {error}")
        last = view.table(table.name).last_final_batch
        lake = ledger_id(settings.lake)
        positions = {
            day: f"{lake} {last.get(day, 0)} {pending.position(day)}" for day in pending.days
        }
        requests = (
            runs_for(below, positions, context.instance, naming) if positions else RunRequests()
        )
        outside = _outside(pending, settings)
        notes = [outside] if outside and outside != cursor.outside else []
        for line in notes:
            context.log.warning(f"{table.name}: {line}")
        context.update_cursor(str(SensorCursor(outside=outside)))
        if requests.runs:
            return dg.SensorResult(requests.runs)
        reasons = [*requests.left, *notes, *pending.notes]
        return dg.SkipReason(" ".join(reasons) or "Nothing is new.")

    return new_in_source


def _outside(pending: PendingDays, settings: Settings) -> str:
    """Which day folders are left out, for the log; "" for none."""
    before = [day for day in pending.outside if day < settings.start_date]
    after = [day for day in pending.outside if day > settings.start_date]
    lines = []
    if before:
        lines.append(
            f"The day folders {named(before)} are before the first partition "
            f"{settings.start_date} and are left out; set INCREMENTAL_ASSETS_START_DATE to load "
            "them."
        )
    if after:
        lines.append(f"The day folders {named(after)} are in the future; they are loaded then.")
    return " ".join(lines)
