"""The composition root: every table of the catalogue as an asset, the sensors, one Spark."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository

from incremental_assets.catalog import tables
from incremental_assets.orchestration.alerts import alert_sensors
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.incidents import INCIDENT_JOBS
from incremental_assets.orchestration.maintenance import DAILY_MAINTENANCE, maintenance
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.orchestration.sensors import stale_days_sensors
from incremental_assets.orchestration.source_sensors import source_sensors
from incremental_assets.orchestration.threads import threads
from incremental_assets.orchestration.verification import verify_job
from incremental_assets.settings import Settings

_settings = Settings.from_environment()
defs = dg.Definitions(
    assets=incremental_assets(tables(), _settings),
    jobs=[*INCIDENT_JOBS, verify_job, maintenance],
    schedules=[DAILY_MAINTENANCE],
    sensors=[
        *source_sensors(tables(), _settings),
        *stale_days_sensors(tables(), _settings),
        *alert_sensors(tables(), _settings),
    ],
    resources={"spark": SparkResource()},
    executor=threads,
    loggers={"console": console},
)


def all_assets() -> ReconstructableJob:
    """The job that holds every asset, as Dagster's own command line hands it over."""
    repository = ReconstructableRepository.for_module("incremental_assets", "defs")
    return repository.get_reconstructable_job(defs.resolve_implicit_global_asset_job_def().name)
