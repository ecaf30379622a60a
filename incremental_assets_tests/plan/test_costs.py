"""Whether a day is merged or rebuilt: by the measured model, at the pace that the ledger shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.plan.costs import MEASURED, Costs
from incremental_assets_tests.plan.ledgers import MART, did

MIDDLE, BIG = 100_000, 1_000_000


def history(*batches: tuple[str, int, int, float]) -> TableHistory:
    """Batches by mode, rows read, rows of the day, and seconds."""
    entries: list[Entry] = []
    for number, (mode, read, rows, seconds) in enumerate(batches, 1):
        entry = did(MART, number, number, mode=mode)  # type: ignore[arg-type]
        entries.append(replace(entry, rows_read=read, rows_counted=rows, seconds=seconds))
    return TableHistory(MART.name, tuple(entries))


def test_before_the_first_batch_the_measured_model_decides() -> None:
    costs = Costs.of(history())

    assert costs.pace == {"merge": 1.0, "rebuild": 1.0}
    assert costs.cheaper(10, 2_000)[0] == "rebuild"
    assert costs.cheaper(10, 1_000_000)[0] == "merge"
    assert costs.cheaper(500_000, 1_000_000)[0] == "rebuild"


def test_the_pace_is_that_of_the_last_batches() -> None:
    rebuild = MEASURED["rebuild"].seconds(0, BIG)
    slow = [("rebuild", BIG, BIG, 3 * rebuild)] * 5
    fast = [("rebuild", BIG, BIG, rebuild / 2)] * 10

    assert Costs.of(history(*slow)).pace == {"merge": 1.0, "rebuild": pytest.approx(3.0)}
    assert Costs.of(history(*slow, *fast)).pace == {
        "merge": pytest.approx(0.5),  # never merged: no slower than the other
        "rebuild": pytest.approx(0.5),
    }


def test_a_table_that_is_slow_to_rebuild_is_merged_and_if_that_is_slower_not_again() -> None:
    merge, rebuild = MEASURED["merge"], MEASURED["rebuild"]
    told = [
        ("rebuild", MIDDLE, MIDDLE, 3 * rebuild.seconds(0, MIDDLE)),
        ("merge", 10, MIDDLE, 9 * merge.seconds(10, MIDDLE)),
    ]

    assert Costs.of(history()).cheaper(10, MIDDLE)[0] == "rebuild"
    assert Costs.of(history(*told[:1])).cheaper(10, MIDDLE)[0] == "merge"
    way, why = Costs.of(history(*told)).cheaper(10, MIDDLE)

    assert way == "rebuild"
    assert why.startswith("a merge of 10 changed rows into 100000 takes about ")


def test_days_of_one_batch_are_one_measurement() -> None:
    one = history(("rebuild", BIG, BIG, 5.0)).entries[0]
    both = TableHistory(MART.name, (one, replace(one, day=one.day.replace(day=20))))

    pace = Costs.of(both).pace["rebuild"]

    assert pace == 5.0 / MEASURED["rebuild"].seconds(0, 2 * BIG)
