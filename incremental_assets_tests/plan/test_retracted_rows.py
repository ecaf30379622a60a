"""Which tables keep the rows of retracted files, on which days, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from incremental_assets.ledger.entry import Entry, FileEntry
from incremental_assets.plan.retracted_rows import retracted_rows_stay
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, USERS, did, ledger

WRONG = "events/2017-01-05/wrong.jsonl"
TABLES = (EVENTS, USERS, SALES, MART)
LAST = {EVENTS.name: 3, SALES.name: 1, USERS.name: 1}  # before the file left them


def of_wrong(entry: Entry) -> Entry:
    return replace(entry, files=(FileEntry(WRONG, 1, "tag", ""),))


def sales(batch: int, high: int) -> Entry:
    return did(SALES, batch, 5, touched=[5], read={EVENTS.name: high})


OTHER = did(EVENTS, 1, 5, touched=[5])
LOADED = of_wrong(did(EVENTS, 2, 5, touched=[5]))
HELD = did(EVENTS, 3, 5, state="held")
RETRACTED = of_wrong(did(EVENTS, 4, 5, touched=[5], kind="retract", mode="rebuild"))
MARTED = did(MART, 1, 5, touched=[5], read={SALES.name: 1, USERS.name: 1})
BRONZE = (OTHER, LOADED, HELD, RETRACTED)
IN_BOTH = {5: "bronze/events 2017-01-05 is held since batch 3: … silver/sales, gold/mart"}
IN_SILVER = {5: "bronze/events 2017-01-05 is held since batch 3: … silver/sales"}
IN_GOLD = {5: "silver/users 2017-01-05 is held since batch 2: … gold/mart"}
REWOUND = did(SALES, 2, 5, kind="rewind", read={EVENTS.name: 0})
USERS_HELD = did(USERS, 2, 5, state="held")
PUBLISHED = did(EVENTS, 5, 5, touched=[5])


@pytest.mark.parametrize(
    ("table", "entries", "expected"),
    [
        pytest.param(SALES, (*BRONZE, sales(1, 2), MARTED), IN_BOTH, id="held"),
        pytest.param(SALES, (*BRONZE, sales(1, 2)), IN_SILVER, id="not in gold yet"),
        pytest.param(SALES, (*BRONZE, sales(1, 2), REWOUND), IN_SILVER, id="rewound: still there"),
        pytest.param(MART, (*BRONZE, sales(1, 2), MARTED), {}, id="gold is named with silver"),
        pytest.param(SALES, (*BRONZE, sales(1, 2), PUBLISHED), {}, id="the hold has ended"),
        pytest.param(SALES, (*BRONZE, sales(1, 1)), {}, id="never read"),
        pytest.param(SALES, (*BRONZE, sales(1, 2), sales(2, 4)), {}, id="left before"),
        pytest.param(SALES, BRONZE, {}, id="never loaded"),
        pytest.param(
            MART,
            (OTHER, LOADED, RETRACTED, sales(1, 2), sales(2, 4), USERS_HELD, MARTED),
            IN_GOLD,
            id="held by another upstream",
        ),
        pytest.param(
            MART,
            (OTHER, LOADED, RETRACTED, sales(1, 2), USERS_HELD, MARTED),
            {},
            id="held by another upstream, and silver is as it was",
        ),
    ],
)
def test_a_day_keeps_the_rows_of_retracted_files_until_the_hold_of_an_upstream_ends(
    table: Table, entries: tuple[Entry, ...], expected: Mapping[int, str]
) -> None:
    view = ledger(*entries)

    found = retracted_rows_stay(table, {EVENTS.name: {WRONG}}, LAST.__getitem__, TABLES, view)

    assert [day.day for day in found] == list(expected)
    for day, why in found.items():
        held, _, names = expected[day.day].partition("… ")
        assert why.startswith(held)
        assert why.endswith(f"; until then the retracted rows stay in {names}")
