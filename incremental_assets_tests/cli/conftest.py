"""The command line in this process, over a lake and a landing of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from incremental_assets.cli import main
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.settings import PREFIX, Settings

Command = Callable[..., Result]


@pytest.fixture
def command(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `incremental-assets` with these words; its status is `exit_code`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(main, words)


@pytest.fixture
def lake(settings: Settings) -> Ledger:
    """The ledger of a lake into which nothing was loaded yet."""
    made = Ledger(ledger_path(settings.lake))
    made.view()
    return made
