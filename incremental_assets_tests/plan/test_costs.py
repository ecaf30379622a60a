"""Whether a day is merged or made anew: by the measured model, at the pace that the ledger tells."""

from __future__ import annotations

from dataclasses import replace

from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import TableHistory
from incremental_assets.plan.costs import MEASURED, Costs
from incremental_assets_tests.plan.ledgers import MART, did


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
    assert costs.cheaper(100, 10_000_000)[0] == "merge"
    assert costs.cheaper(10_000_000, 100)[0] == "rebuild"
    assert costs.cheaper(1, 1)[0] == "rebuild"


def test_the_pace_is_that_of_the_last_batches() -> None:
    rebuild = MEASURED["rebuild"].seconds(0, 1000)
    slow = history(*[("rebuild", 1000, 1000, 3 * rebuild)] * 5)

    assert Costs.of(slow).pace["rebuild"] == 3.0
    assert Costs.of(slow).pace["merge"] == 3.0  # never merged: as much slower
    caught_up = history(
        *[("rebuild", 1000, 1000, 3 * rebuild)] * 5, *[("rebuild", 1000, 1000, rebuild)] * 10
    )
    assert Costs.of(caught_up).pace["rebuild"] == 1.0


def test_a_table_that_merges_slowly_is_made_anew() -> None:
    merge, rebuild = MEASURED["merge"], MEASURED["rebuild"]
    rows = 1_000_000
    told = [
        ("rebuild", rows, rows, rebuild.seconds(0, rows)),
        ("merge", 10, rows, 9 * merge.seconds(10, rows)),
    ]

    assert Costs.of(history(*told[:1])).cheaper(10, rows)[0] == "merge"
    way, why = Costs.of(history(*told)).cheaper(10, rows)

    assert way == "rebuild"
    assert why.startswith("merging 10 changed rows into 1000000 takes about ")


def test_days_of_one_batch_are_one_measurement() -> None:
    one = history(("rebuild", 1000, 1000, 5.0)).entries[0]
    both = TableHistory(MART.name, (one, replace(one, day=one.day.replace(day=20))))

    pace = Costs.of(both).pace["rebuild"]

    assert pace == 5.0 / MEASURED["rebuild"].seconds(0, 2000)
