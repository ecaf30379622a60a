"""Loading what is due: Dagster runs over the days that are new or stale, until none is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import dagster as dg

from incremental_assets.catalog import tables_named
from incremental_assets.days import DayRange
from incremental_assets.errors import IncrementalAssetsError, SparkUnavailableError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.operations.failure_texts import error_of
from incremental_assets.operations.run_report import Ran, RunReport, reported
from incremental_assets.orchestration.failures import (
    brief_of,
    says_only_what_is_held,
    why_step_failed,
)
from incremental_assets.orchestration.instance import open_instance
from incremental_assets.orchestration.naming import Naming
from incremental_assets.orchestration.partitions import tags_of
from incremental_assets.orchestration.recording import recording_progress
from incremental_assets.orchestration.red_days import RedDays
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.plan.due import Due
from incremental_assets.plan.rounds import Left, Unreadable, due_runs
from incremental_assets.settings import Settings

# A function of a module that gives a job: its steps may run in other processes, which call it too.
RunnableJob = Callable[[], dg.JobDefinition]
_INTERRUPTED = (dg.DagsterExecutionInterruptedError.__name__, KeyboardInterrupt.__name__)
_CONSOLE = {"loggers": {"console": {"config": {"log_level": "INFO", "brief": True}}}}


def run_what_is_due(
    job: RunnableJob,
    settings: Settings,
    names: Sequence[str],
    days: DayRange | None,
    clock: Callable[[], datetime],
    announce: Callable[[Due], None],
    tell: Callable[[str], None] = lambda _: None,
) -> RunReport:
    """Run what is new, then what that made stale, until nothing is due: what `forecast` plans.

    `job` holds every asset. Each run takes a contiguous range of days. A range that failed is tried
    again in halves, and these in halves; a day that failed is not tried again within this call. A
    table whose source cannot be inspected has failed; the others are loaded. `announce` is called
    with each run before it starts, and `tell` with lines of progress while Dagster records days.
    Raises an IncrementalAssetsError if no source can be inspected, the ledger cannot be read, the
    ledger and any of the tables are not of the same time, or a table or day is not there;
    KeyboardInterrupt if a run was interrupted, with its days that are up to date reported as such.
    """
    now, chosen = clock(), tables_named(names)
    ledger = Ledger(ledger_path(settings.lake))
    require_all_consistent(ledger, settings, chosen)
    instance = open_instance(settings)
    naming = Naming.of(settings)
    report, before = RunReport(), ledger.view_if_any()
    left: list[Left] = []

    def unreadable(each: Unreadable) -> None:
        report.failed.append(error_of(each.table, each.error))

    for due in due_runs(
        chosen,
        settings,
        days,
        clock,
        ledger.view_if_any,
        left=left.append,
        unreadable=unreadable,
        note=tell,
        in_halves=True,
    ):
        announce(due)
        keys = [naming.key(table) for table in due.tables]
        try:
            with recording_progress(instance, keys, due.days, tell):
                result = run_here(
                    job,
                    instance,
                    asset_selection=keys,
                    tags=tags_of(due.days),
                )
        except KeyboardInterrupt:
            with suppress(IncrementalAssetsError):
                red = RedDays(instance, ledger.view_if_any(), settings, now, naming)
                red.clear_if_possible(due.tables, tell)
            raise
        failures = list(_failures(result))
        said = tuple(message for message, _ in failures)
        report.runs.append(Ran(result.run_id, due, result.success, said))
        for message, of_held in failures:
            report.failed += [] if message in report.failed else [message]
            report.by_gates |= {message} if of_held else set()
        if _lacked_spark(result):  # nor is it there for other days
            break
    view = reported(report, chosen, left, before, ledger, days)
    RedDays(instance, view, settings, now, naming).clear_if_possible(chosen, tell)
    return report


def run_here(
    job: RunnableJob,
    instance: dg.DagsterInstance,
    config: Mapping[str, Any] | None = None,
    **which: Any,
) -> dg.JobExecutionResult:
    """Run a job from this process; the caller prints why it failed.

    Raises KeyboardInterrupt if it was interrupted.
    """
    result = dg.execute_job(
        dg.reconstructable(job), instance, {**_CONSOLE, **(config or {})}, **which
    )
    for event in result.all_events:
        error = event.job_failure_data.error if event.is_run_failure else None
        stopped = error is not None and error.cls_name in _INTERRUPTED
        if stopped or event.event_type is dg.DagsterEventType.RUN_CANCELED:
            raise KeyboardInterrupt
    return result


def _lacked_spark(result: dg.JobExecutionResult) -> bool:
    """Whether a step failed because Spark cannot be started or reached."""
    found = (
        event.step_failure_data.user_failure_data for event in result.get_step_failure_events()
    )
    briefs = (brief_of(failure.metadata) for failure in found if failure)
    return any(brief.startswith(f"{SparkUnavailableError.__name__}:") for brief in briefs)


def _failures(result: dg.JobExecutionResult) -> Iterator[tuple[str, bool]]:
    """The message of each failed step, and whether it is only that its gate holds days."""
    some = False
    for event in result.get_step_failure_events():
        some, failure = True, event.step_failure_data.user_failure_data
        message = why_step_failed(event, result.run_id)
        yield message, bool(failure and says_only_what_is_held(failure.metadata))
    if not result.success and not some:
        yield f"run {result.run_id} ended before any of its steps failed; see its log", False
