"""Maintenance of a lake in which nothing is to be compacted: it starts no JVM, and says what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.delta.compact import CompactionLimits
from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.delta.vacuum import first_complete_version
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.lock import table_lock
from incremental_assets.maintenance import (
    MaintainedTable,
    MaintenanceOptions,
    maintain,
    steps_named,
)
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, did, jan

WEEKS = timedelta(days=30)
TOMORROW = timedelta(days=1)


def no_spark() -> SparkSession:
    raise AssertionError("Spark is asked for, and there is nothing to compact")


def keep(
    settings: Settings,
    *tables: Table,
    asked: MaintenanceOptions = MaintenanceOptions(lock_seconds=0),
    later: timedelta = timedelta(0),
) -> dict[str, MaintainedTable]:
    now = datetime.now(UTC) + later
    report = maintain(settings, tables or (SALES,), no_spark, now, asked)
    return {kept.name: kept for kept in report.tables}


@pytest.fixture
def lake(settings: Settings) -> Settings:
    """One day of sales, replaced twice, and a ledger."""
    record(settings, 1)
    for amount in range(3):
        day = pl.DataFrame({"_batch": [amount], "dt": [jan(5)]})
        path = f"{settings.lake}/silver/sales"
        day.write_delta(path, mode="overwrite", delta_write_options={"partition_by": ["dt"]})
    return settings


def record(settings: Settings, *batches: int) -> None:
    for batch in batches:
        entry = did(SALES, batch, 5, touched=[5])
        Ledger(ledger_path(settings.lake)).transact_on(SALES.name, lambda _, e=entry: [e])  # type: ignore[misc]


def quarantined(settings: Settings, ages: Sequence[int]) -> str:
    """Rows in quarantine, first seen so many days ago."""
    path = f"{settings.lake}/quarantine/silver_sales"
    seen = [datetime.now(UTC) - timedelta(days=age) for age in ages]
    rows = pl.DataFrame({"_batch": 1, "_day": jan(5), "row": "{}", "first_seen": seen})
    rows.write_delta(path, mode="append", delta_write_options={"partition_by": ["_day"]})
    return path


def everything(settings: Settings) -> dict[str, bytes]:
    root = Path(settings.lake)
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}


def test_files_that_were_replaced_go_when_the_retention_is_over_and_not_before(
    lake: Settings,
) -> None:
    path = f"{lake.lake}/silver/sales"

    assert keep(lake)[SALES.name].removed == 0
    kept = keep(lake, later=timedelta(days=9))[SALES.name]

    assert (kept.removed, kept.files_after, kept.version_after) == (2, 1, 2)
    assert kept.freed > 0
    assert pl.read_delta(path)["_batch"].to_list() == [2]
    assert first_complete_version(path) == 2
    assert keep(lake, later=timedelta(days=9))[SALES.name].removed == 0


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_on_a_full_disk_a_step_that_fails_keeps_no_files_from_being_removed(
    lake: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise LakeError("no checkpoint can be written (No space left on device). Run again.")

    with monkeypatch.context() as broken:
        broken.setattr("incremental_assets.maintenance.steps.keep_log_short", no_room)
        broken.setattr("incremental_assets.delta.vacuum.write_file", full)
        fuller = keep(lake, later=timedelta(days=9))[SALES.name]
    with monkeypatch.context() as broken:
        broken.setattr("incremental_assets.maintenance.steps.keep_log_short", no_room)
        kept = keep(lake, later=timedelta(days=9))[SALES.name]

    assert fuller.removed == 0
    assert fuller.failed.startswith("silver/sales: no checkpoint can be written")
    assert "_whole_from.json cannot be written (No space left on device)" in fuller.failed
    assert kept.removed == 2
    assert kept.failed == (
        "silver/sales: no checkpoint can be written (No space left on device). Run again."
    )


def test_a_longer_retention_is_kept(lake: Settings) -> None:
    lake = lake.replace(vacuum_days=20)

    assert keep(lake, later=timedelta(days=20))[SALES.name].removed == 0
    assert keep(lake, later=timedelta(days=22))[SALES.name].removed == 2


def test_what_a_batch_without_an_outcome_may_read_stays(lake: Settings) -> None:
    entry = replace(did(MART, 1, 5), state="claimed", recorded_at=datetime.now(UTC) - TOMORROW)
    Ledger(ledger_path(lake.lake)).transact_on(MART.name, lambda _: [entry])

    kept = keep(lake, later=WEEKS)[SALES.name]

    assert kept.removed == 0
    assert "batch 1 of gold/mart is unfinished since" in kept.skipped[0]


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(False, id="a restatement of a day whose watermark was rewound"),
        pytest.param(True, id="keys that a held day has, too, whose input changed since"),
    ],
)
def test_what_a_load_may_compare_with_stays(lake: Settings, held: bool) -> None:
    ledger, later = Ledger(ledger_path(lake.lake)), timedelta(days=9)
    loaded = replace(did(SALES, 2, 5, touched=[5]), target_version=1)
    ledger.transact_on(SALES.name, lambda _: [loaded])
    day, published = (6, 1) if held else (5, 2)
    ledger.transact_on(MART.name, lambda _: [did(MART, 1, day, read={SALES.name: published})])
    if held:
        repaired = replace(did(SALES, 3, 6, touched=[6]), target_version=2)
        ledger.transact_on(SALES.name, lambda _: [repaired])
        hold = did(MART, 2, 6, read={SALES.name: 3}, state="held")
        ledger.transact_on(MART.name, lambda _: [hold])
    claim = did(MART, 3, 5, read={SALES.name: 3}, state="claimed", kind="restate")
    claim = replace(claim, recorded_at=datetime.now(UTC) + later)
    ledger.transact_on(MART.name, lambda _: [claim])

    kept = keep(lake, later=later)[SALES.name]

    assert kept.removed == 1
    assert DeltaTable(f"{lake.lake}/silver/sales", version=1).to_pyarrow_table().num_rows == 1


def test_quarantine_expires_for_tables_that_are_not_loaded_any_more(lake: Settings) -> None:
    path = quarantined(lake, [40, 31, 29, 1])
    lake = lake.replace(quarantine_days=30)

    with table_lock(lake.lake, SALES.name, "a load", print):
        busy = keep(lake)["quarantine/silver_sales"]
    kept = keep(lake)["quarantine/silver_sales"]

    assert busy.rows_expired == 0
    assert "a load of silver/sales is in progress" in busy.skipped[0]
    assert kept.rows_expired == 2
    assert pl.read_delta(path).height == 2
    expired = Quarantine(path, SALES.name).expired_before()
    assert expired is not None
    assert timedelta(0) <= datetime.now(UTC) - timedelta(days=30) - expired < timedelta(minutes=5)
    version = DeltaTable(path).version()
    assert keep(lake)["quarantine/silver_sales"].rows_expired == 0
    assert DeltaTable(path).version() == version
    assert Quarantine(path, SALES.name).expired_before() == expired


def test_quarantine_without_a_time_of_its_own_is_kept_for_ever(lake: Settings) -> None:
    quarantined(lake, [4000])

    assert keep(lake)["quarantine/silver_sales"].rows_expired == 0


def test_the_ledger_is_compacted_when_it_is_asked_for(lake: Settings) -> None:
    record(lake, *range(2, 6))
    before = Ledger(ledger_path(lake.lake)).view().table(SALES.name).entries

    report = maintain(lake, [SALES], no_spark, datetime.now(UTC))
    again = maintain(lake, [SALES], no_spark, datetime.now(UTC))

    assert report.ledger_files == (5, 1)
    assert again.ledger_files == (1, 1)
    assert Ledger(ledger_path(lake.lake)).view().table(SALES.name).entries == before


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(lake: Settings) -> None:
    path = f"{lake.lake}/silver/sales"
    for batch in range(3, 15):
        day = pl.DataFrame({"_batch": [batch], "dt": [jan(5)]})
        day.write_delta(path, mode="append")
    quarantined(lake, [40])
    lake = lake.replace(quarantine_days=30)
    before = everything(lake)

    asked = MaintenanceOptions(dry_run=True, limits=CompactionLimits(min_files=2))
    found = keep(lake, asked=asked, later=timedelta(days=9))

    assert everything(lake) == before
    kept = found[SALES.name]
    assert (kept.files_before, kept.files_after, kept.days) == (13, 1, (jan(5),))
    assert (kept.removed, kept.checkpoint) == (2, 14)
    assert found["quarantine/silver_sales"].rows_expired == 1


def test_only_what_is_asked_for_is_done(lake: Settings) -> None:
    before = everything(lake)

    keep(lake, asked=MaintenanceOptions(steps=("checkpoint", "quarantine")), later=WEEKS)

    assert everything(lake) == before | {
        name: content for name, content in everything(lake).items() if name.startswith("_locks/")
    }
    with pytest.raises(
        DefinitionError, match="no step of maintenance 'tidy'; expected one of opti"
    ):
        steps_named(["tidy"])


def test_a_table_that_cannot_be_read_stops_no_other(lake: Settings) -> None:
    damaged = Path(lake.lake) / "bronze" / "events"
    day = pl.DataFrame({"_batch": [1], "_landing_day": [jan(5)]})
    day.write_delta(str(damaged), delta_write_options={"partition_by": ["_landing_day"]})
    day.write_delta(str(damaged), mode="append")
    (damaged / "_delta_log" / f"{0:020d}.json").unlink()

    found = keep(lake, EVENTS, SALES, later=timedelta(days=9))

    assert found[EVENTS.name].failed.startswith("bronze/events: ")
    assert found[SALES.name].failed == ""
    assert found[SALES.name].removed == 2


def test_a_lake_that_is_not_there_is_reported_and_not_made(settings: Settings) -> None:
    with pytest.raises(LakeError, match=r"There is no lake at .*lake: it has no ledger") as raised:
        keep(settings)

    assert "INCREMENTAL_ASSETS_LAKE" in str(raised.value)
    assert not Path(settings.lake).exists()
