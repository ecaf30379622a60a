"""A run that ends before its steps, or by an unforeseen error: the command says so, and why."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError, SparkUnavailableError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.operations.load_due import run_in_this_process
from incremental_assets.operations.run_report import FAILED
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.due import LOAD_DUE, DueConfig
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.incidents import run_restate
from incremental_assets.orchestration.manual_jobs import JobStep
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import daily
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.orchestration.runs import run_what_is_due
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did

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
    (Path(lake.landing) / "events" / "2017-01-06").mkdir()
    (Path(lake.landing) / "events" / "2017-01-06" / "a.jsonl").write_text("{}\n")

    report = run_what_is_due(
        broken_assets, lake, ["bronze/events"], None, lambda: NOW, lambda _: None
    )

    days = ["2017-01-05...2017-01-06", "2017-01-05", "2017-01-06"]  # then each half by itself
    assert [(ran.success, str(ran.due.days)) for ran in report.runs] == [(False, d) for d in days]
    for message in report.failed:
        assert "ended before any of its steps failed; see its log" in message
    assert report.left == []


def test_a_restatement_that_ends_before_its_steps_has_failed(lake: Settings) -> None:
    Ledger(ledger_path(lake.lake)).transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])

    failed = run_restate(broken_restate, lake, ["silver/sales"], "", "a repair")

    assert "ended before any of its steps failed; see its log" in failed


def test_what_failed_is_reported_a_source_and_an_unforeseen_error_with_its_line_and_run(
    lake: Settings,
) -> None:
    Ledger(ledger_path(lake.lake)).transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])

    broken = Path(lake.landing) / "orders" / "_delta_log" / f"{0:020}.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("no commit")

    report = run_what_is_due(
        raising_assets, lake, ["bronze/events", "bronze/orders"], None, lambda: NOW, lambda _: None
    )
    restated = run_restate(raising_restate, lake, ["silver/sales"], "", "a repair")

    (ran,), (message, unreadable) = report.runs, report.failed
    error = rf"KeyError: 'colour' \({re.escape(__file__)}, line \d+\)\. The log of run"
    assert re.match(f"bronze/events: {error} {ran.run_id} has", message)
    assert re.match(f"restate_days: {error}", restated)
    assert unreadable.startswith("bronze/orders: ")
    assert report.status == FAILED


def test_a_table_that_cannot_be_loaded_does_not_keep_the_others_of_the_job_back(
    settings: Settings, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise SourceError("stock cannot be listed")

    monkeypatch.setattr(RedDays, "clear", unreadable)  # of days that are red without cause
    users = replace(EVENTS, name="bronze/users", reads=(LandedFiles("users"),))
    for feed in ("events", "users"):
        for day in ("2017-01-05", "2017-01-06"):
            folder = Path(settings.landing) / feed / day
            folder.mkdir(parents=True)
            (folder / "a.jsonl").write_text("{}\n")
    starts = []

    def no_spark() -> SparkSession:
        starts.append("Java")
        raise KeyError("colour") if len(starts) % 2 else SourceError("no file")

    log: list[str] = []
    lakehouse = Lakehouse(settings, [EVENTS, users, SALES], no_spark, lambda: NOW, log.append)
    context = SimpleNamespace(instance=instance, run_id="a run")
    step = JobStep(context, DueConfig(), lakehouse, ALONE)  # type: ignore[arg-type]

    with pytest.raises(dg.Failure) as failed:
        list(LOAD_DUE.run(step))

    assert failed.value.description == (
        "bronze/events: KeyError: 'colour'. The log has the traceback. bronze/users: no file"
    )
    assert len(starts) == 2 * 3  # both days, then each by itself
    assert any("Traceback" in line and "KeyError: 'colour'" in line for line in log)
    assert any(line.startswith("stock cannot be listed") for line in log)


def test_without_spark_nothing_is_tried_twice(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    for day in ("2017-01-05", "2017-01-06"):
        folder = Path(settings.landing) / "events" / day
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_text("{}\n")
    starts = []

    def no_spark() -> SparkSession:
        starts.append("Java")
        raise SparkUnavailableError("no Java")

    lakehouse = Lakehouse(settings, [EVENTS, SALES], no_spark, lambda: NOW)
    report = run_in_this_process(lakehouse, [EVENTS, SALES], None, lambda _: None)

    assert (report.failed, report.status) == (["bronze/events: no Java"], FAILED)
    assert len(starts) == 1
