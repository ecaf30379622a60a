"""The examples of the documents, run as they stand: each asserts its own result."""

from __future__ import annotations

import ast
import re
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets import loaders
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.thorough import thorough

DOCS = PROJECT_ROOT / "docs"
PAGES = [
    *sorted((DOCS / "patterns").glob("*.md")),
    *(
        DOCS / f"{name}.md"
        for name in ("loaders", "feeds", "lake-sources", "add-a-source", "add-a-write")
    ),
]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """The Python of a page, each block on the lines that it has there."""
    text = page.read_text()
    return [
        "\n" * (text.count("\n", 0, found.start()) + 1) + found.group(1)
        for found in _BLOCK.finditer(text)
    ]


DEFINED = (
    "loaders/test_examples.py, feeds/test_live_source.py: what these pages import and define "
    "stands, other pages run, and so does a source of one's own"
)
LONG = ("add-a-source", "combining", "feeds", "lake-sources")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=thorough(DEFINED) if page.stem in LONG else ())
        for page in PAGES
    ],
)
def test_the_examples_of_a_page_run_as_they_stand(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "local_session", lambda: spark)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    run(page, *blocks(page))


def test_a_loader_reads_the_source_that_a_page_adds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "local_session", lambda: spark)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = DOCS / "add-a-source.md"
    source, loader, feed = blocks(page)

    run(page, source, loader, _definitions(feed))


def run(page: Path, *examples: str | ast.Module) -> None:
    names: dict[str, object] = {"__name__": "example"}
    for example in examples:
        exec(compile(example, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("name", ["combining", "feeds", "lake-sources"])
def test_what_a_long_page_imports_and_defines_stands(name: str) -> None:
    page = next(page for page in PAGES if page.stem == name)
    run(page, *(_definitions(block) for block in blocks(page)))


def _definitions(block: str) -> ast.Module:
    """What of it needs no Spark: imports, functions, classes, and tables, named in capitals."""
    defines = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(block)
    tree.body = [
        each
        for each in tree.body
        if isinstance(each, defines)
        or (isinstance(each, ast.Assign) and ast.unparse(each.targets[0]).isupper())
    ]
    return tree


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_page_has_an_example_that_asserts_something(page: Path) -> None:
    assert any("assert " in block for block in blocks(page))


def test_every_pattern_has_its_page() -> None:
    names = {page.stem for page in PAGES}

    assert names == {
        *("files", "timestamp", "sequence", "change-log", "snapshot-diff", "combining"),
        *("loaders", "feeds", "lake-sources", "add-a-source", "add-a-write"),
    }
