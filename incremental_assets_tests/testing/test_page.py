"""The tests that docs/testing.md shows, of the tables that docs/add-a-table.md shows."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.testing import Lake
from incremental_assets_tests.pages import written

TESTS = (
    "test_pieces_are_counted_on_the_day_they_came_back",
    "test_the_later_version_of_a_return_wins",
    "test_a_negative_quantity_goes_to_quarantine",
    "test_a_day_with_too_many_bad_rows_is_held",
    "test_returns_end_the_same_in_any_order",
    "test_a_load_may_be_killed_anywhere",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of the reader's, with the files of both pages."""
    folder = tmp_path_factory.mktemp("theirs")
    written("add-a-table", folder)
    written("testing", folder)
    return folder


@pytest.fixture(scope="module")
def page(project: Path) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as path:
        path.syspath_prepend(str(project / "tests"))
        path.syspath_prepend(str(project))
        yield importlib.import_module("test_returns")
    for name in [n for n in sys.modules if n.partition(".")[0] in ("shop", "test_returns")]:
        del sys.modules[name]


def test_the_page_has_these_tests(page: ModuleType) -> None:
    assert tuple(name for name in vars(page) if name.startswith("test_")) == TESTS


@pytest.mark.parametrize("name", TESTS)
def test_a_test_of_the_page_passes(page: ModuleType, lake: Lake, name: str) -> None:
    getattr(page, name)(lake)


def test_the_plugin_gives_a_project_its_fixtures(project: Path) -> None:
    words = ("-m", "pytest", "--fixtures", "-p", "no:cacheprovider", "tests")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env=os.environ | {"PYTHONPATH": f"{project}{os.pathsep}{PROJECT_ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "incremental_assets.testing" in done.stdout
    assert "An empty lake and an empty landing" in done.stdout
