"""What Dagster loads: the tables that INCREMENTAL_ASSETS_TABLES names, as assets.

The functions give the jobs that the command line runs.
"""

from functools import cache

import dagster as dg

from incremental_assets.catalog import tables_of
from incremental_assets.orchestration.build import LOAD_DAYS, build_definitions
from incremental_assets.settings import Settings


@cache
def _definitions(settings: Settings) -> dg.Definitions:
    return build_definitions(tables_of(settings.tables), settings)


defs = _definitions(Settings.from_environment())


def _job(name: str) -> dg.JobDefinition:
    """A job over the lake that the settings name when it is run, not when this was imported."""
    return _definitions(Settings.from_environment()).resolve_job_def(name)


def load_days() -> dg.JobDefinition:
    return _job(LOAD_DAYS)


def restate() -> dg.JobDefinition:
    return _job("restate")
