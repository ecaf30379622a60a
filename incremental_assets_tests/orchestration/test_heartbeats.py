"""A run that the daemon cannot see is dead when its heartbeats end, by the daemon's own clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.launcher.base import WorkerStatus

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.launcher import HEARTBEAT_TIMEOUT, LocalRunLauncher
from incremental_assets.orchestration.process import (
    HEARTBEAT,
    heartbeats,
    record_process,
    recorded_heartbeat,
)
from incremental_assets.settings import Settings

ELSEWHERE = "another machine/pid:[1]/7/1"
LAUNCHER = """
run_launcher:
  module: incremental_assets.orchestration.launcher
  class: LocalRunLauncher
  config:
    heartbeat_timeout_seconds: {seconds}
"""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance whose runs record a heartbeat each second."""
    (tmp_path / "dagster.yaml").write_text(LAUNCHER.format(seconds=5))
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        yield made


class Daemon:
    """Checks a run of another machine, with a clock that the test sets."""

    def __init__(self, instance: dg.DagsterInstance, process: str = ELSEWHERE) -> None:
        self.now = 0.0
        self._instance = instance
        self._launcher = LocalRunLauncher(clock=lambda: self.now)
        run = dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED)
        self.run_id = instance.add_run(run).run_id
        record_process(instance, self.run_id, process)

    def beats(self, number: int) -> None:
        self._instance.add_run_tags(self.run_id, {HEARTBEAT: f"{self.run_id}/{number}"})

    def checks(self, seconds: float = 30) -> WorkerStatus:
        """What it finds after some seconds."""
        self.now += seconds
        run = self._instance.get_run_by_id(self.run_id)
        assert run is not None
        return self._launcher.check_run_worker_health(run).status


@pytest.mark.parametrize("process", [ELSEWHERE, ""], ids=["elsewhere", "without /proc"])
def test_a_run_that_cannot_be_seen_is_dead_when_its_heartbeats_have_ended_for_long(
    instance: dg.DagsterInstance, process: str
) -> None:
    daemon = Daemon(instance, process)

    for number in range(10):
        daemon.beats(number)
        assert daemon.checks() == WorkerStatus.RUNNING
    found = [daemon.checks() for _ in range(HEARTBEAT_TIMEOUT // 30 + 1)]

    assert found == [WorkerStatus.RUNNING] * (len(found) - 1) + [WorkerStatus.NOT_FOUND]


def test_a_run_elsewhere_lives_that_goes_on_after_neither_could_reach_the_storage(
    instance: dg.DagsterInstance,
) -> None:
    daemon = Daemon(instance)
    daemon.beats(7)
    before = [daemon.checks(), daemon.checks()]

    after = [daemon.checks(3600), daemon.checks()]
    daemon.beats(8)

    assert {*before, *after, daemon.checks()} == {WorkerStatus.RUNNING}


def test_a_run_elsewhere_without_heartbeats_is_left_alone(instance: dg.DagsterInstance) -> None:
    daemon = Daemon(instance)  # of an older version, or it has just begun

    assert {daemon.checks(3600) for _ in range(10)} == {WorkerStatus.RUNNING}


def test_the_heartbeats_of_a_run_are_not_those_of_the_run_that_it_retries(
    instance: dg.DagsterInstance,
) -> None:
    first = instance.add_run(dg.DagsterRun("assets"))
    with heartbeats(instance, first.run_id, 60):
        pass
    tags = instance.get_run_by_id(first.run_id).tags

    assert recorded_heartbeat(instance.get_run_by_id(first.run_id)) == "0"
    assert recorded_heartbeat(dg.DagsterRun("assets", tags={**tags})) == ""


def test_no_run_fails_because_the_storage_takes_no_heartbeat(instance: dg.DagsterInstance) -> None:
    with heartbeats(instance, "a run that is not there", 0.01):
        time.sleep(0.05)


def a_job() -> dg.JobDefinition:
    @dg.op
    def step() -> None:
        time.sleep(1.1)

    @dg.job(executor_def=executor_for(Settings.from_environment({})))
    def job() -> None:
        step()

    return job


def test_a_run_records_heartbeats_as_often_as_its_launcher_needs_them(
    instance: dg.DagsterInstance,
) -> None:
    done = dg.execute_job(dg.reconstructable(a_job), instance=instance)

    assert done.success
    assert int(recorded_heartbeat(instance.get_run_by_id(done.run_id))) >= 1


def test_a_run_records_none_where_the_launcher_is_another() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.execute_job(dg.reconstructable(a_job), instance=instance)
        assert recorded_heartbeat(instance.get_run_by_id(done.run_id)) == ""


def test_a_timeout_in_which_no_heartbeat_fits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(LAUNCHER.format(seconds=2))

    with (
        dg.DagsterInstance.from_config(str(tmp_path)) as instance,
        pytest.raises(SettingsError, match="heartbeat_timeout_seconds is 2; expected 5 or more"),
    ):
        assert instance.run_launcher
