"""Sensors that post alerts to a webhook: failed runs, and the state of the data.

Both are ordinary sensors. Dagster's `run_failure_sensor` moves on when its function fails, so a
message would be lost with a webhook that is down, and of runs from the command line it sees none,
or with `monitor_all_code_locations` those of every project.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from incremental_assets.alerts.conditions import AlertThresholds, Condition, conditions, due
from incremental_assets.alerts.notification_state import NotificationState, notification
from incremental_assets.alerts.webhook import post
from incremental_assets.days import utc_today
from incremental_assets.errors import IncrementalAssetsError, WebhookError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.orchestration.failed_runs import failures
from incremental_assets.orchestration.failures import brief_of
from incremental_assets.orchestration.naming import ALONE, Naming, is_asset_job
from incremental_assets.orchestration.partitions import PARTITION, RANGE_END, RANGE_START
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_SECONDS = 60
NO_WEBHOOK = "No webhook: set INCREMENTAL_ASSETS_WEBHOOK and restart Dagster to get alerts."
MOST_RUNS = 8  # a tick: a webhook that is slow to answer each must not use up the tick's time
_LONGEST = 1000  # characters of a failure's message


def alert_sensors(
    tables: Sequence[Table],
    settings: Settings,
    jobs: Collection[str],
    naming: Naming = ALONE,
) -> list[dg.SensorDefinition]:
    """The two sensors; `jobs` are the names of the jobs whose failed runs are posted as well.

    With a webhook they are on from the start; without one they do nothing.
    """
    status = dg.DefaultSensorStatus.RUNNING if settings.webhook else dg.DefaultSensorStatus.STOPPED
    ours = _Ours(frozenset(naming.key(table) for table in tables), frozenset(jobs))
    return [
        _failed_runs(ours, settings, status, naming),
        _data_alerts(tables, settings, status, naming),
    ]


def _failed_runs(
    ours: _Ours, settings: Settings, status: dg.DefaultSensorStatus, naming: Naming
) -> dg.SensorDefinition:
    @dg.sensor(
        name=naming.own("failed_run_alerts"),
        minimum_interval_seconds=_SECONDS,
        default_status=status,
        description="Posts each run that failed to the webhook of INCREMENTAL_ASSETS_WEBHOOK: its "
        "tables and days, and why in brief. A post that fails is tried again at the next "
        "tick. Without a webhook it does nothing.",
    )
    def failed_run_alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if not settings.webhook:
            return dg.SkipReason(NO_WEBHOOK)
        if context.cursor is None or not context.cursor.isdigit():
            newest = failures(context.instance)
            context.update_cursor(str(newest[0].storage_id if newest else 0))
            return dg.SkipReason("Runs that fail from now on are posted.")
        posted = 0
        for event in failures(context.instance, int(context.cursor)):
            run = context.instance.get_run_by_id(event.run_id)
            if run is not None and ours.include(run, context):
                if posted == MOST_RUNS:
                    break
                try:
                    post(settings.webhook, failed_run_message(context.instance, run))
                except WebhookError as error:
                    return _later(error)
                posted += 1
            context.update_cursor(str(event.storage_id))
        return dg.SkipReason(
            f"Posted {counted(posted, 'failed run')}." if posted else "No run has failed."
        )

    return failed_run_alerts


def _data_alerts(
    tables: Sequence[Table],
    settings: Settings,
    status: dg.DefaultSensorStatus,
    naming: Naming,
) -> dg.SensorDefinition:
    watch = _Watch(tables, settings, naming)

    @dg.sensor(
        name=naming.own("data_alerts"),
        minimum_interval_seconds=_SECONDS,
        default_status=status,
        description="Posts to the webhook of INCREMENTAL_ASSETS_WEBHOOK which days are held, stale "
        "for too long, or have too many rows in quarantine or late; each once, and once when it is "
        "resolved. Reads the ledger and starts no JVM. Without a webhook it does nothing.",
    )
    def data_alerts(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if not settings.webhook:
            return dg.SkipReason(NO_WEBHOOK)
        try:
            found = watch.due(datetime.now(UTC))
            message = notification(found, NotificationState.from_text(context.cursor))
            if message is not None:
                post(settings.webhook, message)
        except WebhookError as error:
            return _later(error)
        except IncrementalAssetsError as error:
            return dg.SkipReason(str(error))
        context.update_cursor(NotificationState.of(found).text())
        if message is None:
            return dg.SkipReason("Nothing has changed.")
        firing, resolved = len(message["alerts"]), len(message["resolved"])
        return dg.SkipReason(f"Posted: {firing} new or changed, {resolved} resolved.")

    return data_alerts


@dataclass(frozen=True)
class _Ours:
    """Which runs are of these assets and jobs: a code location may have others."""

    assets: frozenset[dg.AssetKey]
    jobs: frozenset[str]

    def include(self, run: dg.DagsterRun, context: dg.SensorEvaluationContext) -> bool:
        """Whether the run is one of them, of this code location or from the command line."""
        if run.asset_selection and self.assets.isdisjoint(run.asset_selection):
            return False
        if not run.asset_selection and run.job_name not in self.jobs and not is_asset_job(run):
            return False
        origin, here = run.remote_job_origin, context.code_location_origin
        if origin is None or here is None:
            return True
        return origin.repository_origin.code_location_origin.location_name == here.location_name


class _Watch:
    """Evaluates the conditions only if the ledger or the date has changed since the last tick."""

    def __init__(self, tables: Sequence[Table], settings: Settings, naming: Naming) -> None:
        self._tables, self._start, self._naming = tables, settings.start_date, naming
        self._ledger = Ledger(ledger_path(settings.lake))
        self._limits = AlertThresholds(
            timedelta(hours=settings.alert_stale_hours),
            settings.alert_quarantine_percent / 100,
            settings.alert_late_percent / 100,
        )
        self._seen: tuple[LedgerView, date] | None = None
        self._found: list[Condition] = []

    def due(self, now: datetime) -> list[Condition]:
        view, today = self._ledger.view(), utc_today(now)
        if self._seen is None or self._seen[0] is not view or self._seen[1] != today:
            found = conditions(self._tables, view, self._limits, self._start, today)
            self._found = [
                replace(each, table=self._naming.key(each.table).to_user_string()) for each in found
            ]
            self._seen = view, today
        return due(self._found, self._limits, now)


def failed_run_message(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dict[str, Any]:
    """The message of a failed run: its tables, its days and each of its failures in brief.

    A failure without a brief appears as the name of its error, whose text may hold data.
    """
    tables = sorted(key.to_user_string() for key in run.asset_selection or ())
    days = _days(run)
    failures = _failures_in_brief(instance, run)
    what = f"{run.job_name} {run.run_id[:8]} failed"
    subject = f"{', '.join(tables)} {days}".strip()
    return {
        "text": "\n".join(
            [f"incremental_assets: {what}: {subject}", *(f"• {failure}" for failure in failures)]
        ),
        "event": "run_failed",
        "job": run.job_name,
        "run_id": run.run_id,
        "tables": tables,
        "days": days,
        "failures": failures,
    }


def _failures_in_brief(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    records = instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE
    ).records
    found = []
    for record in records:
        event = record.event_log_entry.dagster_event
        if event is None:
            continue
        error = event.step_failure_data.error
        cause = (error.cause or error).cls_name if error is not None else None
        failure = event.step_failure_data.user_failure_data
        brief = brief_of(failure.metadata) if failure is not None else ""
        found.append((brief or f"{event.step_key}: {cause}; see the run's log")[:_LONGEST])
    return found or ["The run ended before a step failed; see the run's log"]


def _days(run: dg.DagsterRun) -> str:
    first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
    if first and last:
        return first if first == last else f"{first}...{last}"
    return run.tags.get(PARTITION, "")


def _later(error: WebhookError) -> dg.SkipReason:
    return dg.SkipReason(f"{error} The next tick posts it again.")
