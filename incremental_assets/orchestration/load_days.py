"""The job of all tables: the sensors request its runs, and so does the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import dagster as dg

from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.table import Table

# What `dg.define_asset_job` returns, for which Dagster has no public name.
AssetJob: TypeAlias = Any


def load_days_job(
    tables: Sequence[Table], executor: dg.ExecutorDefinition, naming: Naming = ALONE
) -> AssetJob:
    """The job that loads chosen days of chosen tables, with an executor of its own.

    So a sensor's runs have it, too, whatever the executor of the code location.
    """
    return dg.define_asset_job(
        naming.load_days,
        dg.AssetSelection.assets(*(naming.key(table) for table in tables)),
        description="Load the chosen days of all tables, upstreams first. Days with nothing new "
        "start no Spark. `incremental-assets run` runs it, too, for the days and tables that are "
        "due.",
        executor_def=executor,
    )
