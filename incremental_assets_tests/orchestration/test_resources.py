"""The Spark of a run: what a Connect server is left with, and who answers a Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import dagster as dg
import pytest

from incremental_assets.orchestration import resources
from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.settings import Settings


class Session:
    """A session that PySpark would have started: it takes over the answer to a Ctrl-C."""

    def __init__(self) -> None:
        self.stopped = 0
        signal.signal(signal.SIGINT, lambda *_: None)

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Session]]:
    made: list[Session] = []

    def start(*_: object) -> Session:
        made.append(Session())
        return made[-1]

    monkeypatch.setattr(resources, "start_session", start)
    resources._session.cache_clear()
    yield made
    resources._session.cache_clear()


def run(settings: Settings) -> None:
    """A run of two steps that both use Spark."""

    @dg.op
    def one(spark: SparkResource) -> None:
        spark.session(settings)

    @dg.op
    def other(spark: SparkResource) -> None:
        spark.session(settings)

    @dg.job(resource_defs={"spark": SparkResource()})
    def job() -> None:
        one()
        other()

    assert job.execute_in_process().success


def test_a_run_leaves_the_connect_server_when_it_is_over(
    settings: Settings, started: list[Session]
) -> None:
    there = settings.replace(spark_remote="sc://nowhere")
    run(there)
    run(there)

    assert [session.stopped for session in started] == [1, 1]


def test_an_embedded_spark_stays_for_the_next_run_of_the_process(
    settings: Settings, started: list[Session]
) -> None:
    run(settings)
    run(settings)

    assert [session.stopped for session in started] == [0]


def test_a_spark_that_is_started_amid_a_run_leaves_ctrl_c_to_the_run(
    settings: Settings, started: list[Session]
) -> None:
    before = signal.getsignal(signal.SIGINT)

    SparkResource().session(settings)

    assert started
    assert signal.getsignal(signal.SIGINT) is before
