"""Everything that Dagster shows and runs of a set of tables."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from incremental_assets.orchestration.alerts import alert_sensors
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.due import load_due
from incremental_assets.orchestration.events import asset_key
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.incidents import INCIDENT_JOBS
from incremental_assets.orchestration.maintenance import DAILY_MAINTENANCE, maintenance
from incremental_assets.orchestration.resources import LakehouseResource, SparkResource
from incremental_assets.orchestration.sensors import stale_days_sensors
from incremental_assets.orchestration.source_sensors import source_sensors
from incremental_assets.orchestration.verification import verify_job
from incremental_assets.settings import Settings
from incremental_assets.table import Table

LOAD_DAYS = "load_days"


def build_definitions(tables: Sequence[Table], settings: Settings | None = None) -> dg.Definitions:
    """The tables as assets with their checks, and the sensors, jobs and schedule that go with them.

    `tables` come upstreams first, as `tables_of(package)` gives them. Without `settings`, those of
    the environment; a SettingsError names those that cannot be used.
    """
    settings = settings or Settings.from_environment()
    return dg.Definitions(
        assets=incremental_assets(tables, settings),
        jobs=[
            dg.define_asset_job(
                LOAD_DAYS,
                dg.AssetSelection.assets(*(asset_key(table) for table in tables)),
                description="Load the chosen days of all tables, upstreams first. Days with "
                "nothing new start no Spark. `incremental-assets run` runs it, too, for the days "
                "and tables that are due.",
            ),
            load_due,
            *INCIDENT_JOBS,
            verify_job,
            maintenance,
        ],
        schedules=[DAILY_MAINTENANCE],
        sensors=[
            *source_sensors(tables, settings),
            *stale_days_sensors(tables, settings),
            *alert_sensors(tables, settings),
        ],
        resources={
            "spark": SparkResource(),
            "lakehouse": LakehouseResource(tuple(tables), settings),
        },
        executor=executor_for(settings),
        loggers={"console": console},
    )
