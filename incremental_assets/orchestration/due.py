"""Everything that is new or stale as a job: in the UI what `incremental-assets run` does."""

import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import tables_named
from incremental_assets.days import DayRange
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.orchestration.incidents import DAYS, TableError, days_asked_for, report
from incremental_assets.orchestration.manual_jobs import JobStep, ManualJob
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plan.rounds import Unreadable, due_runs
from incremental_assets.table import Table


class DueConfig(dg.Config):
    """What is to be loaded, if not everything."""

    tables: list[str] = Field([], description="Tables, such as silver/sales; all if it is empty.")
    days: str = Field("", description=DAYS)


def _load_due(step: JobStep) -> Iterator[Any]:
    chosen = tables_named(step.config.tables, step.lakehouse.tables)
    days = days_asked_for(step.config.days)
    errors: list[TableError] = []
    loaded = _loaded(step.lakehouse, chosen, days, step.run_id, errors)
    yield from report(step, _and_cleared(loaded, step, chosen), errors)


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
    lakehouse: Lakehouse,
    chosen: Sequence[Table],
    days: DayRange | None,
    run_id: str,
    errors: list[TableError],
) -> Iterator[TableLoadResult]:
    """Each load, until nothing is due. What is built on a day that failed is left to a later run.

    The errors of tables that cannot be loaded at all are added to `errors`; the others are loaded.
    """
    require_all_consistent(lakehouse.ledger, lakehouse.settings, chosen)
    ledger, now = lakehouse.ledger.view_if_any, lakehouse.now()

    def unreadable(each: Unreadable) -> None:
        errors.append((each.table, each.error))

    for due in due_runs(
        chosen,
        lakehouse.settings,
        days,
        now,
        ledger,
        log=lakehouse.log,
        unreadable=unreadable,
    ):
        failed: set[str] = set()
        for table in due.tables:
            if failed & ({read.table.name for read in table.upstreams} | table.rule_tables):
                failed.add(table.name)
                continue
            try:
                result = lakehouse.load(table, list(due.days), run_id)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are loaded
                if not isinstance(error, IncrementalAssetsError):
                    lakehouse.log(f"{table.name}: {traceback.format_exc()}")
                errors.append((table, error))
                failed.add(table.name)
                continue
            failed |= {table.name} if result.failed else set()
            yield result


def _and_cleared(
    loaded: Iterator[TableLoadResult], step: JobStep, chosen: Sequence[Table]
) -> Iterator[TableLoadResult]:
    """The loads; after the last one, what earlier runs have left red without cause is cleared."""
    yield from loaded
    lake = step.lakehouse
    view, now = lake.ledger.view_if_any(), lake.now()
    instance = step.context.instance
    RedDays(instance, view, lake.settings, now, step.naming).clear(chosen, lake.log)
