"""Tests that are left to a thorough run, `make test-all`; a pytest plugin of `make test`, without them.

A test is left to it where other tests, of each run, hold the same promise: a further seed, a further
pair of a detector and a write, the same story once more through processes that are killed. What a
new test promises is tested in each run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent


def thorough(held_by: str) -> pytest.MarkDecorator:
    """Mark a test, a parameter or a module (`pytestmark`) that is left to a thorough run.

    `held_by` names the files whose tests, of each run, hold the same promise, and how:
    "feeds/test_keys.py, feeds/test_late.py: another seed".
    """
    return pytest.mark.thorough(held_by)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is left to a thorough run, if each run of the whole holds its promise."""
    left = {item.nodeid: held_by for item in items if (held_by := _held_by(item))}
    run = [item for item in items if item.nodeid not in left]
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        files = {str(item.path.relative_to(TESTS)) for item in run}
        for test, held_by in left.items():
            for file in held_by.partition(":")[0].split(", "):
                if file not in files:
                    raise pytest.UsageError(f"{test}: no test of each run is in {file!r}")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
    items[:] = run


def _held_by(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("thorough")
    return str(marker.args[0]) if marker is not None else None
