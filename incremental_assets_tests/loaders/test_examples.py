"""The examples of the documents, run as they stand: each asserts its own result."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets import loaders
from incremental_assets.settings import PROJECT_ROOT

DOCS = PROJECT_ROOT / "docs"
PAGES = [
    *sorted((DOCS / "patterns").glob("*.md")),
    *(DOCS / f"{name}.md" for name in ("loaders", "feeds", "lake-sources", "add-a-source")),
]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    """The Python of a page, each block on the lines that it has there."""
    text = page.read_text()
    return [
        "\n" * (text.count("\n", 0, found.start()) + 1) + found.group(1)
        for found in _BLOCK.finditer(text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_examples_of_a_page_run_as_they_stand(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "local_session", lambda: spark)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, object] = {"__name__": "example"}

    for block in blocks(page):
        exec(compile(block, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_page_has_an_example_that_asserts_something(page: Path) -> None:
    assert any("assert " in block for block in blocks(page))


def test_every_pattern_has_its_page() -> None:
    names = {page.stem for page in PAGES}

    assert names == {
        *("files", "timestamp", "sequence", "change-log", "snapshot-diff", "combining"),
        *("loaders", "feeds", "lake-sources", "add-a-source"),
    }
