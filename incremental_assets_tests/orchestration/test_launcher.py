"""A run whose process is gone is seen to be dead, one that lives is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.launcher.base import WorkerStatus

from incremental_assets.orchestration.launcher import LocalRunLauncher, is_alive
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.dagster_dev import until


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "dagster.yaml").write_text((PROJECT_ROOT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        yield made


def health(instance: dg.DagsterInstance, *pids: int) -> WorkerStatus:
    run = instance.add_run(dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED))
    for pid in pids:
        instance.report_engine_event("Started.", run, EngineEventData.in_process(pid))
    instance.report_engine_event("A word about something else.", run)
    launcher = instance.run_launcher
    assert isinstance(launcher, LocalRunLauncher)
    assert launcher.supports_check_run_worker_health
    return launcher.check_run_worker_health(run).status


def a_dead_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_a_run_counts_as_dead_when_the_process_that_it_was_last_in_is_gone(
    instance: dg.DagsterInstance,
) -> None:
    dead = a_dead_process()

    assert health(instance, dead) == WorkerStatus.NOT_FOUND
    assert health(instance, os.getpid()) == WorkerStatus.RUNNING
    assert health(instance, dead, os.getpid()) == WorkerStatus.RUNNING
    assert health(instance) == WorkerStatus.RUNNING


def test_a_later_process_with_the_same_number_is_not_taken_for_it() -> None:
    now = datetime.now(UTC)

    assert is_alive(os.getpid(), now)
    assert not is_alive(os.getpid(), now - timedelta(days=1))


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read()
        until(lambda: not is_alive(child.pid, datetime.now(UTC)), 20)
        assert Path(f"/proc/{child.pid}").exists()


def test_a_process_of_somebody_else_is_there() -> None:
    assert is_alive(1, datetime.now(UTC))
