"""Running the steps of a run in threads of one process, all of them over one Spark.

Dagster's own executors run steps one after the other, or each in a process of its own, which would
start a Java for each table. Tables that do not depend on each other load at once here: while one
is planned, another one computes. What a step may wait for, skip or claim is Dagster's to say.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import dagster as dg
from dagster import DagsterEvent, DagsterExecutionInterruptedError
from dagster._core.events import EngineEventData, RunFailureReason
from dagster._core.execution.api import ExecuteRunWithPlanIterable
from dagster._core.execution.context.system import (
    PlanExecutionContext,
    PlanOrchestrationContext,
    StepExecutionContext,
)
from dagster._core.execution.context_creation_job import PlanExecutionContextManager
from dagster._core.execution.plan.active import ActiveExecution
from dagster._core.execution.plan.execute_plan import (
    _handle_compute_log_setup_error,
    _trigger_hook,
    dagster_event_sequence_for_step,
)
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
from dagster._core.execution.plan.objects import ErrorSource, step_failure_event_from_exc_info
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.base import Executor

from incremental_assets.orchestration.process import identity, record_process
from incremental_assets.settings import Settings

# How long an interruption may go unnoticed while no step says anything.
_LOOK_SECONDS = 0.2


@dg.executor(
    name="threads",
    config_schema={
        "max_concurrent": dg.Field(
            dg.IntSource,
            default_value=0,
            description="How many tables load at once; 0: as many as the settings say.",
        ),
    },
)
def threads(init_context: dg.InitExecutorContext) -> Executor:
    """Runs steps in threads, so many at once as the run's config or else the settings say."""
    config: Mapping[str, Any] = init_context.executor_config
    at_once: int = config["max_concurrent"] or Settings.from_environment().threads
    if at_once < 1:
        raise dg.DagsterInvariantViolationError(
            f"max_concurrent is {at_once}; expected a whole number, at least 0."
        )
    return ThreadsExecutor(at_once)


class ThreadsExecutor(Executor):
    """Runs at most `at_once` steps of a run at a time, each in a thread."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once

    @property
    def retries(self) -> RetryMode:
        return RetryMode.ENABLED

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[DagsterEvent]:
        steps = execution_plan.step_keys_to_execute
        yield DagsterEvent.engine_event(
            plan_context,
            f"Executing steps in process (pid: {os.getpid()}), up to {self._at_once} at once",
            event_specific_data=EngineEventData.in_process(os.getpid(), steps),
        )
        # The launcher sees by it whether this process is still there.
        record_process(plan_context.instance, plan_context.run_id, identity())
        yield from ExecuteRunWithPlanIterable(
            execution_plan=plan_context.execution_plan,
            iterator=self._events,
            execution_context_manager=PlanExecutionContextManager(
                job=plan_context.job,
                retry_mode=plan_context.retry_mode,
                execution_plan=plan_context.execution_plan,
                run_config=plan_context.run_config,
                dagster_run=plan_context.dagster_run,
                instance=plan_context.instance,
                raise_on_error=plan_context.raise_on_error,
                output_capture=plan_context.output_capture,
            ),
        )
        yield DagsterEvent.engine_event(
            plan_context,
            f"Finished steps in process (pid: {os.getpid()})",
            event_specific_data=EngineEventData.in_process(os.getpid(), steps),
        )

    def _events(
        self, job_context: PlanExecutionContext, execution_plan: ExecutionPlan
    ) -> Iterator[DagsterEvent]:
        """The events of all steps, in the order in which they happen."""
        logs = job_context.instance.compute_log_manager
        log_key = logs.build_log_key_for_run(job_context.run_id, secrets.token_hex(4))
        steps = [step.key for step in execution_plan.get_steps_to_execute_in_topo_order()]
        with ExitStack() as stack:
            claims = stack.enter_context(
                InstanceConcurrencyContext(job_context.instance, job_context.dagster_run)
            )
            active = stack.enter_context(
                execution_plan.start(
                    retry_mode=job_context.retry_mode, instance_concurrency_context=claims
                )
            )
            try:
                with _kept_from_the_keyboard():
                    captured = stack.enter_context(logs.capture_logs(log_key))
                yield DagsterEvent.capture_logs(job_context, steps, log_key, captured)
            except Exception:  # noqa: BLE001 - a run without this log is better than none
                yield from _handle_compute_log_setup_error(job_context, sys.exc_info())
            yield from _Running(job_context, active, self._at_once).events()


@contextmanager
def _kept_from_the_keyboard() -> Iterator[None]:
    """Processes that are started meanwhile never see a Ctrl-C, which is for this one to answer.

    Dagster's own, which copy a run's output to the terminal, would die of it with a traceback,
    and with them what the run still has to say. Dagster ends them when the output is complete.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def was_interrupted(result: dg.JobExecutionResult) -> bool:
    """Whether somebody stopped the run, amid a step or between two."""
    return any(
        event.event_type is dg.DagsterEventType.RUN_CANCELED
        or (
            event.is_run_failure
            and event.job_failure_data.failure_reason is RunFailureReason.UNEXPECTED_TERMINATION
        )
        for event in result.all_events
    )


@dataclass
class _Step:
    """A step that runs, and what it said so far."""

    context: StepExecutionContext
    said: list[DagsterEvent] = field(default_factory=list)


@dataclass
class _Running:
    """The steps that run now; `said` is what their threads hand over.

    A step hands over its events, then None; or what was raised, where Dagster wants it raised.
    """

    job_context: PlanExecutionContext
    active: ActiveExecution
    at_once: int
    steps: dict[str, _Step] = field(default_factory=dict)
    said: SimpleQueue[tuple[str, DagsterEvent | BaseException | None]] = field(
        default_factory=SimpleQueue
    )

    def events(self) -> Iterator[DagsterEvent]:
        while self.steps or not self.active.is_complete:
            if self.active.check_for_interrupts():
                yield from self._interrupted()
            self._start()
            yield from self.active.concurrency_event_iterator(self.job_context)
            yield from self._next()
            yield from self.active.plan_events_iterator(self.job_context)

    def _start(self) -> None:
        for step in self.active.get_steps_to_execute(limit=self.at_once - len(self.steps)):
            context = self.job_context.for_step(step, self.active.get_known_state())
            self.steps[step.key] = _Step(context)
            # A load that hangs must not keep an interrupted process from ending.
            Thread(target=self._run, args=(context,), name=step.key, daemon=True).start()

    def _run(self, context: StepExecutionContext) -> None:
        key = context.step.key
        try:
            for event in dagster_event_sequence_for_step(context):
                self.said.put((key, event))
            self.said.put((key, None))
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise it to
            self.said.put((key, error))

    def _next(self) -> Iterator[DagsterEvent]:
        """What a step says next, if it says something soon."""
        try:
            key, said = self.said.get(timeout=_LOOK_SECONDS)
        except Empty:
            return
        if isinstance(said, BaseException):
            raise said
        if said is not None:
            self.steps[key].said.append(said)
            yield said
            return
        step = self.steps.pop(key)
        for event in step.said:  # not sooner: one that is to be tried again would be started beside
            self.active.handle_event(event)
        self.active.verify_complete(self.job_context, key)
        yield from _trigger_hook(step.context, step.said)

    def _interrupted(self) -> Iterator[DagsterEvent]:
        """Say of each running step that it was interrupted, and leave; its thread ends with us.

        What it was about is a batch that is claimed and not published: the next load settles it.
        """
        self.active.mark_interrupted()
        try:
            raise DagsterExecutionInterruptedError
        except DagsterExecutionInterruptedError:
            for step in self.steps.values():
                yield step_failure_event_from_exc_info(
                    step.context, sys.exc_info(), error_source=ErrorSource.INTERRUPT
                )
            raise
