"""The tests that docs/testing.md shows, of the tables that docs/add-a-table.md shows."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deltalake import DeltaTable

from incremental_assets import loaders
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.testing import Lake, any_order
from incremental_assets_tests.pages import written
from incremental_assets_tests.thorough import thorough

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
def test_a_test_of_the_page_passes(
    page: ModuleType, lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(any_order, "orders", one_order)
    getattr(page, name)(lake)


@thorough("testing/test_page.py, testing/test_any_order.py: in one order")
def test_the_returns_of_the_page_end_the_same_in_all_orders(page: ModuleType, lake: Lake) -> None:
    page.test_returns_end_the_same_in_any_order(lake)


def one_order(batches: int, most: int, seed: int) -> list[tuple[int, ...]]:
    """The batches backwards, and one of them again: of the orders that a table must bear the hardest."""
    del most, seed
    return [(*reversed(range(batches)), batches - 1)]


def test_a_table_is_read_as_docs_read_the_lake_shows(
    page: ModuleType, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "local_session", lambda: lake.spark)
    lake.land("returns", "2017-01-05", [page.a_return("a", "2017-01-05", qty=2)])
    lake.load(page.RETURNS, "2017-01-05")
    text = (PROJECT_ROOT / "docs/read-the-lake.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    read: dict[str, Any] = {}

    for block in blocks:
        if "duckdb" not in block:  # not among the requirements
            exec(block.replace('"lake/', f'"{lake.settings.lake}/'), read)

    columns = ["dt", "return_id", "qty", "returned_at", "updated_at"]
    assert read["day"].columns == read["returns"].columns == columns
    assert len(read["day"]) == read["landed"].count() == 1
    versions = {
        name: DeltaTable(f"{lake.settings.lake}/{name}/returns").protocol()
        for name in ("bronze", "silver")
    }
    silver, bronze = versions["silver"], versions["bronze"]
    assert (silver.min_reader_version, silver.min_writer_version) == (1, 2)
    assert (bronze.min_reader_version, bronze.min_writer_version) == (3, 7)
    assert bronze.reader_features == ["variantType"]


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
