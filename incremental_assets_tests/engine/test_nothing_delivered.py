"""A load that ends a hold because what was held is gone: nothing was delivered to judge."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, cast

import pytest

from incremental_assets.changes import SnapshotDiff
from incremental_assets.engine.batch import Batch, BatchKind
from incremental_assets.engine.landing import LandingBatch
from incremental_assets.engine.snapshots import SnapshotBatch, SnapshotChanges, SnapshotCounts
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.plan import Work, file_entries
from incremental_assets.plan.landed import HELD_IS_GONE
from incremental_assets.plan.work import DayWork
from incremental_assets.quality.rules import fail, row_count, rows_delivered, usual_row_count
from incremental_assets.settings import Settings
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, did, jan, ledger

RULES = fail(row_count(at_least=1), usual_row_count(0.5, min_days=1), rows_delivered())
SNAPSHOTS = replace(EVENTS, changes=SnapshotDiff(key=("id",)), day=None)
EMPTY = SourceFile("events/2017-01-05/a.jsonl", 0, "tag", "")


def no_spark() -> Any:
    raise AssertionError


def batch_of(table: Table, files: dict[date, tuple[SourceFile, ...]], settings: Settings) -> Batch:
    days = {day: DayWork(day, HELD_IS_GONE, (), some) for day, some in files.items()}
    claims = [
        replace(did(table, 3, day.day, state="claimed"), files=file_entries(some))
        for day, some in files.items()
    ]
    before = replace(did(table, 1, 1, touched=[1]), rows_read=9, files=(FileEntry("b", 1, "", ""),))
    view = ledger(before, *(did(table, 2, day.day, state="held") for day in files))
    now = datetime(2017, 1, 31, tzinfo=UTC)
    work = Work("append", "advance", days)
    table = replace(table, rules=RULES)
    return Batch(table, 3, work, claims, view, {}, settings, now, no_spark)


def states(kind: BatchKind[Any], batch: Batch, read: Any, frames: Frames) -> dict[int, str]:
    return {entry.day.day: entry.state for entry in kind.gate(batch, frames, read).entries}


def test_no_rule_holds_a_day_of_which_nothing_is_delivered_and_an_empty_file_is_judged(
    settings: Settings,
) -> None:
    frames = Frames(no_spark)
    batch = batch_of(EVENTS, {jan(5): (), jan(6): (EMPTY,)}, settings)
    landing = LandingBatch()

    read = landing.read(batch, frames)

    assert read.write is None
    assert states(landing, batch, read, frames) == {5: "committed", 6: "held"}


@pytest.mark.parametrize(("files", "state"), [((), "committed"), ((EMPTY,), "held")])
def test_no_rule_holds_a_snapshot_that_is_not_there_and_an_empty_one_is_judged(
    files: tuple[SourceFile, ...], state: str, settings: Settings
) -> None:
    batch = batch_of(SNAPSHOTS, {jan(5): files}, settings)
    nothing = SnapshotChanges(cast("Any", None), (), SnapshotCounts(*[0] * 7), says_nothing=True)

    assert states(SnapshotBatch(), batch, nothing, Frames(no_spark)) == {5: state}
