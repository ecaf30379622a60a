"""A run that ends before its steps, or by an unforeseen error: the command says so, and why."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.incidents import run_restate
from incremental_assets.orchestration.partitions import daily
from incremental_assets.orchestration.runs import run_what_is_due
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.plan.ledgers import SALES, did

NOW = datetime(2017, 1, 9, 12, tzinfo=UTC)


@dg.resource
def missing() -> None:
    raise ConnectionError("nobody answers")


def broken_assets() -> dg.JobDefinition:
    """A job of one table whose resource cannot be had."""

    @dg.asset(
        key=["bronze", "events"],
        partitions_def=daily(Settings.from_environment()),
        required_resource_keys={"missing"},
    )
    def events() -> None:
        raise AssertionError("no step is reached")

    made = dg.Definitions(
        [events],
        jobs=[dg.define_asset_job("everything")],
        resources={"missing": missing},
        executor=executor_for(Settings.from_environment()),
        loggers={"console": console},
    )
    return made.resolve_job_def("everything")


def broken_restate() -> dg.JobDefinition:
    @dg.op(required_resource_keys={"missing"}, config_schema=dict)
    def restate_days() -> None:
        raise AssertionError("no step is reached")

    @dg.job(
        resource_defs={"missing": missing},
        logger_defs={"console": console},
        executor_def=executor_for(Settings.from_environment()),
    )
    def restate() -> None:
        restate_days()

    return restate


def raising_assets() -> dg.JobDefinition:
    """A job of one table whose code raises what nobody foresaw."""

    @dg.asset(key=["bronze", "events"], partitions_def=daily(Settings.from_environment()))
    def events() -> None:
        raise KeyError("colour")

    made = dg.Definitions(
        [events],
        jobs=[dg.define_asset_job("everything")],
        executor=executor_for(Settings.from_environment()),
        loggers={"console": console},
    )
    return made.resolve_job_def("everything")


def raising_restate() -> dg.JobDefinition:
    @dg.op(config_schema=dict)
    def restate_days() -> None:
        raise KeyError("colour")

    @dg.job(
        logger_defs={"console": console},
        executor_def=executor_for(Settings.from_environment()),
    )
    def restate() -> None:
        restate_days()

    return restate


@pytest.fixture
def lake(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    folder = Path(settings.landing) / "events" / "2017-01-05"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n")
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    return settings.replace(dagster_home=tmp_path / "home")


def test_a_run_that_ends_before_its_steps_has_failed(lake: Settings) -> None:
    report = run_what_is_due(broken_assets, lake, ["bronze/events"], None, NOW, lambda _: None)

    assert [ran.success for ran in report.runs] == [False]
    (message,) = report.failed
    assert "ended before any of its steps failed; see its log" in message
    assert report.left == []


def test_a_restatement_that_ends_before_its_steps_has_failed(lake: Settings) -> None:
    Ledger(ledger_path(lake.lake)).transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])

    failed = run_restate(broken_restate, lake, ["silver/sales"], "", "a repair")

    assert "ended before any of its steps failed; see its log" in failed


def test_an_unforeseen_error_is_reported_with_its_message_its_line_and_the_run(
    lake: Settings,
) -> None:
    Ledger(ledger_path(lake.lake)).transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])

    report = run_what_is_due(raising_assets, lake, ["bronze/events"], None, NOW, lambda _: None)
    restated = run_restate(raising_restate, lake, ["silver/sales"], "", "a repair")

    (ran,), (message,) = report.runs, report.failed
    told = rf"KeyError: 'colour' \({re.escape(__file__)}, line \d+\)\. The log of run"
    assert re.match(f"bronze/events: {told} {ran.run_id} has", message)
    assert re.match(f"restate_days: {told}", restated)
