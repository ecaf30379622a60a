"""The lake of a test: rows land, days are loaded, and what came of them is read."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest

from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.retail.bronze.events import EVENTS
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.testing import Lake, assert_rows_equal
from incremental_assets_tests.scenarios.world import sale, sales

DAY = date(2017, 1, 5)


def test_rows_land_are_loaded_and_are_read(lake: Lake) -> None:
    lake.land("events", DAY, [*sales("a", "2017-01-05", 30), sale(None, "2017-01-05")])
    lake.land("events", DAY, [sale("b", "2017-01-05", unit_price=Decimal("1.25"), event_ts=DAY)])

    results = lake.load(SALES, DAY)

    assert list(results) == ["bronze/events", "silver/sales"]
    assert_rows_equal(
        lake.rows(SALES, "dt", "order_id", "unit_price"),
        [
            *({"dt": DAY, "order_id": f"a{n}", "unit_price": 2.5} for n in range(30)),
            {"dt": DAY, "order_id": "b", "unit_price": Decimal("1.25")},
        ],
    )
    (broken,) = lake.quarantined(SALES).iter_rows(named=True)
    assert broken["reasons"] == ["order_id_not_null"]
    payloads = lake.rows(EVENTS, "payload")["payload"]
    assert sum(json.loads(text).get("order_id") == "b" for text in payloads) == 1
    assert not any(name.startswith("_") for name in lake.rows(SALES).columns)


def test_a_file_that_lands_again_is_repaired_and_late_rows_reach_their_day(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*sales("a", "2017-01-05", 30), sale(None, "2017-01-05")]
    lake.land("events", "2017-01-05", rows, file="a.jsonl")
    lake.load(SALES, "2017-01-05")
    assert len(lake.quarantined(SALES)) == 1
    # As if the load were killed once it is recorded: the outdated row stays, and does not count.
    monkeypatch.setattr(Quarantine, "remove_outdated", lambda *_: None)
    lake.land("events", "2017-01-05", sales("a", "2017-01-05", 1), file="a.jsonl")
    lake.land("events", "2017-01-06", [sale("late", "2017-01-05")])

    lake.run(SALES)

    assert sorted(lake.rows(SALES)["order_id"]) == ["a0", "late"]
    assert lake.quarantined(SALES).is_empty()


def test_a_copy_holds_the_same_and_is_loaded_by_itself(lake: Lake) -> None:
    lake.land("events", "2017-01-05", sales("a", "2017-01-05", 2))
    lake.load(EVENTS, "2017-01-05")
    lake.land("events", "2017-01-06", sales("b", "2017-01-06", 1))

    copy = lake.copy()
    copy.run(EVENTS)

    assert (len(lake.rows(EVENTS)), len(copy.rows(EVENTS))) == (2, 3)


def test_a_table_that_was_never_loaded_has_no_rows(lake: Lake) -> None:
    assert lake.rows(SALES, "order_id").is_empty()
    assert lake.quarantined(SALES).is_empty()


def test_a_held_day_is_in_the_results(lake: Lake) -> None:
    lake.land("events", "2017-01-05", [sale(None, "2017-01-05")])

    results = lake.load(SALES, "2017-01-05")

    (held,) = results["silver/sales"].failed.values()
    assert "quarantined" in held.reason
