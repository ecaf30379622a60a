"""Everything that is new or stale as a job: in the UI what `incremental-assets run` does."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import tables_named
from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.operations.load_due import load_due
from incremental_assets.orchestration.incidents import DAYS, TableError, days_asked_for, report
from incremental_assets.orchestration.manual_jobs import JobStep, ManualJob
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.table import Table


class DueConfig(dg.Config):
    """What is to be loaded, if not everything."""

    tables: list[str] = Field([], description="Tables, such as silver/sales; all if it is empty.")
    days: str = Field("", description=DAYS)


def _load_due(step: JobStep) -> Iterator[Any]:
    chosen = tables_named(step.config.tables, step.lakehouse.tables)
    errors: list[TableError] = []
    yield from report(step, _and_cleared(_loaded(step, chosen, errors), step, chosen), errors)


LOAD_DUE = ManualJob(
    name="load_due",
    op="load_due_days",
    description="Load everything that is new or stale, as `incremental-assets run` does: the days "
    "that have landed, then what is built on them. It needs no config, and starts no Spark where "
    "nothing is due.",
    op_description="Loads what is new or stale, upstreams first, until nothing is.",
    config=DueConfig,
    run=_load_due,
)


def _loaded(
    step: JobStep, chosen: Sequence[Table], errors: list[TableError]
) -> Iterator[TableLoadResult]:
    """Each load; the errors of tables that cannot be loaded are added to `errors`."""
    days = days_asked_for(step.config.days)
    for done in load_due(step.lakehouse, chosen, days, lambda _: step.run_id):
        if done.error is not None:
            errors.append((done.table, done.error))
        elif done.result is not None:
            yield done.result


def _and_cleared(
    loaded: Iterator[TableLoadResult], step: JobStep, chosen: Sequence[Table]
) -> Iterator[TableLoadResult]:
    """The loads; after the last one, what earlier runs have left red without cause is cleared."""
    yield from loaded
    lake = step.lakehouse
    view, now = lake.ledger.view_if_any(), lake.now()
    red = RedDays(step.context.instance, view, lake.settings, now, step.naming)
    red.clear_if_possible(chosen, lake.log)
