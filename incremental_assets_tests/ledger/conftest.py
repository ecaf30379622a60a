"""A ledger of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.ledger.ledger import Ledger, ledger_path


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(ledger_path(str(tmp_path)))


@pytest.fixture
def other(tmp_path: Path) -> Ledger:
    """The same ledger, as another process has it."""
    return Ledger(ledger_path(str(tmp_path)))
