"""Steps in threads: which run at once, what a failure stops, and what an interruption leaves."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from incremental_assets.orchestration.threads import threads, was_interrupted

SECONDS = 20


class Meeting:
    """Where steps say that they are there, and wait for others."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.most = 0
        self.order: list[str] = []
        self.release = threading.Event()

    def came(self, name: str) -> None:
        with self.lock:
            self.order.append(name)
            self.running += 1
            self.most = max(self.most, self.running)

    def left(self) -> None:
        with self.lock:
            self.running -= 1


meeting = Meeting()


@pytest.fixture(autouse=True)
def a_new_meeting() -> Iterator[None]:
    global meeting  # noqa: PLW0603 - the steps of a reconstructed job find it by its name
    meeting = Meeting()
    yield
    meeting.release.set()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def _waits_for_another(name: str) -> dg.OpDefinition:
    """A step that ends only once two steps ran at the same time."""

    @dg.op(name=name)
    def op() -> int:
        meeting.came(name)
        if meeting.most > 1:
            meeting.release.set()
        assert meeting.release.wait(SECONDS), "no other step ran meanwhile"
        meeting.left()
        return 1

    return op


def _notes(name: str) -> dg.OpDefinition:
    @dg.op(name=name, ins={"before": dg.In(dg.Nothing)})
    def op() -> None:
        meeting.came(name)
        time.sleep(0.1)  # long enough to meet whoever is let in meanwhile
        meeting.left()

    return op


def two_that_meet() -> dg.JobDefinition:
    @dg.job(executor_def=threads)
    def job() -> None:
        _notes("after")(before=[_waits_for_another("one")(), _waits_for_another("other")()])

    return job


def one_that_fails() -> dg.JobDefinition:
    @dg.op
    def fails() -> None:
        raise dg.Failure("as it should")

    @dg.job(executor_def=threads)
    def job() -> None:
        _notes("below")(before=fails())
        _notes("beside")()

    return job


def four_alone() -> dg.JobDefinition:
    @dg.job(executor_def=threads)
    def job() -> None:
        for name in ("a", "b", "c", "d"):
            _notes(name)()

    return job


def one_that_never_ends() -> dg.JobDefinition:
    @dg.op
    def hangs() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        meeting.release.wait(SECONDS)

    @dg.job(executor_def=threads)
    def job() -> None:
        _notes("never")(before=hangs())

    return job


@dg.resource
def stops_the_run() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def one_that_is_stopped_before_its_steps() -> dg.JobDefinition:
    @dg.op(required_resource_keys={"stop"})
    def never() -> None:
        meeting.came("never")

    @dg.job(executor_def=threads, resource_defs={"stop": stops_the_run})
    def job() -> None:
        never()

    return job


def one_that_asks_again() -> dg.JobDefinition:
    @dg.op
    def asks(context: dg.OpExecutionContext) -> None:
        meeting.came(f"try {context.retry_number}")
        meeting.left()
        if not context.retry_number:
            raise dg.RetryRequested(max_retries=1)

    @dg.job(executor_def=threads)
    def job() -> None:
        asks()

    return job


def _at_once(number: int) -> dict[str, object]:
    return {"execution": {"config": {"max_concurrent": number}}}


def test_steps_that_do_not_depend_on_each_other_run_at_once(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(
        dg.reconstructable(two_that_meet), instance=instance, run_config=_at_once(2)
    )

    assert result.success
    assert sorted(meeting.order[:2]) == ["one", "other"]
    assert meeting.order[2:] == ["after"]


def test_never_more_run_at_once_than_the_run_may(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(
        dg.reconstructable(four_alone), instance=instance, run_config=_at_once(1)
    )

    assert result.success
    assert meeting.most == 1
    assert meeting.order == ["a", "b", "c", "d"]


def test_without_a_number_the_settings_say_how_many(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INCREMENTAL_ASSETS_THREADS", "2")

    result = dg.execute_job(dg.reconstructable(two_that_meet), instance=instance)

    assert result.success
    assert meeting.most == 2


def test_a_failure_stops_what_depends_on_it_and_nothing_else(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(dg.reconstructable(one_that_fails), instance=instance)

    assert not result.success
    assert meeting.order == ["beside"]
    failed = result.get_step_failure_events()
    assert [event.step_key for event in failed] == ["fails"]
    assert not was_interrupted(result)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.FAILURE


def test_what_a_step_raises_is_raised_where_the_caller_wants_it(
    instance: dg.DagsterInstance,
) -> None:
    with pytest.raises(dg.Failure, match="as it should"):
        dg.execute_job(dg.reconstructable(one_that_fails), instance=instance, raise_on_error=True)


def test_an_interruption_ends_the_run_though_a_step_hangs(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(dg.reconstructable(one_that_never_ends), instance=instance)

    assert was_interrupted(result)
    assert not meeting.order
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.is_finished


def test_an_interruption_before_any_step_is_one_as_well(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(
        dg.reconstructable(one_that_is_stopped_before_its_steps), instance=instance
    )

    assert was_interrupted(result)
    assert not meeting.order


def test_a_step_that_asks_for_it_is_tried_again(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(dg.reconstructable(one_that_asks_again), instance=instance)

    assert result.success
    assert meeting.order == ["try 0", "try 1"]


def test_fewer_than_one_at_once_is_refused_in_words(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(
        dg.reconstructable(four_alone), instance=instance, run_config=_at_once(-1)
    )

    assert not result.success
    assert not meeting.order
    said = [str(entry.dagster_event) for entry in instance.all_logs(result.run_id)]
    assert any("max_concurrent is -1; expected a whole number" in event for event in said)


def test_every_step_is_told_from_its_start_to_its_end(instance: dg.DagsterInstance) -> None:
    result = dg.execute_job(
        dg.reconstructable(two_that_meet), instance=instance, run_config=_at_once(2)
    )

    kept = [entry.dagster_event for entry in instance.all_logs(result.run_id)]
    for step in ("one", "other", "after"):
        told = [e.event_type for e in kept if e is not None and e.step_key == step]
        assert told.index(dg.DagsterEventType.STEP_START) < len(told) - 1
        assert told[-1] is dg.DagsterEventType.STEP_SUCCESS
