"""The steps of a run: in one process or in several, and what an interruption leaves."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.runs import run_here
from incremental_assets.settings import Settings
from incremental_assets_tests.end_to_end.dagster_dev import started_by
from incremental_assets_tests.thorough import thorough

EMBEDDED = Settings.from_environment({})
CONNECT = Settings.from_environment({"SPARK_REMOTE": "sc://nowhere"})
SECONDS = 20
LOGGERS = {"console": console}


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """One for all tests: to make its databases takes longer than most of them."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("instance"))) as made:
        yield made


@dataclass(frozen=True)
class Meeting:
    """A folder where steps of any process write down that they are there."""

    folder: Path

    def came(self, name: str) -> None:
        (self.folder / name).write_text(str(os.getpid()))

    def others(self, name: str) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name != name)


@pytest.fixture(autouse=True)
def meeting(instance: dg.DagsterInstance) -> Meeting:
    made = _meeting(instance)
    shutil.rmtree(made.folder, ignore_errors=True)
    made.folder.mkdir()
    return made


def here(context: dg.OpExecutionContext) -> Meeting:
    """The same in a step, which may be forked from a process that an earlier test has started."""
    return _meeting(context.instance)


def _meeting(instance: dg.DagsterInstance) -> Meeting:
    return Meeting(Path(instance.root_directory) / "meeting")


def _waits_for(name: str, other: str) -> dg.OpDefinition:
    @dg.op(name=name)
    def op(context) -> None:  # Dagster reads no annotation that is text
        here(context).came(name)
        deadline = time.monotonic() + SECONDS
        while other not in here(context).others(name):
            assert time.monotonic() < deadline, f"{other} did not run meanwhile"
            time.sleep(0.05)

    return op


def two_that_meet() -> dg.JobDefinition:
    @dg.job(logger_defs=LOGGERS, executor_def=executor_for(CONNECT))
    def job() -> None:
        _waits_for("one", "other")()
        _waits_for("other", "one")()

    return job


def two_apart() -> dg.JobDefinition:
    return one_after_the_other(EMBEDDED)


def two_apart_over_a_server() -> dg.JobDefinition:
    return one_after_the_other(CONNECT.replace(tables_at_once=1))


def two_apart_in_processes() -> dg.JobDefinition:
    return one_after_the_other(CONNECT)


def one_after_the_other(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def first(context) -> None:
        here(context).came("first")

    @dg.op(ins={"before": dg.In(dg.Nothing)})
    def second(context) -> None:
        here(context).came("second")

    @dg.job(logger_defs=LOGGERS, executor_def=executor_for(settings))
    def job() -> None:
        second(first())

    return job


def interrupted(settings: Settings) -> dg.JobDefinition:
    @dg.op
    def hangs(context) -> None:
        here(context).came("hangs")
        if not settings.spark_remote:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(SECONDS)
        here(context).came("hung to its end")

    @dg.op(ins={"before": dg.In(dg.Nothing)})
    def never(context) -> None:
        here(context).came("never")

    @dg.job(logger_defs=LOGGERS, executor_def=executor_for(settings))
    def job() -> None:
        never(hangs())

    return job


def interrupted_in_its_process() -> dg.JobDefinition:
    return interrupted(EMBEDDED)


def interrupted_in_processes() -> dg.JobDefinition:
    return interrupted(CONNECT)


@dg.resource
def stops_the_run() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupted_before_its_steps() -> dg.JobDefinition:
    @dg.op(required_resource_keys={"stop"})
    def never(context) -> None:
        here(context).came("never")

    @dg.job(
        logger_defs=LOGGERS,
        executor_def=executor_for(EMBEDDED),
        resource_defs={"stop": stops_the_run},
    )
    def job() -> None:
        never()

    return job


def copied_to_the_terminal() -> dg.JobDefinition:
    """Its step writes down the processes that Dagster has started, and whether they see Ctrl-C."""

    @dg.op
    def looks(context) -> None:
        for pid, words in started_by(os.getpid()).items():
            if "tail" not in words and "watch_orphans" not in words:
                continue
            status = Path(f"/proc/{pid}/status").read_text()
            blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
            deaf = int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1
            here(context).came(f"{pid} {'does not see' if deaf else 'sees'} a Ctrl-C")

    @dg.job(logger_defs=LOGGERS, executor_def=executor_for(EMBEDDED))
    def job() -> None:
        looks()

    return job


def execute(job: object, instance: dg.DagsterInstance) -> dg.JobExecutionResult:
    return dg.execute_job(dg.reconstructable(job), instance=instance)


def test_over_an_embedded_spark_all_steps_run_in_the_process_of_the_run(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    assert execute(two_apart, instance).success

    assert {path.read_text() for path in meeting.folder.iterdir()} == {str(os.getpid())}


@pytest.mark.parametrize(
    ("job", "config", "apart"),
    [
        (two_apart_over_a_server, {}, False),
        pytest.param(
            two_apart_over_a_server,
            {"max_concurrent": 2},
            True,
            marks=thorough(
                "orchestration/test_executor.py: by the run's config, and steps that run at once"
            ),
        ),
        (two_apart_in_processes, {"max_concurrent": 1}, False),
    ],
    ids=["by the setting", "a run decides otherwise", "by the run's config"],
)
def test_over_a_server_one_table_at_a_time_loads_in_the_process_of_the_run(
    instance: dg.DagsterInstance, meeting: Meeting, job: Any, config: Any, apart: bool
) -> None:
    done = dg.execute_job(
        dg.reconstructable(job), instance, {"execution": {"config": config}} if config else None
    )

    assert done.success
    pids = {path.read_text() for path in meeting.folder.iterdir()}
    assert (str(os.getpid()) not in pids, len(pids)) == (apart, 2 if apart else 1)


def test_fewer_than_no_tables_at_once_are_refused_and_say_what_is_expected(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    config = {"execution": {"config": {"max_concurrent": -1}}}

    with pytest.raises(SettingsError, match="max_concurrent is -1; expected how many tables"):
        dg.execute_job(dg.reconstructable(two_apart_in_processes), instance, config)


def test_over_a_server_steps_that_do_not_depend_on_each_other_run_at_once(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    assert execute(two_that_meet, instance).success

    pids = {path.read_text() for path in meeting.folder.iterdir()}
    assert len(pids) == 2
    assert str(os.getpid()) not in pids


def test_an_interruption_ends_a_run_amid_a_step(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_here(interrupted_in_its_process, instance)

    assert meeting.others("") == ["hangs"]
    (run,) = instance.get_runs(limit=1)
    assert run.status is dg.DagsterRunStatus.FAILURE


def test_an_interruption_ends_a_run_amid_a_step_of_another_process(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    def interrupt() -> None:
        while not meeting.others(""):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run_here(interrupted_in_processes, instance)

    assert meeting.others("") == ["hangs"]
    (run,) = instance.get_runs(limit=1)
    assert run.status is dg.DagsterRunStatus.FAILURE


def test_an_interruption_before_any_step_is_one_as_well(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_here(interrupted_before_its_steps, instance)

    assert not meeting.others("")


def test_what_copies_the_output_to_the_terminal_outlives_a_ctrl_c(
    instance: dg.DagsterInstance, meeting: Meeting
) -> None:
    of_earlier_runs = set(started_by(os.getpid()))  # an interrupted one may leave some for a while
    assert execute(copied_to_the_terminal, instance).success

    came = [name.partition(" ") for name in meeting.others("")]
    seen = [words for pid, _, words in came if int(pid) not in of_earlier_runs]
    assert seen
    assert set(seen) == {"does not see a Ctrl-C"}
