"""What is posted to a webhook never holds a value, key or field name of the data."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import parse_day
from incremental_assets.orchestration.alerts import alert_sensors
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.resources import LakehouseResource, SparkResource
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    at_least,
    between,
    check,
    distinct_count,
    fail,
    fresh,
    matches,
    no_empty_files,
    not_in_future,
    not_null,
    null_share,
    one_of,
    quarantine,
    quarantined_share,
    reconciles,
    reconciles_with,
    references,
    row_count,
    rows_delivered,
    satisfies,
    unique,
    usual_row_count,
)
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.table import Table
from incremental_assets_tests.alerts.receiver import Receiver
from incremental_assets_tests.feeds.test_rules import bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake

DAY, BEFORE = "2017-01-05", "2017-01-04"
SECRET, NUMBER = "Ada-Lovelace", 31415927
NEWEST = "01:23"
_SESSIONS: list[SparkSession] = []

BRONZE_RULES = fail(rows_delivered(), no_empty_files(), row_count(99))
ROW_RULES = fail(
    not_null("seat"),
    at_least("version", 99_999_999),
    between("id", "a", "b"),
    one_of("train", ("t1",)),
    matches("id", "x+"),
    not_in_future("later"),
    satisfies("known", "id = 'x'"),
    check("checked", lambda: F.col("id") == "x", ("id",)),
    unique("train"),
    references("train", "gold/other", "train"),
)
DAY_RULES = fail(
    quarantined_share(0.01),
    row_count(99),
    usual_row_count(0.1, min_days=1),
    null_share("seat", 0.1, min_rows=1),
    distinct_count("train", at_least=9),
    fresh("at", timedelta(minutes=1)),
)
GOLD_RULES = fail(
    reconciles(),
    reconciles_with("silver/bookings", {"versions": ("sum(seats)", "sum(version)")}),
)


class TestsSpark(SparkResource):
    """The test run's own session in the place of a second one."""

    __test__ = False

    def session(self, settings: Settings) -> SparkSession:
        return _SESSIONS[0]


def silver(*rules: Any) -> Table:
    schema = Contract(
        "freeze",
        id=Text(required=True),
        seat=Text(),
        train=Text(),
        version=Integer(on_type_error="freeze"),
        at=Instant(),
        later=Instant(),
    )
    return replace(bookings(), schema=schema, rules=rules)


def row(number: int, **more: Any) -> dict[str, Any]:
    fields = {"id": f"{SECRET}-{number}", "train": SECRET, "version": NUMBER}
    return fields | {"at": f"{DAY}T{NEWEST}", "later": "2999-12-31T00:00:00Z"} | more


@pytest.fixture
def alerting(
    spark: SparkSession, settings: Settings, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    _SESSIONS[:] = [spark]
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    return settings.replace(webhook=hook.url)


def fail_a_run(settings: Settings, instance: dg.DagsterInstance, table: Table) -> str:
    """Load the day of a table through Dagster, which fails; the failure's own words."""
    (asset,) = incremental_assets([table], settings)
    resources = {
        ALONE.spark: TestsSpark(),
        ALONE.lakehouse: LakehouseResource((table,), settings),
    }
    made = dg.Definitions([asset], resources=resources)
    result = made.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[asset.key],
        partition_key=DAY,
        raise_on_error=False,
    )
    assert not result.success
    (event,) = [e for e in result.all_events if e.is_step_failure]
    message = event.step_failure_data.user_failure_data
    return str(message.description if message is not None else event.step_failure_data.error)


def test_alerts_hold_no_value_whatever_rule_has_failed(
    spark: SparkSession, alerting: Settings, instance: dg.DagsterInstance, hook: Receiver
) -> None:
    plain = Lake(spark, alerting, landed("bookings"), bookings(), per_train())
    plain.land("bookings", BEFORE, "1.jsonl", [row(n, at=f"{BEFORE}T09:00") for n in range(9)])
    plain.load(BEFORE)
    field = f"{SECRET}; known: y"
    rows = [row(1), row(1, **{field: 1}), row(3, version=SECRET), f'{{"id": "{SECRET}']
    plain.land("bookings", DAY, "1.jsonl", rows)
    plain.land("bookings", DAY, "2.jsonl", [])
    judged = silver(*quarantine(satisfies("seated", "seat IS NULL")), *ROW_RULES, *DAY_RULES)
    gold = per_train(*GOLD_RULES)
    held_bronze = landed("bookings", *BRONZE_RULES)
    runs, data = alert_sensors([held_bronze, judged, gold], alerting, [])
    cursor = runs.evaluate_tick(dg.build_sensor_context(instance)).cursor

    messages = [fail_a_run(alerting, instance, held_bronze)]
    plain.load(DAY, "bronze/bookings")
    messages.append(fail_a_run(alerting, instance, judged))
    plain.load(DAY, "silver/bookings")
    messages.append(fail_a_run(alerting, instance, gold))
    runs.evaluate_tick(dg.build_sensor_context(instance, cursor))
    data.evaluate_tick(dg.build_sensor_context(instance))

    posted = json.dumps(hook.taken)
    print(messages, posted)
    assert len(hook.taken) == 4
    assert SECRET in messages[1]
    assert str(NUMBER) in messages[2]
    for value in (SECRET, str(NUMBER), NEWEST, "Lovelace"):
        assert value not in posted
    for rule in (*BRONZE_RULES[1:], *ROW_RULES, *DAY_RULES, GOLD_RULES[1]):
        assert rule.name in posted, rule.name
    assert parse_day(DAY).isoformat() in posted
