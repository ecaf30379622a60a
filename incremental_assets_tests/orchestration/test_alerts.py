"""The sensors that post to a webhook, ticked over a real instance, a ledger and an HTTP server."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
import pytest

from incremental_assets import build_definitions
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.alerts import MOST_RUNS, NO_WEBHOOK, alert_sensors
from incremental_assets.settings import Settings
from incremental_assets_tests.alerts.receiver import TOKEN, Receiver
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did

BROKEN = "broken"
JOBS = ("job", "ours", *(f"job_{number}" for number in range(MOST_RUNS + 2)))
UNFORESEEN = ValueError("Ada Lovelace, 12 Main Street")


class Daemon:
    """Ticks a sensor as the daemon does: it hands over the cursor that the last tick left."""

    def __init__(self, sensor: dg.SensorDefinition, instance: dg.DagsterInstance) -> None:
        self.sensor, self.instance = sensor, instance
        self.cursor: str | None = None

    def tick(self) -> str:
        context = dg.build_sensor_context(self.instance, self.cursor)
        found = self.sensor.evaluate_tick(context)
        assert not found.run_requests
        self.cursor = found.cursor
        assert TOKEN not in f"{found}"
        return found.skip_message or ""


@pytest.fixture
def alerting(settings: Settings, hook: Receiver) -> Settings:
    return settings.replace(webhook=hook.url)


def sensors(settings: Settings, instance: dg.DagsterInstance) -> tuple[Daemon, Daemon]:
    runs, data = alert_sensors((EVENTS, SALES), settings, JOBS)
    return Daemon(runs, instance), Daemon(data, instance)


def write_down(settings: Settings, *entries: Entry) -> None:
    for entry in entries:
        Ledger(ledger_path(settings.lake)).transact_on(entry.table, lambda _, e=entry: [e])  # type: ignore[misc]


def held(batch: int, day: int) -> Entry:
    return replace(did(SALES, batch, day, state="held"), rows_read=20, rows_quarantined=9)


def failed_run(
    instance: dg.DagsterInstance, name: str = "job", error: Exception = UNFORESEEN
) -> None:
    """A run that really fails, of a job without tables."""

    @dg.op(name=BROKEN)
    def broken() -> None:
        raise error

    @dg.job(name=name)
    def job() -> None:
        broken()

    assert not job.execute_in_process(instance=instance, raise_on_error=False).success


def test_without_a_webhook_both_sensors_are_off_and_do_nothing(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    write_down(settings, held(1, 5))
    failed_run(instance)

    for daemon in sensors(settings, instance):
        assert daemon.sensor.default_status == dg.DefaultSensorStatus.STOPPED
        assert [daemon.tick(), daemon.tick()] == [NO_WEBHOOK, NO_WEBHOOK]


def test_with_a_webhook_both_are_on_from_the_start(
    alerting: Settings, instance: dg.DagsterInstance
) -> None:
    for daemon in sensors(alerting, instance):
        assert daemon.sensor.default_status == dg.DefaultSensorStatus.RUNNING


def test_a_held_day_is_reported_once_and_once_when_it_is_over(
    alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    _, daemon = sensors(alerting, instance)
    assert daemon.tick() == "Nothing has changed."
    write_down(alerting, held(1, 5))

    assert daemon.tick() == "Posted: 1 new or changed, 0 resolved."
    assert daemon.tick() == "Nothing has changed."

    (message,) = hook.taken
    assert message["event"] == "data"
    assert message["alerts"] == [
        {
            "kind": "held",
            "table": "silver/sales",
            "days": ["2017-01-05"],
            "count": 1,
            "found": "held since batch 1 by its gate; 9 of 20 rows are quarantined",
            "value": 0.0,
        }
    ]
    assert message["text"].splitlines()[1].startswith("• silver/sales 2017-01-05: held since")
    write_down(alerting, did(SALES, 2, 5))
    assert daemon.tick() == "Posted: 0 new or changed, 1 resolved."
    assert daemon.tick() == "Nothing has changed."
    assert hook.taken[1]["resolved"] == [
        {"kind": "held", "table": "silver/sales", "days": ["2017-01-05"], "count": 1}
    ]


def test_a_stale_day_is_reported_once_its_time_has_come(
    alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    news = did(EVENTS, 1, 5, touched=[5])
    write_down(alerting, replace(news, recorded_at=datetime.now(UTC)))
    _, daemon = sensors(alerting, instance)
    assert daemon.tick() == "Nothing has changed."

    write_down(alerting, replace(news, batch=2))  # of 2017

    assert daemon.tick() == "Posted: 1 new or changed, 0 resolved."
    assert [a["kind"] for a in hook.taken[0]["alerts"]] == ["stale"]


@pytest.mark.parametrize("status", [500, 302, 0])
def test_what_a_webhook_does_not_take_is_reported_at_a_later_tick(
    alerting: Settings,
    instance: dg.DagsterInstance,
    hook: Receiver,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("incremental_assets.alerts.webhook.post.__defaults__", (0.2,))
    caplog.set_level(logging.DEBUG)
    runs, data = sensors(alerting, instance)
    runs.tick()
    write_down(alerting, held(1, 5))
    failed_run(instance)
    hook.answer = status

    for daemon in (runs, data):
        before = daemon.cursor
        reasons = {daemon.tick(), daemon.tick()}
        assert all("The next tick posts it again" in reason for reason in reasons)
        assert daemon.cursor == before
    hook.answer = 200
    runs.tick()
    data.tick()

    assert [message["event"] for message in hook.taken] == ["run_failed", "data"]
    assert TOKEN not in caplog.text


def test_a_run_that_fails_is_reported_by_the_meaning_of_its_error(
    alerting: Settings,
    instance: dg.DagsterInstance,
    hook: Receiver,
) -> None:
    nowhere = alerting.replace(landing=f"{alerting.landing}/nowhere")
    daemon, _ = sensors(alerting, instance)
    assert daemon.tick() == "Runs that fail from now on are posted."
    result = (
        build_definitions([EVENTS, SALES], nowhere)
        .resolve_implicit_global_asset_job_def()
        .execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey(["bronze", "events"])],
            partition_key="2017-01-05",
            raise_on_error=False,
        )
    )
    assert not result.success

    assert daemon.tick() == "Posted 1 failed run."
    assert daemon.tick() == "No run has failed."

    (message,) = hook.taken
    (failure,) = message["failures"]
    assert failure.startswith("SourceError: A source cannot be read: missing, not permitted")
    assert failure in message["text"]
    assert {name: message[name] for name in ("event", "run_id", "tables", "days")} == {
        "event": "run_failed",
        "run_id": result.run_id,
        "tables": ["bronze/events"],
        "days": "2017-01-05",
    }
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert TOKEN not in json.dumps([run.run_config, dict(run.tags)])
    assert TOKEN not in str(instance.all_logs(result.run_id))


def test_what_went_wrong_unforeseen_is_reported_by_its_name_without_what_it_quotes(
    alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    daemon, _ = sensors(alerting, instance)
    daemon.tick()
    failed_run(instance)
    failed_run(instance, error=dg.Failure("gold/mart, batch 3: Spark failed: no number: 'Ada'."))

    daemon.tick()

    assert [message["failures"] for message in hook.taken] == [
        [f"{BROKEN}: ValueError; see the run's log"],
        [f"{BROKEN}: Failure; see the run's log"],
    ]
    assert "Ada" not in json.dumps(hook.taken)


def test_a_run_that_was_killed_is_reported_too(
    alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    daemon, _ = sensors(alerting, instance)
    daemon.tick()
    run = instance.add_run(
        dg.DagsterRun(
            "assets",
            status=dg.DagsterRunStatus.STARTED,
            asset_selection=frozenset({dg.AssetKey(["silver", "sales"])}),
            tags=days("2017-01-05", "2017-01-07"),
        )
    )
    instance.report_run_failed(run)

    daemon.tick()

    (message,) = hook.taken
    assert (message["tables"], message["days"]) == (["silver/sales"], "2017-01-05...2017-01-07")
    assert message["failures"] == ["The run ended before a step failed; see the run's log"]


def days(first: str, last: str) -> Mapping[str, str]:
    return {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last,
    }


def test_a_run_of_other_assets_or_another_job_is_passed_over(
    alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    daemon, _ = sensors(alerting, instance)
    daemon.tick()
    theirs = frozenset({dg.AssetKey(["theirs"])})
    instance.report_run_failed(instance.add_run(dg.DagsterRun("x", asset_selection=theirs)))
    failed_run(instance, "theirs")
    failed_run(instance, "ours")

    daemon.tick()

    assert [message["job"] for message in hook.taken] == ["ours"]


def test_many_failed_runs_are_reported_over_several_ticks_each_once(
    alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    daemon, _ = sensors(alerting, instance)
    daemon.tick()
    for number in range(MOST_RUNS + 2):
        instance.report_run_failed(instance.add_run(dg.DagsterRun(f"job_{number}")))

    assert [daemon.tick() for _ in range(3)] == [
        f"Posted {MOST_RUNS} failed runs.",
        "Posted 2 failed runs.",
        "No run has failed.",
    ]
    assert [m["job"] for m in hook.taken] == [f"job_{n}" for n in range(MOST_RUNS + 2)]
