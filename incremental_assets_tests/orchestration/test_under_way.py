"""Which runs load a table now: also those of a job that is somebody's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from incremental_assets.catalog import table_named, tables
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.orchestration.under_way import runs_that_load
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import jan

EVENTS, SALES, MART = (
    table_named(tables(), name) for name in ("bronze/events", "silver/sales", "gold/sales_mart")
)
OWN_JOB = "nightly"


@dataclass
class Asks:
    """A lakehouse that loads nothing, and asks meanwhile which tables are being loaded."""

    settings: Settings
    instance: dg.DagsterInstance
    loading: dict[str, list[str]] = field(default_factory=dict)

    def open(self, _spark: SparkResource, log: Any) -> Lakehouse:
        return _Asking(self, log)

    def ask(self) -> None:
        for table in (EVENTS, SALES, MART):
            runs = runs_that_load(self.instance, table, ALONE)
            self.loading[table.name] = [run.job_name for run in runs]


class _Asking(Lakehouse):
    def __init__(self, asks: Asks, log: Any) -> None:
        now = datetime(2017, 1, 9, 12, tzinfo=UTC)
        super().__init__(asks.settings, tables(), _no_spark, lambda: now, log)
        self._asks = asks

    def load(self, table: Table, days: Sequence[date], run_id: str = "") -> TableLoadResult:
        self._asks.ask()
        return super().load(table, days, run_id)


def _no_spark() -> Any:
    raise AssertionError("no Spark is asked for")


def run_own_job(settings: Settings, instance: dg.DagsterInstance) -> Asks:
    """Run a job of somebody's own over two tables, without a selection of its assets."""
    asks = Asks(settings, instance)
    made = dg.Definitions(
        incremental_assets(tables(), settings),
        jobs=[
            dg.define_asset_job(
                OWN_JOB, dg.AssetSelection.assets(ALONE.key(EVENTS), ALONE.key(SALES))
            )
        ],
        resources={ALONE.spark: SparkResource(), ALONE.lakehouse: asks},
        executor=executor_for(settings),
    )
    run = made.resolve_job_def(OWN_JOB).execute_in_process(
        instance=instance,
        tags={RANGE_START: str(jan(2)), RANGE_END: str(jan(4))},
    )
    assert run.success
    return asks


def test_a_run_of_somebodys_own_job_loads_what_it_plans_and_nothing_else(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    asks = run_own_job(settings, instance)

    assert asks.loading == {EVENTS.name: [OWN_JOB], SALES.name: [OWN_JOB], MART.name: []}
    assert list(runs_that_load(instance, EVENTS, ALONE)) == []
