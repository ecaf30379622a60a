"""The sensor for stale days: what it asks for, once, and how often again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.load_days import load_days_job
from incremental_assets.orchestration.partitions import DAYS, RANGE_END, RANGE_START
from incremental_assets.orchestration.requests import ASKED_FOR
from incremental_assets.orchestration.sensors import stale_days_sensors
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, USERS, did, jan

TABLES = (EVENTS, USERS, SALES, MART)


def made(
    settings: Settings, tables: Sequence[Table] = TABLES, **clock: Any
) -> list[dg.SensorDefinition]:
    job = load_days_job(tables, executor_for(settings))
    return stale_days_sensors(tables, settings, job, **clock)


def asked(settings: Settings, instance: dg.DagsterInstance) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(instance=instance)
    (sensor,) = made(settings)
    found = sensor(context)
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    return found


def requests(settings: Settings, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    found = asked(settings, instance)
    assert isinstance(found, dg.SensorResult), found
    return list(found.run_requests or ())


def skipped(settings: Settings, instance: dg.DagsterInstance) -> str:
    found = asked(settings, instance)
    assert isinstance(found, dg.SkipReason)
    return found.skip_message or ""


def ran(
    instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus
) -> dg.DagsterRun:
    return instance.add_run(dg.DagsterRun("load_days", tags=dict(request.tags), status=status))


def write(settings: Settings, entry: Entry) -> None:
    Ledger(ledger_path(settings.lake)).transact_on(entry.table, lambda _: [entry])


def load_events(settings: Settings, batch: int, *days: int) -> None:
    write(settings, did(EVENTS, batch, days[0], touched=days))


def test_stale_days_are_asked_for_in_ranges_with_all_that_is_built_on_them(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    assert skipped(settings, instance) == "Nothing is stale."
    load_events(settings, 1, 2, 3, 7)

    first, second = requests(settings, instance)

    spans = [(r.tags[RANGE_START], r.tags[RANGE_END]) for r in (first, second)]
    assert spans == [("2017-01-02", "2017-01-03"), ("2017-01-07", "2017-01-07")]
    assert [tag for tag in first.tags if not tag.lstrip(".").startswith("dagster/")] == [DAYS]
    assert (first.tags[DAYS], second.tags[DAYS]) == ("2017-01-02...2017-01-03", "2017-01-07")
    assert first.asset_selection == [
        dg.AssetKey(["silver", "users"]),
        dg.AssetKey(["gold", "mart"]),
    ]
    again, _ = requests(settings, instance)
    assert again.run_key == first.run_key  # no run came of it: the daemon knows what it launched


def test_dagsters_own_retries_use_up_none_of_the_attempts_of_a_days_neighbours(
    settings: Settings, tmp_path: Path
) -> None:
    retries = "run_retries: {enabled: true, max_retries: 2}\n"
    (tmp_path / "dagster.yaml").write_text(retries)
    load_events(settings, 1, 2, 3)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        (request,) = requests(settings, instance)
        runs = [ran(instance, request, dg.DagsterRunStatus.STARTED)]
        runs.append(instance.add_run(dg.DagsterRun("backfill", status=runs[0].status)))
        for run in runs:
            instance.report_run_failed(run)
        told = [instance.get_run_by_id(run.run_id).tags["dagster/will_retry"] for run in runs]

    assert told == ["false", "true"]


def test_what_is_under_way_is_not_asked_for_and_what_died_is_a_limited_number_of_times(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    load_events(settings, 1, 2)
    write(settings, did(SALES, 1, 2, read={EVENTS.name: 1}))
    keys = []
    for _ in range(3):
        (request,) = requests(settings, instance)
        keys.append(request.run_key)
        run = ran(instance, request, dg.DagsterRunStatus.STARTED)
        assert skipped(settings, instance) == "silver/users: A run over 2017-01-02 is in progress."
        instance.report_run_failed(run)
    assert len(set(keys)) == 3

    assert "2017-01-02 was tried 3 times and is not done" in skipped(settings, instance)
    load_events(settings, 2, 2)
    (again,) = requests(settings, instance)
    assert again.tags[ASKED_FOR] != request.tags[ASKED_FOR]
    other = settings.replace(lake=f"{settings.lake}_2")
    load_events(other, 1, 2)
    write(other, did(SALES, 1, 2, read={EVENTS.name: 1}))
    (elsewhere,) = requests(other, instance)
    assert elsewhere.run_key not in keys  # what failed there is no attempt here
    assert (elsewhere.run_key or "").endswith(":1")


def test_a_table_that_cannot_be_built_does_not_keep_the_others_back(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    load_events(settings, 1, 2)
    for _ in range(3):
        (request,) = requests(settings, instance)
        assert request.asset_selection[0] == dg.AssetKey(["silver", "users"])  # type: ignore[index]
        ran(instance, request, dg.DagsterRunStatus.FAILURE)

    (request,) = requests(settings, instance)

    assert request.asset_selection == [
        dg.AssetKey(["silver", "sales"]),
        dg.AssetKey(["gold", "mart"]),
    ]


def test_a_run_that_was_created_and_not_handed_over_is_found_again_by_its_key(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    load_events(settings, 1, 2)
    (request,) = requests(settings, instance)
    ran(instance, request, dg.DagsterRunStatus.NOT_STARTED)

    (again,) = requests(settings, instance)

    assert again.run_key == request.run_key


def test_a_ledger_that_cannot_be_read_is_reported_and_after_half_an_hour_the_tick_fails(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    Path(settings.lake).parent.mkdir(parents=True, exist_ok=True)
    Path(settings.lake).write_text("a file where the lake should be")
    noon = datetime(2017, 1, 31, 12, tzinfo=UTC)
    minutes = iter((0, 29, 30))
    (sensor,) = made(settings, now=lambda: noon + timedelta(minutes=next(minutes)))
    context = dg.build_sensor_context(instance=instance)

    for _ in range(2):
        found = sensor(context)
        assert isinstance(found, dg.SkipReason)
        assert "12:00:00+00:00: The lake is not writable" in (found.skip_message or "")
        context = dg.build_sensor_context(instance=instance, cursor=context.cursor)
    with pytest.raises(LedgerError, match=r"since 2017-01-31T12.*lake is not writable"):
        sensor(context)


def test_days_that_are_held_are_left_alone(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    load_events(settings, 1, 2)
    for table in (USERS, SALES):
        entry = did(table, 1, 2, read={EVENTS.name: 1}, state="held")
        write(settings, entry)

    assert entry.day == jan(2)
    assert skipped(settings, instance) == "Nothing is stale."


def test_where_nothing_is_built_on_anything_there_is_no_sensor(settings: Settings) -> None:
    assert made(settings, [EVENTS]) == []
