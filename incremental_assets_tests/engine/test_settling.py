"""What a run that died, and may be alive, can still write once another run has settled its batch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from incremental_assets.changes.snapshot_changes import restore_snapshot
from incremental_assets.delta.delta_log import put_fence
from incremental_assets.delta.delta_table import ensure_table, open_table
from incremental_assets.delta.publish import publish
from incremental_assets.delta.side_table import quarantine_name, side_table_of
from incremental_assets.delta.stage import Staged
from incremental_assets.delta.transaction import Transaction
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.engine.kinds import kind_of
from incremental_assets.engine.settling import TableSettling
from incremental_assets.engine.table_load import LoadContext, TableSteps
from incremental_assets.errors import ConflictError, LakeError, LedgerError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.settle import settle
from incremental_assets.plan.work import DayWork, Work
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did, jan

NOW = datetime(2017, 2, 1, tzinfo=UTC)
COLUMNS = (("_batch", "long"), ("dt", "date"))


def settling(settings: Settings, table: Table) -> TableSettling:
    ensure_table(f"{settings.lake}/{table.name}", table.name, COLUMNS, ("dt",))
    return TableSettling.of(settings, table, kind_of(table), print)


def write_late(path: str, app: str, batch: int) -> None:
    """What a writer does that wakes up: it creates the table, and commits its rows."""
    ensure_table(path, app, COLUMNS, ())
    publish(Staged(path, (), ()), Transaction(app, batch, "{}"))


def test_the_first_side_rows_of_an_abandoned_batch_come_too_late(settings: Settings) -> None:
    silver, bronze = settling(settings, SALES), settling(settings, EVENTS)

    assert silver.fence(7)
    assert bronze.fence(7)

    side = side_table_of(silver.path)
    for app in ("beside silver/sales", "ties of silver/sales"):
        with pytest.raises(ConflictError, match="batch 7 was abandoned by another run"):
            write_late(side, app, 7)
        write_late(side, app, 8)
    assert open_table(side_table_of(bronze.path)) is None  # it never has any


def test_the_first_snapshot_of_an_abandoned_load_comes_too_late(tmp_path: Path) -> None:
    snapshot = str(tmp_path / "snapshot")

    restore_snapshot(snapshot, "load", 1)

    for path, app in ((snapshot, "load"), (f"{snapshot}/_changes", "changes of load")):
        with pytest.raises(ConflictError, match="batch 1 was abandoned by another run"):
            write_late(path, app, 1)
        write_late(path, app, 2)


def test_who_settles_late_takes_no_newer_snapshot_back(tmp_path: Path) -> None:
    snapshot = str(tmp_path / "snapshot")
    for batch in (1, 2):
        write_deltalake(snapshot, pl.DataFrame({"_batch": [batch]}), mode="overwrite")
        write_late(snapshot, "load", batch)
    version = DeltaTable(snapshot).version()

    restore_snapshot(snapshot, "load", 1)

    assert DeltaTable(snapshot).version() == version
    assert pl.read_delta(snapshot)["_batch"].to_list() == [2]


def test_a_batch_whose_commit_was_cut_from_the_log_is_reported(settings: Settings) -> None:
    ledger, table_log = Ledger(ledger_path(settings.lake)), settling(settings, SALES)
    ledger.transact_on(SALES.name, lambda _: [did(SALES, 1, 5, state="claimed")])
    write_late(table_log.path, SALES.name, 1)
    DeltaTable(table_log.path).create_checkpoint()
    for commit in (Path(table_log.path) / "_delta_log").glob("0*.json"):
        commit.unlink()

    with pytest.raises(LedgerError) as raised:
        settle(ledger, SALES.name, table_log, NOW, print)

    assert "batch 1 has no outcome in the ledger, and its commit is no longer" in str(raised.value)
    assert "`incremental-assets ledger rebuild silver/sales`" in str(raised.value)


def test_a_fence_that_cannot_be_written_is_reported_and_the_batch_stays_unfinished(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device (os error 28)")

    ledger, table_log = Ledger(ledger_path(settings.lake)), settling(settings, SALES)
    ledger.transact_on(SALES.name, lambda _: [did(SALES, 1, 5, state="claimed")])
    monkeypatch.setattr("incremental_assets.delta.delta_log.commit_files", full)

    with pytest.raises(LakeError, match=r"silver/sales cannot be written: No space left.*Batch 1"):
        settle(ledger, SALES.name, table_log, NOW, print)

    assert len(ledger.tail(SALES.name).unsettled) == 1


def test_a_number_that_the_quarantine_alone_knows_is_not_used_again(settings: Settings) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError

    quarantine, ledger = quarantine_of(settings, EVENTS).path, Ledger(ledger_path(settings.lake))
    ensure_table(quarantine, "quarantine", COLUMNS, ())
    put_fence(quarantine, quarantine_name(EVENTS.name), 3)
    lake = LoadContext(settings, (EVENTS,), ledger, no_spark, lambda: NOW, print)
    work = Work("append", "advance", {jan(5): DayWork(jan(5), "a file")})
    steps = TableSteps(lake, EVENTS, work, 0, "", kind_of(EVENTS, "append"))

    steps.claim()

    assert steps.number() == 4
    assert ledger.tail(EVENTS.name).last_batch == 4
