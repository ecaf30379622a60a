"""A lake that is not there: a path with a typo must not look like a lake without rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from incremental_assets.ledger.ledger import Ledger
from incremental_assets.settings import Settings
from incremental_assets_tests.cli.commands import commands, needed
from incremental_assets_tests.cli.conftest import Command

MAY_START_FROM_NOTHING = ("connect", "plan", "run", "setup", "demo land", "demo repair")
NEED_A_LAKE = [
    (*name.split(), *needed(each))
    for name, each in commands()
    if name not in MAY_START_FROM_NOTHING
]


@pytest.mark.parametrize("words", NEED_A_LAKE, ids=" ".join)
def test_a_command_that_needs_a_lake_says_that_there_is_none_and_makes_none(
    command: Command, settings: Settings, words: tuple[str, ...]
) -> None:
    done = command(*words)

    assert done.exit_code == (2 if words[0] == "verify" else 1), done.output
    assert f"There is no lake at {settings.lake}: it has no ledger" in done.stderr
    assert not done.stdout
    assert not Path(settings.lake).exists()


def test_a_fresh_project_may_be_planned(command: Command, settings: Settings) -> None:
    Path(settings.landing, "events").mkdir()

    done = command("plan", "bronze/events")

    assert (done.exit_code, done.stdout) == (0, "Nothing is new or stale.\n"), done.output
    assert not Path(settings.lake).exists()


def test_a_lake_without_loads_has_nothing_to_show(command: Command, lake: Ledger) -> None:
    assert command("stale").stdout == "Stale: nothing.\n"
    assert command("batches").stdout == "Batches, newest first: nothing.\n"
    assert command("quarantine", "list").stdout == "In quarantine: nothing.\n"


@pytest.mark.parametrize("place", ["silver/sales", "quarantine/silver_sales"])
def test_a_lake_whose_ledger_was_lost_has_its_ledger_rebuilt(
    command: Command, lake: Ledger, settings: Settings, place: str
) -> None:
    pl.DataFrame({"_batch": [1], "_day": ["2017-01-05"]}).write_delta(f"{settings.lake}/{place}")
    shutil.rmtree(lake.path)

    lost = command("batches")
    made = command("ledger", "rebuild", "silver/users", "--yes")

    assert "`incremental-assets ledger rebuild` rebuilds it" in lost.stderr
    assert made.exit_code == 0, made.output
    assert command("batches").exit_code == 0
