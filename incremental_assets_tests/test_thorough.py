"""What is left to a thorough run is there, and each run tests what it promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.thorough import ALL_COLLECTED, LEFT_TO_ALL, names_left


def all_tests(request: pytest.FixtureRequest) -> list[str]:
    """The ids of all tests; collected again where this run is of some of them, or of all."""
    config = request.config
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and ALL_COLLECTED in config.stash:
        return config.stash[ALL_COLLECTED]
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "incremental_assets_tests"]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split("\n\n")[0].splitlines()


def test_each_name_is_that_of_tests_and_other_tests_hold_their_promise(
    request: pytest.FixtureRequest,
) -> None:
    tests = all_tests(request)

    assert [name for name in names_left() if not any(t.startswith(name) for t in tests)] == []
    run = {test.partition("::")[0] for test in tests if not test.startswith(names_left())}
    for held_by in LEFT_TO_ALL.values():
        for file in held_by.split(":")[0].split(", "):
            assert f"incremental_assets_tests/{file}" in run
