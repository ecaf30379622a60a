"""A rebuild by key leaves what other days have published, also where bronze has it no more.

The rows of a repaired file carry the batch of the repair. As long as nobody has judged them, or
their day is held, what the day shows is found in the table alone.
"""

from __future__ import annotations

import shutil

import pytest

from incremental_assets.days import parse_days
from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.delta.side_table import SIDE_COLUMNS
from incremental_assets.operations.rebuild_ledger import rebuild_ledger
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_gate_of_other_days import (
    FIRST,
    KINDS,
    LAST,
    MIDDLE,
    SILVER,
    STRICT,
    Kind,
    row,
    versions,
)
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

ORDERS, VERSIONS, LOG = (
    next(kind for kind in KINDS if kind.name == name)
    for name in ("orders", "versions", "a log, merged")
)
MERGED = thorough("feeds/test_days_as_shown.py: a log, merged, and versions")


def three_days(lake: Lakes, kind: Kind) -> Lake:
    stock = lake(*kind.tables(STRICT))
    for n, day in enumerate((FIRST, MIDDLE, LAST), start=1):
        stock.land("stock", day, "1.jsonl", [row(n)])
    stock.load(f"{FIRST}...{LAST}")
    assert versions(stock) == kind.visible(1, 2, 3)
    return stock


@pytest.mark.parametrize(
    "kind",
    [pytest.param(ORDERS, marks=MERGED), pytest.param(VERSIONS, marks=MERGED), LOG],
    ids=lambda kind: kind.name,
)
def test_a_day_whose_repaired_file_is_held_keeps_what_it_shows(lake: Lakes, kind: Kind) -> None:
    stock = lake.copy_of(three_days, kind)
    stock.land("stock", LAST, "1.jsonl", [row(3), row(30, amount=-1)])
    assert states(stock.load(LAST), SILVER) == ["held"]

    stock.lakehouse.restate(stock.tables[SILVER], list(parse_days(MIDDLE)), "a test")

    assert versions(stock) == kind.visible(1, 2, 3)


@pytest.mark.parametrize(
    "kind", [pytest.param(ORDERS, marks=MERGED), VERSIONS], ids=lambda kind: kind.name
)
@thorough("feeds/test_rebuild_ledger.py: a ledger that is rebuilt")
def test_a_ledger_made_from_the_logs_loses_no_held_day(lake: Lakes, kind: Kind) -> None:
    stock = lake.copy_of(three_days, kind)
    stock.land("stock", LAST, "2.jsonl", [row(30, amount=-1)])
    assert states(stock.load(LAST), SILVER) == ["held"]
    shutil.rmtree(stock.path("_ledger"))
    stock = stock.with_tables(*stock.tables.values())
    rebuild_ledger(stock.lakehouse, list(stock.tables.values()))

    stock.load(f"{FIRST}...{LAST}")
    assert versions(stock) == kind.visible(1, 2, 3)

    stock.lakehouse.restate(stock.tables[SILVER], list(parse_days(MIDDLE)), "a test")
    assert versions(stock) == kind.visible(1, 2, 3)


def test_a_side_table_that_was_left_half_made_does_not_block_a_rebuild(lake: Lakes) -> None:
    stock = lake.copy_of(three_days, VERSIONS)
    side_table = f"{stock.path(SILVER)}/_beside"
    shutil.rmtree(side_table, ignore_errors=True)
    ensure_table(side_table, f"beside {SILVER}", SIDE_COLUMNS, ())
    stock.land("stock", MIDDLE, "1.jsonl", [row(2), row(20, id_="j")])

    assert states(stock.load(MIDDLE), SILVER) == ["committed"]

    assert versions(stock, "j") == [20]
