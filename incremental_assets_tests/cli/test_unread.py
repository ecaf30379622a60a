"""`plan` and `run` say what lies in the landing root and is read by no table."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from incremental_assets.days import DayRange
from incremental_assets.operations.run_report import Ran, RunReport
from incremental_assets.orchestration import runs
from incremental_assets.plan.due import Due
from incremental_assets.settings import Settings
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.plan.ledgers import EVENTS

FIFTH = DayRange(date(2017, 1, 5), date(2017, 1, 5))


def land(settings: Settings, *paths: str) -> None:
    for path in paths:
        file = Path(settings.landing) / path
        file.parent.mkdir(parents=True)
        file.write_text("{}\n")


@pytest.mark.parametrize("words", ["plan", "run"])
def test_a_command_that_finds_nothing_to_do_says_what_nobody_reads(
    settings: Settings, command: Command, words: str
) -> None:
    land(settings, "events/dt=2024-01-01/a.jsonl")

    done = command(words)

    assert done.exit_code == 0
    assert "Nothing is new or stale." in done.stdout
    assert "bronze/events does not read dt=2024-01-01 in" in done.output


def test_a_run_that_loaded_other_things_says_so_too(
    settings: Settings, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(settings, "events/dt=2024-01-01/a.jsonl", "payments/2017-01-05/a.jsonl")
    ran = Ran("a run", Due((EVENTS,), FIFTH, "1 new file"), success=True)
    monkeypatch.setattr(runs, "run_what_is_due", lambda *_: RunReport(runs=[ran]))

    done = command("run")

    assert done.exit_code == 0
    assert "Nothing is new" not in done.output
    notes = [line for line in done.stderr.splitlines() if line.startswith("- ")]
    assert [note.partition(" in ")[0] for note in notes] == [
        "- No table reads payments",
        "- bronze/events does not read dt=2024-01-01",
    ]
