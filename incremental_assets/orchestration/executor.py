"""Which of Dagster's executors runs the steps of a run, and in which process the run is.

An embedded Spark is one Java, which belongs to the process that started it: the tables of a run
load in that process, one after the other. With a Spark Connect server tables that do not depend on
each other can load at once, each in a process of its own; one at a time, they load in the run's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import dagster as dg

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.partitions import show_days_of
from incremental_assets.orchestration.process import heartbeats, identity, record_process
from incremental_assets.settings import Settings

# What a step of its own process would import first, at a second or more each time.
_PRELOADED = ["incremental_assets.orchestration.build", "pyspark.sql.connect.session"]


def executor_for(settings: Settings) -> dg.ExecutorDefinition:
    """The run's process for all tables, or processes where several load at once over a server."""
    has_server = bool(settings.spark_remote)
    dagsters = _processes(settings.tables_at_once) if has_server else dg.in_process_executor
    schema: Any = dagsters.config_schema  # which Dagster takes, and does not declare

    def create(init_context: dg.InitExecutorContext) -> dg.Executor:
        apart = has_server and _at_once(init_context.executor_config) > 1
        chosen = dagsters if apart else dg.in_process_executor
        assert chosen.executor_creation_fn is not None  # every executor of Dagster's has one
        made = chosen.executor_creation_fn(init_context)
        return _Recorded(made) if apart else _InProcess(made)

    return dg.ExecutorDefinition(
        name=dagsters.name,
        config_schema=schema,
        requirements=dagsters.get_requirements,
        executor_creation_fn=create,
        description=dagsters.description,
    )


def _processes(at_once: int) -> dg.ExecutorDefinition:
    """Dagster's processes, forked from one that has imported what a step needs."""

    @dg.configured(
        dg.multiprocess_executor,
        config_schema={
            "max_concurrent": dg.Field(
                dg.IntSource,
                default_value=at_once,
                description="How many tables load at once; 1: one after the other, in the process "
                "of the run; 0: as many as this machine has cores.",
            )
        },
    )
    def processes(config: Mapping[str, Any]) -> dict[str, Any]:
        return {**config, "start_method": {"forkserver": {"preload_modules": _PRELOADED}}}

    return processes


def _at_once(config: Mapping[str, Any]) -> int:
    """How many tables load at once. Raises SettingsError for fewer than none."""
    most = int(config["max_concurrent"])
    if most < 0:
        raise SettingsError(
            f"max_concurrent is {most}; expected how many tables load at once, or 0 for as many as "
            "this machine has cores."
        )
    return most or os.cpu_count() or 1


class _Recorded(dg.Executor):
    """An executor of Dagster's whose runs record their process for the launcher."""

    def __init__(self, dagsters: dg.Executor) -> None:
        self._dagsters = dagsters

    @property
    def retries(self) -> Any:
        return self._dagsters.retries

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        instance, run_id = plan_context.instance, plan_context.run_id
        every = _seconds_between_heartbeats(instance)
        record_process(instance, run_id, identity(), every)
        show_days_of(instance, run_id)
        with heartbeats(instance, run_id, every) if every else nullcontext():
            yield from self._dagsters.execute(plan_context, execution_plan)


def _seconds_between_heartbeats(instance: dg.DagsterInstance) -> float | None:
    """How often a run records a heartbeat; None where its launcher has no use for them."""
    with suppress(Exception):  # its package may be in the image of the daemon alone
        return getattr(instance.run_launcher, "heartbeat_seconds", None)
    return None


class _InProcess(_Recorded):
    """The same for steps in the run's process, whose helpers do not see a Ctrl-C.

    Dagster starts processes that copy a run's output to the terminal. A Ctrl-C would end
    them with a traceback, and the run's last output would be lost; Dagster ends them at its end.
    """

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        events = super().execute(plan_context, execution_plan)
        copied = False
        while not copied:
            with _interrupts_later():
                event = next(events, None)
            if event is None:
                return
            copied = event.event_type is dg.DagsterEventType.LOGS_CAPTURED
            yield event
        yield from events


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """An interrupt is delayed meanwhile; no process that is started meanwhile gets it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
