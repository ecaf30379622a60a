"""A sensor per source: it asks for the landing days on which the source has something new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import dagster as dg

from incremental_assets.days import named
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.orchestration.events import asset_key
from incremental_assets.orchestration.kept_ledger import kept_ledger
from incremental_assets.orchestration.patience import Cursor, utc_now
from incremental_assets.orchestration.requests import Asked, runs_for
from incremental_assets.plan import PendingDays, pending_days
from incremental_assets.plan.due import with_downstream
from incremental_assets.plan.inspector import CachedInspector
from incremental_assets.settings import Settings
from incremental_assets.table import Table


def source_sensors(
    tables: Sequence[Table], settings: Settings, now: Callable[[], datetime] = utc_now
) -> list[dg.SensorDefinition]:
    """A sensor for each bronze table of the tables, whatever kind of source it reads.

    A tick lists the source, reads the ledger and starts no JVM.
    """
    return [_sensor(table, tables, settings, now) for table in tables if table.layer == "bronze"]


def _sensor(
    table: Table, tables: Sequence[Table], settings: Settings, now: Callable[[], datetime]
) -> dg.SensorDefinition:
    below = with_downstream(table, tables)
    _, _, source = table.name.partition("/")
    ledger, looks = kept_ledger(settings.lake), CachedInspector()

    @dg.sensor(
        name=f"new_in_{source}",
        target=dg.AssetSelection.assets(*(asset_key(each) for each in below)),
        minimum_interval_seconds=settings.sensor_seconds,
        description=f"Asks for the landing days of {table.name} on which its source has something "
        "new, with all that is built on it. What has been asked for is not asked for again unless "
        "it changes, or its run died.",
    )
    def new_in_source(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        cursor = Cursor.of(context.cursor)
        at = now()
        try:
            view = ledger.view()
            news = pending_days(table, view, settings, at, looks)
        except IncrementalAssetsError as error:
            cursor = cursor.unreachable(at, table.name, error)
            context.update_cursor(str(cursor))
            return dg.SkipReason(f"Since {cursor.unreachable_since}: {error}")
        said = view.table(table.name).last_said
        positions = {day: f"{said.get(day, 0)} {news.position(day)}" for day in news.days}
        asked = runs_for(below, positions, context.instance) if positions else Asked()
        outside = _outside(news, settings)
        told = [outside] if outside and outside != cursor.outside else []
        for line in told:
            context.log.warning(f"{table.name}: {line}")
        context.update_cursor(str(Cursor(outside=outside)))
        if asked.runs:
            return dg.SensorResult(asked.runs)
        return dg.SkipReason("; ".join([*asked.left, *told]) or "Nothing is new.")

    return new_in_source


def _outside(news: PendingDays, settings: Settings) -> str:
    """Which day folders are left out, in words; "" for none."""
    before = [day for day in news.outside if day < settings.start_date]
    after = [day for day in news.outside if day > settings.start_date]
    lines = []
    if before:
        lines.append(
            f"the day folders {named(before)} lie before the first partition "
            f"{settings.start_date} and are left out; set INCREMENTAL_ASSETS_START_DATE to load "
            "them"
        )
    if after:
        lines.append(f"the day folders {named(after)} lie in the future; they are loaded then")
    return "; ".join(lines)
