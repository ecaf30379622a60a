"""Restating what cannot be: one plain sentence, before a run is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.ledger.ledger import Ledger
from incremental_assets.orchestration import jobs
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did


@pytest.mark.parametrize("asked", ["2018-01-05", "2018-01-05...2018-01-07"])
def test_days_that_were_never_loaded_are_reported_in_one_sentence(
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


@pytest.mark.parametrize(
    "words",
    [
        ("restate", "silver/sales"),
        ("gate", "accept", "silver/sales", "2017-01-05"),
        ("quarantine", "drop", "silver/sales", "--yes"),
        ("watermarks", "rewind", "silver/sales", "--to", "1", "--yes"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
@pytest.mark.parametrize("option", ["--reason", "--why"])
def test_every_command_that_asks_why_takes_either_name_of_the_option(
    command: Command, lake: Ledger, words: tuple[str, ...], option: str
) -> None:
    done = command(*words, option, "two tills were broken")

    assert done.exit_code in (0, 1), done.output
    assert "No such option" not in done.stderr
    assert "Missing option" not in done.stderr


def test_so_is_a_table_that_was_never_loaded(command: Command, lake: Ledger) -> None:
    done = command("restate", "silver/sales", "--why", "new code")

    assert done.exit_code == 1
    assert done.stderr.startswith("Error: silver/sales was never loaded, so there is nothing to")


@pytest.mark.parametrize("asked", [(), ("--days", "2017-01-05")], ids=["all days", "a day"])
@pytest.mark.parametrize("names", [("bronze/events",), ("silver/sales", "bronze/events")])
def test_bronze_is_refused_before_a_run_is_made_whether_or_not_it_was_loaded(
    command: Command, lake: Ledger, tmp_path: Path, names: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    lake.transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])

    done = command("restate", *names, *asked, "--why", "new code")

    assert done.exit_code == 1
    assert done.stderr.startswith("Error: bronze/events: bronze keeps what landed. To load a file")
    assert not (tmp_path / ".dagster").exists()


def test_a_run_works_on_the_lake_that_the_settings_name_now(
    command: Command,
    lake: Ledger,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    lake.transact_on(EVENTS.name, lambda _: [did(EVENTS, 1, 5, touched=[5])])
    lake.transact_on(SALES.name, lambda _: [did(SALES, 1, 5)])
    monkeypatch.setenv(f"{PREFIX}LAKE", str(tmp_path / "another"))
    jobs.restate()  # as another command has before
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)

    done = command("restate", "silver/sales", "--days", "2017-01-05", "--why", "new code")

    assert done.exit_code == 1
    assert "bronze/events has no rows of it any more, and had 1 after batch 1" in done.stderr
