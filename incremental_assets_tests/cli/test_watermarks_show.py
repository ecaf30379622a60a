"""`watermarks show` has a watermark for each table, of whatever kind it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from incremental_assets.ledger.entry import Window
from incremental_assets.ledger.ledger import Ledger
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did


@pytest.mark.parametrize(
    ("entries", "name", "watermark"),
    [
        ([did(EVENTS, 1, 5), did(EVENTS, 2, 3)], EVENTS.name, "landing day 2017-01-05"),
        (
            [
                replace(did(SALES, 1, 5), windows=(Window("bronze/events", 0, 4),)),
                replace(did(SALES, 2, 6), windows=(Window("bronze/events", 2, 3),)),
            ],
            SALES.name,
            "bronze/events batch 4",
        ),
        ([replace(did(EVENTS, 1, 5), high="1234")], EVENTS.name, "1234"),
        (
            [did(EVENTS, 1, 5), did(EVENTS, 2, 5, kind="rewind"), did(EVENTS, 3, 3)],
            EVENTS.name,
            "landing day 2017-01-03",
        ),
        ([], SALES.name, ""),
    ],
    ids=["landed files", "batches of an upstream", "a cursor", "a day rewound", "never loaded"],
)
def test_each_table_has_a_watermark(
    lake: Ledger, command: Command, entries: list[object], name: str, watermark: str
) -> None:
    for entry in entries:
        lake.transact_on(name, lambda _, e=entry: [e])  # type: ignore[misc]

    (row,) = json.loads(command("watermarks", "show", name, "--json").stdout)

    assert row["watermark"] == watermark
