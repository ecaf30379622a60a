"""A command that finds nothing to do says what lies in the landing root and is read by no table."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.settings import Settings
from incremental_assets_tests.cli.conftest import Command


@pytest.mark.parametrize("words", ["plan", "run"])
def test_a_command_that_finds_nothing_to_do_says_what_nobody_reads(
    settings: Settings, command: Command, words: str
) -> None:
    file = Path(settings.landing) / "events/dt=2024-01-01/a.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")

    done = command(words)

    assert done.exit_code == 0
    assert "Nothing is new or stale." in done.stdout
    assert "bronze/events does not read dt=2024-01-01 in" in done.output
