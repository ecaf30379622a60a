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
    Heartbeat,
    heartbeats,
    record_process,
    recorded_heartbeat,
)
from incremental_assets.settings import Settings
from incremental_assets_tests.end_to_end.dagster_dev import until

ELSEWHERE = "another machine/pid:[1]/7/1"
LAUNCHER = """
run_launcher:
  module: incremental_assets.orchestration.launcher
  class: LocalRunLauncher
  config:
    heartbeat_timeout_seconds: {seconds}
"""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """An instance whose runs record a heartbeat each second."""
    home = tmp_path_factory.mktemp("home")
    (home / "dagster.yaml").write_text(LAUNCHER.format(seconds=5))
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


class Daemon:
    """Checks a run of another machine, with a clock that the test sets."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        process: str = ELSEWHERE,
        timeout: int = HEARTBEAT_TIMEOUT,
        every: float | None = None,
    ) -> None:
        self.now = 0.0
        self.launcher = LocalRunLauncher(heartbeat_timeout_seconds=timeout, clock=lambda: self.now)
        self._every = self.launcher.heartbeat_seconds if every is None else every
        self._instance = instance
        self.run_id = self.starts(process)

    def starts(self, process: str) -> str:
        """Another run, which has recorded its process and its first heartbeat."""
        run = dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED)
        run_id = self._instance.add_run(run).run_id
        record_process(self._instance, run_id, process, self._every)
        return run_id

    def beats(self, number: int) -> None:
        tag = f"{self.run_id}/{self._every:g}/{number}"
        self._instance.add_run_tags(self.run_id, {HEARTBEAT: tag})

    def checks(self, seconds: float = 30) -> WorkerStatus:
        """What it finds after some seconds."""
        self.now += seconds
        run = self._instance.get_run_by_id(self.run_id)
        assert run is not None
        return self.launcher.check_run_worker_health(run).status

    def finds_it_dead(self, poll: float) -> float:
        """After how many seconds, when it checks every so many."""
        start = self.now
        while self.checks(poll) == WorkerStatus.RUNNING:
            assert self.now < start + 10_000
        return self.now - start


@pytest.mark.parametrize("process", [ELSEWHERE, ""], ids=["elsewhere", "without /proc"])
def test_a_run_that_cannot_be_seen_is_dead_when_its_heartbeats_have_ended_for_long(
    instance: dg.DagsterInstance, process: str
) -> None:
    daemon = Daemon(instance, process)

    for number in range(10):
        daemon.beats(number)
        assert daemon.checks() == WorkerStatus.RUNNING

    assert daemon.finds_it_dead(poll=30) == HEARTBEAT_TIMEOUT


def test_a_run_that_died_before_its_second_heartbeat_is_dead(instance: dg.DagsterInstance) -> None:
    daemon = Daemon(instance)

    assert daemon.finds_it_dead(poll=30) == 30 + HEARTBEAT_TIMEOUT


@pytest.mark.parametrize(("poll", "seconds"), [(5, 150), (30, 150), (70, 210), (120, 360)])
def test_how_often_the_daemon_looks_hardly_delays_what_it_finds(
    instance: dg.DagsterInstance, poll: int, seconds: int
) -> None:
    daemon = Daemon(instance)
    daemon.checks()

    assert daemon.finds_it_dead(poll) == seconds


@pytest.mark.parametrize("outage", [160, 210, 960, 36_000])
@pytest.mark.parametrize("poll", [5, 30, 120, 400])
@pytest.mark.parametrize("timeout", [150, 900])
def test_a_run_elsewhere_lives_that_goes_on_after_neither_could_reach_the_storage(
    instance: dg.DagsterInstance, timeout: int, poll: int, outage: int
) -> None:
    daemon = Daemon(instance, timeout=timeout)
    every = timeout // 5
    found = {daemon.checks()}
    silent = 0
    while silent + poll < every:  # the outage begins just before the next heartbeat
        found.add(daemon.checks(poll))
        silent += poll

    found.add(daemon.checks(outage))
    silent = 0
    while silent + poll < every + 10:  # and ends just after one was tried
        found.add(daemon.checks(poll))
        silent += poll
    daemon.beats(1)

    assert {*found, daemon.checks(poll)} == {WorkerStatus.RUNNING}


def test_the_interval_of_a_run_counts_where_it_is_longer_than_that_of_the_daemon(
    instance: dg.DagsterInstance,
) -> None:
    daemon = Daemon(instance, every=180)
    daemon.checks()

    assert daemon.finds_it_dead(poll=30) == 5 * 180


def test_runs_that_have_ended_are_forgotten(instance: dg.DagsterInstance) -> None:
    daemon = Daemon(instance)
    for _ in range(5):
        daemon.checks()
        daemon.run_id = daemon.starts(ELSEWHERE)
    assert len(daemon.launcher.silence) == 5

    daemon.checks(4000)

    assert len(daemon.launcher.silence) == 1


@pytest.mark.parametrize("tag", [None, "{}/7", "{}/x/7"], ids=["none", "older", "unreadable"])
def test_a_run_elsewhere_without_heartbeats_is_left_alone(
    instance: dg.DagsterInstance, tag: str | None
) -> None:
    daemon = Daemon(instance, every=0)
    if tag is not None:
        instance.add_run_tags(daemon.run_id, {HEARTBEAT: tag.format(daemon.run_id)})

    assert {daemon.checks(3600) for _ in range(10)} == {WorkerStatus.RUNNING}


def recorded(instance: dg.DagsterInstance, run_id: str) -> Heartbeat | None:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return recorded_heartbeat(run)


def test_the_heartbeats_of_a_run_are_not_those_of_the_run_that_it_retries(
    instance: dg.DagsterInstance,
) -> None:
    first = instance.add_run(dg.DagsterRun("assets"))
    record_process(instance, first.run_id, ELSEWHERE, 60)
    tags = instance.get_run_by_id(first.run_id).tags

    assert recorded(instance, first.run_id) == Heartbeat(60, 0)
    assert recorded_heartbeat(dg.DagsterRun("assets", tags={**tags})) is None


def test_heartbeats_that_the_storage_did_not_take_fail_no_run_and_the_next_ones_count(
    instance: dg.DagsterInstance,
) -> None:
    run = dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED)
    with heartbeats(instance, run.run_id, 0.01):
        time.sleep(0.05)  # it is not there: each of these fails
        instance.add_run(run)
        until(lambda: recorded(instance, run.run_id) is not None, 20)


def test_a_run_that_was_marked_as_failed_records_no_more(instance: dg.DagsterInstance) -> None:
    run = instance.add_run(dg.DagsterRun("assets", status=dg.DagsterRunStatus.FAILURE))
    with heartbeats(instance, run.run_id, 0.01):
        time.sleep(0.1)

    assert recorded(instance, run.run_id) is None


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
    heartbeat = recorded(instance, done.run_id)
    assert heartbeat is not None
    assert heartbeat.every == 1
    assert heartbeat.number >= 1


def test_a_run_records_none_where_the_launcher_is_another() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.execute_job(dg.reconstructable(a_job), instance=instance)
        assert recorded(instance, done.run_id) is None


def test_a_run_needs_no_package_of_its_launcher(tmp_path: Path) -> None:
    launcher = "run_launcher: {module: only_in_the_image_of_the_daemon, class: Launcher}\n"
    (tmp_path / "dagster.yaml").write_text(launcher)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        done = dg.execute_job(dg.reconstructable(a_job), instance=instance)
        assert done.success
        assert recorded(instance, done.run_id) is None


def test_a_timeout_in_which_no_heartbeat_fits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(LAUNCHER.format(seconds=2))

    with (
        dg.DagsterInstance.from_config(str(tmp_path)) as instance,
        pytest.raises(SettingsError, match="heartbeat_timeout_seconds is 2; expected 5 or more"),
    ):
        assert instance.run_launcher
