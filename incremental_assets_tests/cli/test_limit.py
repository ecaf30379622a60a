"""--limit: at most so many rows, and 0 for all of them, in every command that has it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from incremental_assets.ledger.ledger import Ledger
from incremental_assets.settings import Settings
from incremental_assets_tests.cli.commands import commands, with_option
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import SALES, did, jan

ROWS = 60
LISTS = with_option("--limit")


@pytest.fixture
def rows(lake: Ledger, settings: Settings) -> int:
    """As many rows in the lists of batches, of watermarks and of rows in quarantine."""
    entries = [did(SALES, batch, 5, read={"bronze/events": batch}) for batch in range(1, ROWS + 1)]
    lake.transact_on(SALES.name, lambda _: [replace(e, rows_quarantined=1) for e in entries])
    quarantined = pl.DataFrame(
        {
            "_batch": [entry.batch for entry in entries],
            "_day": jan(5),
            "row": "{}",
            "reasons": [["broken"]] * ROWS,
            "first_seen": datetime(2017, 1, 31, tzinfo=UTC),
        }
    )
    quarantined.write_delta(f"{settings.lake}/quarantine/silver_sales")
    return ROWS


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("words", [w for w in LISTS if w[0] != "plan"], ids=" ".join)
@pytest.mark.parametrize(("limit", "shown"), [("0", ROWS), ("7", 7), (str(ROWS + 1), ROWS)])
def test_0_is_all_of_them(command: Command, words: tuple[str, ...], limit: str, shown: int) -> None:
    done = command(*words, "--limit", limit, "--json")

    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)) == shown


def test_the_help_says_so_everywhere() -> None:
    helps = [each.help for _, c in commands() for each in c.params if "--limit" in each.opts]

    assert len(LISTS) == len(helps) >= 4
    assert set(helps) == {"Show at most so many rows; 0: all of them."}
