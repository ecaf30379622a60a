"""A run whose process is gone is seen to be dead; one that lives, or that cannot be seen, is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus

from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.instance import CONFIG
from incremental_assets.orchestration.launcher import LocalRunLauncher
from incremental_assets.orchestration.process import (
    PROCESS,
    identity,
    is_alive,
    record_process,
    recorded_process,
)
from incremental_assets.settings import Settings
from incremental_assets_tests.end_to_end.dagster_dev import until


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    home = tmp_path_factory.mktemp("home")
    (home / "dagster.yaml").write_text(CONFIG.read_text())
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def judged(instance: dg.DagsterInstance, run: dg.DagsterRun) -> CheckRunHealthResult:
    launcher = instance.run_launcher
    assert isinstance(launcher, LocalRunLauncher)
    assert launcher.supports_check_run_worker_health
    return launcher.check_run_worker_health(run)


def health(instance: dg.DagsterInstance, *processes: str) -> CheckRunHealthResult:
    """What is found of a run that recorded these processes, one after the other."""
    run = instance.add_run(dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED))
    for process in processes:
        record_process(instance, run.run_id, process)
    return judged(instance, instance.get_run_by_id(run.run_id))


@contextmanager
def a_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends as soon as its input does, and is reaped on leaving."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child


def a_dead_process() -> str:
    with a_process() as child:
        return identity(child.pid)


def test_a_run_counts_as_dead_when_the_process_that_it_was_last_in_is_gone(
    instance: dg.DagsterInstance,
) -> None:
    dead, own = a_dead_process(), identity()

    assert health(instance, dead).status == WorkerStatus.NOT_FOUND
    assert health(instance, own).status == WorkerStatus.RUNNING
    assert health(instance, dead, own).status == WorkerStatus.RUNNING
    assert health(instance).status == WorkerStatus.RUNNING


@pytest.mark.parametrize("part", [0, 1], ids=["machine", "container"])
def test_a_run_on_another_machine_or_in_another_container_is_left_alone(
    instance: dg.DagsterInstance, part: int
) -> None:
    parts = a_dead_process().split("/")
    parts[part] = "another"

    found = health(instance, "/".join(parts))

    assert found.status == WorkerStatus.RUNNING
    assert "cannot be seen from here" in str(found.msg)


def test_a_run_that_was_asked_for_again_is_not_in_the_process_of_the_first(
    instance: dg.DagsterInstance,
) -> None:
    first = instance.add_run(dg.DagsterRun("assets", status=dg.DagsterRunStatus.FAILURE))
    record_process(instance, first.run_id, a_dead_process())
    tags = instance.get_run_by_id(first.run_id).tags
    again = dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED, tags={**tags})

    assert PROCESS in tags
    assert judged(instance, instance.add_run(again)).status == WorkerStatus.RUNNING


def test_a_later_process_with_the_same_number_is_not_taken_for_it() -> None:
    *same, started = identity().split("/")

    assert is_alive(identity())
    assert is_alive("/".join([*same, str(int(started) - 1)])) is False


def test_a_zombie_is_dead() -> None:
    with a_process() as child:
        known = identity(child.pid)
        assert is_alive(known)
        assert child.stdin is not None
        child.stdin.close()
        until(lambda: is_alive(known) is False, 20)
        assert Path(f"/proc/{child.pid}").exists()


def test_a_process_of_somebody_else_is_there() -> None:
    assert is_alive(identity(1))


@pytest.mark.parametrize("text", ["", "7", "a/b/c/d/e", "///"])
def test_of_what_names_no_process_nothing_is_known(text: str) -> None:
    assert is_alive(text) is None


def a_job(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def step() -> int:
        return os.getpid()

    @dg.job(executor_def=executor_for(settings))
    def job() -> None:
        step()

    return job


def in_its_process() -> dg.JobDefinition:
    return a_job(Settings.from_environment({}))


def in_processes_of_its_steps() -> dg.JobDefinition:
    return a_job(Settings.from_environment({"SPARK_REMOTE": "sc://nowhere"}))


@pytest.mark.parametrize(
    ("job", "is_apart"), [(in_its_process, False), (in_processes_of_its_steps, True)]
)
def test_a_run_tells_which_process_it_is_in_wherever_its_steps_are(
    instance: dg.DagsterInstance, job: Callable[[], dg.JobDefinition], is_apart: bool
) -> None:
    with dg.execute_job(dg.reconstructable(job), instance=instance) as done:
        assert done.success
        assert (done.output_for_node("step") != os.getpid()) is is_apart

    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    assert recorded_process(run) == identity()
    found = judged(instance, run)
    assert (found.status, found.msg) == (WorkerStatus.RUNNING, None)
