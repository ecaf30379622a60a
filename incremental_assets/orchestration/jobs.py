"""The jobs that the command line runs: functions of a module, so that a step's process finds them.

A job is over the lake that the settings name when it is run, not when this was imported.
"""

from __future__ import annotations

from datetime import date
from functools import cache

import dagster as dg

from incremental_assets.catalog import tables_of
from incremental_assets.orchestration.build import code_location
from incremental_assets.orchestration.naming import Naming
from incremental_assets.settings import Settings


def load_days() -> dg.JobDefinition:
    return _job("load_days")


def restate() -> dg.JobDefinition:
    return _job("restate")


def retract() -> dg.JobDefinition:
    return _job("retract")


def _job(name: str) -> dg.JobDefinition:
    settings = Settings.from_environment()
    # A run may find rows of a day that nobody knew when its definitions were made.
    open_end = settings.replace(end_date=date.max)
    return _definitions(open_end).resolve_job_def(Naming.of(settings).own(name))


@cache
def _definitions(settings: Settings) -> dg.Definitions:
    return code_location(tables_of(settings.tables), settings)
