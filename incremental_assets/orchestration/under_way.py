"""Whether a run loads a table, by whatever job, and which ones that do have not ended."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from incremental_assets.orchestration.naming import Naming
from incremental_assets.table import Table

# A run that is created and not yet queued is requested again: the daemon finds it by its key.
UNDER_WAY = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
_MOST_EVENTS = 10_000  # of one run: an event for each asset and day that it plans


def runs_that_load(
    instance: dg.DagsterInstance, table: Table, naming: Naming
) -> Iterator[dg.DagsterRun]:
    """The runs that load this table and have not ended."""
    for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)):
        if loads(instance, run, table, naming):
            yield run


def loads(instance: dg.DagsterInstance, run: dg.DagsterRun, table: Table, naming: Naming) -> bool:
    """Whether a run loads, or loaded, this table."""
    return naming.loads(run, table) or _plans(instance, run, naming.key(table))


def _plans(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    """Whether a run without a selection of assets, of somebody's own job, has planned this one.

    Dagster records what a run plans when it creates it. A run of more days than are read counts.
    """
    if run.asset_selection:
        return False
    planned = instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED, limit=_MOST_EVENTS
    )
    events = (record.event_log_entry.dagster_event for record in planned.records)
    return planned.has_more or any(event is not None and event.asset_key == key for event in events)
