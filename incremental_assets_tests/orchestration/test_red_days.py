"""A run that ended early leaves days of its range red; those that are up to date are cleared."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incremental_assets.catalog import table_named, tables
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.entry import Entry, Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration import red_days
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.load_days import load_days_job
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START, daily
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.orchestration.runs import run_what_is_due
from incremental_assets.orchestration.sensors import stale_days_sensors
from incremental_assets.plan import PendingDays, pending_days
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import did, jan

NOW = datetime(2017, 1, 9, 12, tzinfo=UTC)
NAMES = ("bronze/events", "silver/sales", "gold/sales_mart")
EVENTS, SALES, MART = (table_named(tables(), name) for name in NAMES)
CHOSEN = [EVENTS, SALES, MART]
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
        incremental_assets(tables(), settings, partitions=daily(settings)),
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
    for table in CHOSEN:
        interrupt(instance, settings, table)
        assert red(instance, settings, table) == DAYS

    lines: list[str] = []

    RedDays(instance, ledger.view(), settings, NOW).clear(CHOSEN, lines.append)

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
    RedDays(instance, ledger.view(), settings, NOW).clear(CHOSEN, lines.append)
    assert len(lines) == 3


def load_all(settings: Settings, *days: int) -> None:
    """The ledger as a load of these days of all three tables leaves it."""
    for table, read in zip(CHOSEN, (None, EVENTS, SALES), strict=True):
        high = {read.name: 1} if read is not None else None
        write(settings, *(did(table, 1, day, touched=[day], read=high) for day in days))


def write(settings: Settings, *entries: Entry) -> None:
    Ledger(ledger_path(settings.lake)).transact_on(entries[0].table, lambda _: entries)


def test_a_day_that_was_never_loaded_is_not_shown_as_loaded(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    load_all(settings, 1, 2, 4)
    for table in CHOSEN:
        interrupt(instance, settings, table)

    RedDays(instance, Ledger(ledger_path(settings.lake)).view(), settings, NOW).clear(CHOSEN, print)

    assert [red(instance, settings, table) for table in CHOSEN] == [[jan(3), jan(5)]] * 3


class Ticks:
    """Ticks of the sensor of stale days, and the tables whose sources they have listed."""

    def __init__(
        self, settings: Settings, instance: dg.DagsterInstance, patch: pytest.MonkeyPatch
    ) -> None:
        self._instance, self.cursor = instance, ""
        self.listed: list[str] = []
        job = load_days_job(CHOSEN, executor_for(settings))
        (self._sensor,) = stale_days_sensors(CHOSEN, settings, job, lambda: NOW)

        def noted(table: Table, *given: Any) -> PendingDays:
            self.listed.append(table.name)
            return pending_days(table, *given)

        patch.setattr(red_days, "pending_days", noted)

    def tick(self) -> None:
        context = dg.build_sensor_context(instance=self._instance, cursor=self.cursor)
        assert isinstance(self._sensor(context), dg.SkipReason)
        self.cursor = context.cursor or ""


def test_a_tick_clears_what_runs_that_failed_since_the_last_one_have_left_red(
    settings: Settings, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_all(settings, *range(1, 6))
    ticks = Ticks(settings, instance, monkeypatch)
    ticks.tick()
    assert ticks.listed == []
    interrupt(instance, settings, EVENTS)
    interrupt(instance, settings, SALES)

    ticks.tick()

    assert [red(instance, settings, table) for table in (EVENTS, SALES)] == [[], []]
    assert ticks.listed == ["bronze/events"]
    ticks.tick()
    assert ticks.listed == ["bronze/events"]
    interrupt(instance, settings, MART)
    ticks.tick()
    assert red(instance, settings, MART) == []
    assert sorted(ticks.listed[1:]) == ["bronze/events", "bronze/products", "bronze/users"]


def test_a_tick_lists_no_source_where_all_that_is_red_is_held_or_was_never_loaded(
    settings: Settings, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [replace(did(EVENTS, 2, day), state="held") for day in (1, 2)]
    loaded = [did(EVENTS, 1, day, touched=[day]) for day in (1, 2)]
    write(settings, *loaded, *held)
    ticks = Ticks(settings, instance, monkeypatch)
    interrupt(instance, settings, EVENTS)

    ticks.tick()

    assert (red(instance, settings, EVENTS), ticks.listed) == (DAYS, [])


def test_what_a_tick_has_no_time_for_or_cannot_inspect_is_left_to_the_next_one(
    settings: Settings, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(red_days, "DAYS_PER_TICK", 3)
    load_all(settings, *range(1, 6))
    ticks = Ticks(settings, instance, monkeypatch)
    interrupt(instance, settings, SALES)
    landing, gone = Path(settings.landing), Path(f"{settings.landing}.gone")

    landing.rename(gone)
    ticks.tick()
    assert red(instance, settings, SALES) == DAYS
    gone.rename(landing)
    ticks.tick()
    assert red(instance, settings, SALES) == DAYS[3:]
    ticks.tick()

    assert red(instance, settings, SALES) == []
    assert ticks.listed == [EVENTS.name] * 3
    ticks.tick()
    assert ticks.listed == [EVENTS.name] * 3


def interrupted_tables() -> dg.JobDefinition:
    """A job that is interrupted by a Ctrl-C in the first of its tables."""
    settings = Settings.from_environment()

    def made(name: str, *deps: dg.AssetsDefinition) -> dg.AssetsDefinition:
        @dg.asset(
            key=name.split("/"),
            deps=deps,
            partitions_def=daily(settings),
            backfill_policy=dg.BackfillPolicy.single_run(),
        )
        def load() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)

        return load

    assets = [users := made("bronze/users"), made("bronze/events", users)]
    defs = dg.Definitions(
        [*assets, made("silver/sales", *assets)],
        jobs=[dg.define_asset_job("everything")],
        executor=executor_for(settings),
        loggers={"console": console},
    )
    return defs.resolve_job_def("everything")


def test_a_command_that_is_interrupted_leaves_no_day_red_that_was_loaded_before(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    settings = settings.replace(dagster_home=tmp_path / "home")
    load_all(settings, 1, 2, 3)
    for day in (2, 3, 4):
        landed = Path(settings.landing, "users", str(jan(day)), "new.jsonl")
        landed.parent.mkdir(parents=True)
        landed.write_text("{}\n")
    lines: list[str] = []

    with pytest.raises(KeyboardInterrupt):
        run_what_is_due(
            interrupted_tables,
            settings,
            ["bronze/users", "bronze/events", "silver/sales"],
            None,
            lambda: NOW,
            lambda _: None,
            lines.append,
        )

    assert lines[-2:] == [
        f"{table} 2017-01-02...2017-01-03: up to date and shown as failed: reported as loaded"
        for table in ("bronze/events", "silver/sales")
    ]
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as instance:
        left = [red(instance, settings, table) for table in (EVENTS, SALES)]
    assert left == [[jan(4)], [jan(4)]]  # never loaded
