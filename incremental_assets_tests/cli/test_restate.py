"""Restating what cannot be: one plain sentence, before a run is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.ledger.ledger import Ledger
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import SALES, did


@pytest.mark.parametrize("asked", ["2018-01-05", "2018-01-05...2018-01-07"])
def test_days_that_were_never_loaded_are_told_in_one_sentence(
    command: Command, lake: Ledger, tmp_path: Path, asked: str
) -> None:
    lake.transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])

    done = command("restate", "silver/sales", "--days", asked, "--why", "new code")

    assert done.exit_code == 1
    assert done.stderr == (
        f"Error: silver/sales: {asked} was never loaded, so there is nothing to restate; "
        "`incremental-assets run` loads what is due.\n"
    )
    assert not (tmp_path / ".dagster").exists()


def test_so_is_a_table_that_was_never_loaded(command: Command, lake: Ledger) -> None:
    done = command("restate", "silver/sales", "--why", "new code")

    assert done.exit_code == 1
    assert done.stderr.startswith("Error: silver/sales was never loaded, so there is nothing to")
