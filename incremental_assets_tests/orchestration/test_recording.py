"""A run over many days tells how far it is, also where no table logs anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from incremental_assets.catalog import table_named, tables
from incremental_assets.days import DayRange
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START, daily
from incremental_assets.orchestration.recording import recording_progress
from incremental_assets.plan.batches import SMALL_DAYS_PER_BATCH
from incremental_assets.settings import Settings
from incremental_assets_tests.plan.ledgers import did

NOW = datetime(2017, 3, 9, 12, tzinfo=UTC)
FIRST = date(2017, 1, 1)
KEYS = [dg.AssetKey(["bronze", name]) for name in ("one", "two", "three")]


def assets(settings: Settings) -> Sequence[dg.AssetsDefinition]:
    def made(key: dg.AssetKey) -> dg.AssetsDefinition:
        @dg.asset(
            key=key,
            partitions_def=daily(settings),
            backfill_policy=dg.BackfillPolicy.single_run(),
        )
        def load() -> None: ...

        return load

    return list(map(made, KEYS))


def test_it_is_reported_how_many_days_dagster_has_recorded_before_and_after_a_table_is_loaded(
    settings: Settings,
) -> None:
    days = DayRange(FIRST, FIRST + timedelta(days=7))
    job = dg.Definitions(
        assets(settings), executor=dg.in_process_executor
    ).resolve_implicit_global_asset_job_def()
    tags = {RANGE_START: str(days.first), RANGE_END: str(days.last)}
    lines: list[str] = []
    with dg.DagsterInstance.local_temp() as instance:
        for _ in range(2):  # the second run plans what the first one has recorded
            lines.clear()
            with recording_progress(instance, KEYS, days, lines.append, every=0.001):
                assert job.execute_in_process(instance=instance, tags=tags).success

    text = "\n".join(lines)
    assert "Dagster records the plan of 8 days: 0 of 3 tables" in text
    assert re.search(r"plan of 8 days: 1 of 3 tables, about \d+ s more", text)
    loaded = r"Dagster records bronze/(one|two|three): \d+ of 8 days, about \d+ s more"
    assert re.search(loaded, text)


def test_a_table_of_more_days_than_a_batch_tells_how_many_are_done(settings: Settings) -> None:
    """The 1st is refused; on the other days there is nothing to do, and nothing to tell so soon."""
    events, sales = (table_named(tables(), name) for name in ("bronze/events", "silver/sales"))
    days = [FIRST + timedelta(days=n) for n in range(SMALL_DAYS_PER_BATCH + 34)]
    ledger = Ledger(ledger_path(settings.lake))
    held: list[Entry] = [did(events, 1, 1, state="held")]
    ledger.transact_on(events.name, lambda _: held)
    lines: list[str] = []

    def no_spark() -> Any:
        raise AssertionError("no Spark is asked for")

    lakehouse = Lakehouse(settings, tables(), no_spark, lambda: NOW, lines.append)
    lakehouse.load(sales, days)

    (line,) = lines
    assert re.fullmatch(r"silver/sales: 366 of 400 days done, about \d+ s more", line)
