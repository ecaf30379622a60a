"""A run that ended early leaves days of its range red; those that are up to date are cleared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from incremental_assets.catalog import table_named, tables
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START, daily
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import did, jan

NOW = datetime(2017, 1, 9, 12, tzinfo=UTC)
NAMES = ("bronze/events", "silver/sales", "gold/sales_mart")
EVENTS, SALES, MART = (table_named(tables(), name) for name in NAMES)
DAYS = [jan(day) for day in range(1, 6)]


class _Interrupted(Lakehouse):
    """A lakehouse whose loads are interrupted."""

    def load(self, table: Table, days: Sequence[date], run_id: str = "") -> TableLoadResult:
        raise dg.DagsterExecutionInterruptedError


@dataclass(frozen=True)
class _Resource:
    settings: Settings

    def open(self, _spark: SparkResource, log: Any) -> Lakehouse:
        return _Interrupted(self.settings, tables(), _no_spark, lambda: NOW, log)


def _no_spark() -> Any:
    raise AssertionError("no Spark is asked for")


def interrupt(instance: dg.DagsterInstance, settings: Settings, table: Table) -> None:
    """Begin a run over the days of a table that is interrupted."""
    resources = {ALONE.spark: SparkResource(), ALONE.lakehouse: _Resource(settings)}
    made = dg.Definitions(
        incremental_assets(tables(), settings),
        resources=resources,
        executor=dg.in_process_executor,
    )
    run = made.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[ALONE.key(table)],
        tags={RANGE_START: str(DAYS[0]), RANGE_END: str(DAYS[-1])},
        raise_on_error=False,
    )
    assert not run.success


def red(instance: dg.DagsterInstance, settings: Settings, table: Table) -> list[date]:
    keys = list(map(str, DAYS))
    found = instance.get_status_by_partition(ALONE.key(table), keys, daily(settings)) or {}
    return [day for day in DAYS if (status := found[str(day)]) and status.value == "FAILED"]


def test_days_that_are_up_to_date_are_cleared_and_those_that_wait_for_something_stay_red(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    landed = Path(settings.landing, "events", str(jan(2)))
    landed.mkdir(parents=True)
    (landed / "new.jsonl").write_text("{}\n")
    ledger = Ledger(ledger_path(settings.lake))
    loaded = [did(EVENTS, 1, day, touched=[day]) for day in (1, 3, 4, 5)]
    ledger.transact_on(EVENTS.name, lambda _: loaded)
    read = [did(SALES, 1, day, touched=[day], read={EVENTS.name: 1}) for day in (1, 3)]
    window = (Window(EVENTS.name, 0, 1),)
    held = replace(did(SALES, 1, 4, state="held"), windows=window)
    ledger.transact_on(SALES.name, lambda _: [*read, held])
    built = did(MART, 1, 1, touched=[1], read={SALES.name: 1})
    ledger.transact_on(MART.name, lambda _: [built])
    chosen = [EVENTS, SALES, MART]
    for table in chosen:
        interrupt(instance, settings, table)
        assert red(instance, settings, table) == DAYS

    lines: list[str] = []

    RedDays(instance, ledger.view(), settings, NOW).clear(chosen, lines.append)

    # The 2nd has landed and was not loaded; the 4th of silver is held, and its 5th is stale. Gold is
    # stale on the 3rd alone: on the others there is nothing in silver that it could have read.
    reported = "up to date and shown as failed: reported as loaded"
    assert lines == [
        f"bronze/events 2017-01-01, 2017-01-03...2017-01-05: {reported}",
        f"silver/sales 2017-01-01, 2017-01-03: {reported}",
        f"gold/sales_mart 2017-01-01: {reported}",
    ]
    assert red(instance, settings, EVENTS) == [jan(2)]
    assert red(instance, settings, SALES) == [jan(2), jan(4), jan(5)]
    assert red(instance, settings, MART) == DAYS[1:]
    RedDays(instance, ledger.view(), settings, NOW).clear(chosen, lines.append)
    assert len(lines) == 3
