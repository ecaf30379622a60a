"""The sensors of sources that are read in place: for which days they ask, and when."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from incremental_assets.changes import Sequence, Timestamp
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.load_days import load_days_job
from incremental_assets.orchestration.source_sensors import source_sensors
from incremental_assets.settings import Settings
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.orchestration.ticks import LATE, Ticks, spans
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did

ORDERS = Table(
    "bronze/orders", "", (Stored("orders"),), changes=Timestamp("updated_at"), write=Append()
)
NUMBERED = Table(
    "bronze/numbered",
    "",
    (Stored("orders", day="updated_at"),),
    changes=Sequence("id", on_gap="wait", deadline=timedelta(hours=1)),
    write=Append(),
)


def put_orders(settings: Settings, name: str, *days: int, delta: bool = False) -> None:
    folder = Path(settings.landing) / "orders"
    rows = pl.DataFrame(
        {
            "id": list(range(1, len(days) + 1)),
            "updated_at": [datetime(2017, 1, day, 9, tzinfo=UTC) for day in days],
        }
    )
    if delta:
        rows.write_delta(folder, mode="append")
    else:
        folder.mkdir(exist_ok=True)
        rows.write_parquet(folder / name)


@pytest.mark.parametrize("delta", [True, False], ids=["delta", "parquet"])
def test_a_stored_source_is_asked_for_just_the_days_whose_rows_changed(
    settings: Settings, instance: dg.DagsterInstance, delta: bool
) -> None:
    ticks = Ticks(settings, instance, ORDERS)
    assert ticks.skipped() == f"Nothing has landed at {settings.landing}/orders yet."
    put_orders(settings, "1.parquet", 5, 6, delta=delta)

    (first,) = ticks.requests()
    assert spans([first]) == ["2017-01-05...2017-01-06"]
    ticks.load(*range(1, 32))
    assert ticks.skipped() == "Nothing is new."
    put_orders(settings, "2.parquet", 6, delta=delta)
    (second,) = ticks.requests()

    assert spans([second]) == ["2017-01-06"]
    assert second.run_key != first.run_key
    ticks.load(6)
    assert ticks.skipped() == "Nothing is new."


def test_a_stored_source_that_is_gone_skips_with_its_own_words(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(settings, instance, ORDERS)
    put_orders(settings, "1.parquet", 5)
    ticks.load(5)
    (Path(settings.landing) / "orders").rename(Path(settings.landing) / "archive")

    assert "There is nothing at" in ticks.skipped()


def test_rows_that_wait_for_a_gap_are_asked_for_when_they_wait_no_longer(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    ticks = Ticks(settings, instance, NUMBERED)
    put_orders(settings, "1.parquet", 5, 5, 5)
    mark = Stored("orders").below(settings.landing).fix().fingerprint
    since = (LATE - timedelta(minutes=10)).isoformat()
    state = {"source": mark, "seen": "", "waiting_since": since}
    waits = replace(did(NUMBERED, 1, 5), position=json.dumps(state))
    ticks.load(*range(1, 32))
    ticks.write(replace(waits, batch=2))

    assert ticks.skipped() == "Nothing is new."
    ticks.now = LATE + timedelta(minutes=50)
    assert spans(ticks.requests()) == ["2017-01-05"]


def test_a_source_without_anything_built_on_it_has_a_sensor_too(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    some = [EVENTS, ORDERS, SALES]
    job = load_days_job(some, executor_for(settings))

    names = [sensor.name for sensor in source_sensors(some, settings, job)]

    assert names == ["new_in_events", "new_in_orders"]
