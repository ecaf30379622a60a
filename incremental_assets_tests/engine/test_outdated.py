"""Which rows in quarantine count, by what the ledger says of their day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from incremental_assets.delta.quarantine import OutdatedRows
from incremental_assets.engine.outdated import outdated_rows
from incremental_assets.ledger.entry import Entry

DAY = date(2017, 1, 5)
NOON = datetime(2017, 1, 10, 12, tzinfo=UTC)


def outcome(batch: int, state: Any = "committed", quarantined: int = 1, **named: Any) -> Entry:
    """A batch of the day that put `quarantined` rows into quarantine."""
    fields = {"kind": "advance", "mode": "merge", "detector": "batches", "day": DAY} | named
    return Entry(
        "silver/sales", batch, state=state, recorded_at=NOON, rows_quarantined=quarantined, **fields
    )


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([outcome(1), outcome(2)], [], id="each published batch adds its rows"),
        pytest.param([outcome(1), outcome(2, "held")], [], id="a held batch keeps its rows"),
        pytest.param(
            [outcome(1), outcome(2, "held"), outcome(4)],
            [OutdatedRows(DAY, 2, 4)],
            id="a held batch is replaced by the next one",
        ),
        pytest.param(
            [outcome(1), outcome(2, "held"), outcome(3, "held"), outcome(4)],
            [OutdatedRows(DAY, 2, 3), OutdatedRows(DAY, 2, 4)],
            id="held again and again",
        ),
        pytest.param(
            [outcome(1), outcome(2, "held"), outcome(3), outcome(5, mode="rebuild")],
            [OutdatedRows(DAY, 0, 5)],
            id="a rebuild replaces all before it",
        ),
        pytest.param(
            [outcome(1), outcome(3, kind="replay"), outcome(4)],
            [OutdatedRows(DAY, 0, 3)],
            id="a replay says anew what stays",
        ),
        pytest.param(
            [outcome(1, quarantined=0), outcome(2, mode="rebuild")], [], id="nothing to replace"
        ),
        pytest.param(
            [outcome(1), outcome(2, "dropped", 0, held_by="a_rule"), outcome(3)],
            [OutdatedRows(DAY, 0, 2, "a_rule")],
            id="rows with a reason were dropped",
        ),
        pytest.param(
            [outcome(2, "abandoned", 0, day=date(2017, 1, 6)), outcome(3)],
            [OutdatedRows(None, 2, 3)],
            id="an abandoned batch, on whichever day",
        ),
        pytest.param(
            [outcome(1), outcome(2, "held"), outcome(3, kind="rewind"), outcome(4, "accepted", 0)],
            [],
            id="a rewind and an acceptance judge nothing",
        ),
        pytest.param(
            [outcome(1, day=date(2017, 1, 6)), outcome(2, mode="rebuild")], [], id="others"
        ),
    ],
)
def test_rows_count_until_their_window_is_judged_again(
    outcomes: list[Entry], expected: list[OutdatedRows]
) -> None:
    assert outdated_rows(outcomes, {DAY}) == expected
