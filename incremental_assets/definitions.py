"""What Dagster loads: the tables that INCREMENTAL_ASSETS_TABLES names, as assets.

The functions give the jobs that the command line runs.
"""

import dagster as dg

from incremental_assets.catalog import tables
from incremental_assets.orchestration.build import LOAD_DAYS, build_definitions
from incremental_assets.settings import Settings

defs = build_definitions(tables(), Settings.from_environment())


def load_days() -> dg.JobDefinition:
    return defs.resolve_job_def(LOAD_DAYS)


def restate() -> dg.JobDefinition:
    return defs.resolve_job_def("restate")
