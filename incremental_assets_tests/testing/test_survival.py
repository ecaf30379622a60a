"""A load that is killed after each of its writes, and what is said where that changes its end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from incremental_assets.quality.rules import row_count
from incremental_assets.retail.bronze.events import EVENTS
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.testing import Lake, assert_survives
from incremental_assets_tests.scenarios.world import sale, sales

SCHEMA = Schema([Field("id", PrimitiveType("long"))])


def test_the_rows_that_a_killed_load_ends_with_are_named(lake: Lake) -> None:
    def lands_anew(lake: Lake) -> None:
        started = len(list(Path(lake.settings.landing).rglob("*.jsonl")))
        lake.land("events", "2017-01-05", [sale(f"of attempt {started + 1}", "2017-01-05")])
        lake.load(EVENTS, "2017-01-05")

    with pytest.raises(AssertionError) as raised:
        assert_survives(lake, lands_anew)

    said = str(raised.value)
    assert re.match(r"bronze/events differs after a load that was killed \d+ times", said)
    assert '"order_id":"of attempt 2"' in said
    assert '"order_id":"of attempt 1"' not in said


def test_a_load_that_writes_nothing_survives_nothing(lake: Lake) -> None:
    with pytest.raises(AssertionError, match="wrote nothing"):
        assert_survives(lake, lambda lake: lake.rows(SALES))


def test_a_load_of_no_table_of_the_lake_survives_nothing(lake: Lake) -> None:
    def written(lake: Lake) -> None:
        DeltaTable.create(f"{lake.settings.lake}/target", SCHEMA, mode="overwrite")

    with pytest.raises(AssertionError, match="loaded no table of the lake"):
        assert_survives(lake, written)


def test_a_load_without_a_row_survives_nothing(lake: Lake) -> None:
    lake.land("events", "2017-01-05", [])
    may_be_empty = replace(EVENTS, rules=())

    with pytest.raises(AssertionError, match=r"read no row, .* \(bronze/events 2017-01-05\)"):
        assert_survives(lake, lambda lake: lake.load(may_be_empty, "2017-01-05"))


def test_a_load_that_only_holds_its_day_survives_nothing(lake: Lake) -> None:
    held = replace(SALES, rules=(*SALES.rules, row_count(at_most=1)))
    lake.land("events", "2017-01-05", sales("a", "2017-01-05", 2))

    with pytest.raises(AssertionError) as raised:
        assert_survives(lake, lambda lake: lake.load(held, "2017-01-05"))

    said = str(raised.value)
    assert said.startswith("silver/sales: the load undisturbed only held 2017-01-05")
    assert "What the load logged: bronze/events: " in said
