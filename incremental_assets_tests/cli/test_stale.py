"""`stale`: a program gets the held days where it asks for them, and the rows of before where not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from incremental_assets.ledger.ledger import Ledger
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did

BY = "quarantined_share: 6 % of the rows"


@pytest.fixture
def held(lake: Ledger) -> None:
    """One day of silver is stale, and another one is held."""
    held = replace(did(SALES, 1, 6, state="held"), held_by=BY)
    for entry in (did(EVENTS, 1, 5, touched=[5]), held):
        lake.transact_on(entry.table, lambda _, e=entry: [e])  # type: ignore[misc]


def test_stale_days_alone_are_rows_of_table_day_and_why(held: None, command: Command) -> None:
    (row,) = json.loads(command("stale", "silver/sales", "--json").stdout)

    assert list(row) == ["table", "day", "why"]
    assert (row["table"], row["day"]) == ("silver/sales", "2017-01-05")


def test_with_held_also_the_held_days_are_rows(held: None, command: Command) -> None:
    stale, held_row = json.loads(command("stale", "silver/sales", "--held", "--json").stdout)

    assert (stale["day"], stale["state"], stale["waiting"]) == ("2017-01-05", "stale", [])
    assert held_row["waiting"][0] == "gold/sales_mart"
    del held_row["waiting"]
    assert held_row == {"table": "silver/sales", "day": "2017-01-06", "why": BY, "state": "held"}


def test_a_person_sees_the_state_in_the_table(held: None, command: Command) -> None:
    shown = command("stale", "silver/sales", "--held").stdout.splitlines()

    assert shown[0] == "Stale or held"
    assert [line.split()[-1] for line in shown[3:5]] == ["stale", "held"]
    assert shown[5].startswith("- silver/sales 2017-01-06 is held since batch 1")
