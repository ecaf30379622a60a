"""Maintenance from the UI and from the command line: what they show, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from click.testing import CliRunner

from incremental_assets import defs
from incremental_assets.catalog import tables
from incremental_assets.cli import main
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.maintenance import MAINTENANCE
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.resources import LakehouseResource
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.plan.ledgers import SALES, did, jan

OLD = datetime.now(UTC) - timedelta(days=9)


@pytest.fixture
def lake(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A day of sales that was replaced nine days ago."""
    entry = did(SALES, 1, 5, touched=[5])
    Ledger(ledger_path(settings.lake)).transact_on(SALES.name, lambda _: [entry])
    for amount in range(2):
        day = pl.DataFrame({"_batch": [amount], "dt": [jan(5)]})
        path = f"{settings.lake}/silver/sales"
        day.write_delta(path, mode="overwrite", delta_write_options={"partition_by": ["dt"]})
    for file in Path(path).rglob("*"):
        os.utime(file, (OLD.timestamp(),) * 2)
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    return settings


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def launch(instance: dg.DagsterInstance, config: Mapping[str, Any]) -> dg.ExecuteInProcessResult:
    return MAINTENANCE.definition(ALONE, dg.in_process_executor).execute_in_process(
        instance=instance,
        run_config={"ops": {"maintain_lake": {"config": dict(config)}}},
        resources={
            ALONE.spark: (defs.resources or {})[ALONE.spark],
            ALONE.lakehouse: LakehouseResource(tables(), Settings.from_environment()),
        },
        raise_on_error=False,
    )


def refusal(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    return (failure.description if failure else None) or ""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "incremental_assets", "maintain", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_job_leaves_an_observation_on_each_table(
    lake: Settings, instance: dg.DagsterInstance
) -> None:
    result = launch(instance, {})

    assert result.success
    (seen,) = [e for e in result.all_events if e.event_type_value == "ASSET_OBSERVATION"]
    observation = seen.asset_observation_data.asset_observation
    assert observation.asset_key == dg.AssetKey(["silver", "sales"])
    shown = {name: value.value for name, value in observation.metadata.items()}
    assert (shown["files"], shown["files_removed"], shown["delta_version"]) == (1, 1, 1)
    assert shown["bytes_freed"] > 0


def test_the_job_does_only_what_its_config_says_and_refuses_what_is_not_there(
    lake: Settings, instance: dg.DagsterInstance
) -> None:
    result = launch(instance, {"tables": ["silver/sales"], "steps": ["vacuum"], "dry_run": True})

    assert result.success
    assert len(list(Path(f"{lake.lake}/silver/sales").rglob("*.parquet"))) == 2
    assert "There is no table 'gold/moon'" in refusal(launch(instance, {"tables": ["gold/moon"]}))
    assert "ends before it begins" in refusal(launch(instance, {"days": "2017-01-02...2017-01-01"}))
    assert "no step of maintenance 'tidy'" in refusal(launch(instance, {"steps": ["tidy"]}))


def test_a_table_that_could_not_be_kept_fails_the_run_after_the_others_were_done(
    lake: Settings, instance: dg.DagsterInstance
) -> None:
    log = Path(lake.lake) / "bronze" / "events" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{")

    result = launch(instance, {})

    assert "bronze/events: The table" in refusal(result)
    assert len(list(Path(f"{lake.lake}/silver/sales").rglob("*.parquet"))) == 1


def test_the_schedule_is_there_and_off_until_it_is_switched_on() -> None:
    schedule = defs.resolve_schedule_def("daily_maintenance")

    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
    assert schedule.job_name == "maintenance"
    assert schedule.execution_timezone == "UTC"


def test_the_command_tells_what_would_be_done_and_does_it(lake: Settings) -> None:
    planned = command("silver/sales", "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    (kept,) = json.loads(planned.stdout)
    assert (kept["name"], kept["removed"], kept["files_after"]) == ("silver/sales", 1, 1)

    done = command()

    assert done.returncode == 0, done.stderr
    assert "silver/sales" in done.stdout
    assert "ledger: 1 file, now 1" in done.stdout
    assert len(list(Path(f"{lake.lake}/silver/sales").rglob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        pytest.param(["gold/moon"], {}, "There is no table 'gold/moon'", id="table"),
        pytest.param(
            ["--days", "2017-01-02...2017-01-01"], {}, "ends before it begins", id="reversed"
        ),
        pytest.param([], {"VACUUM_DAYS": "0"}, "days from 1 to 3650", id="retention"),
        pytest.param([], {"LAKE": "/nowhere/lake"}, "There is no lake at /nowhere", id="lake"),
    ],
)
def test_the_command_refuses_in_words_and_with_its_exit_status(
    lake: Settings, arguments: list[str], environment: dict[str, str], message: str
) -> None:
    env = {f"{PREFIX}{name}": value for name, value in environment.items()}

    done = CliRunner().invoke(main, ["maintain", *arguments], env=env)

    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == (1 if "LAKE" in environment else 2)
    assert message in done.stderr
