"""The documentation names files, commands and sections that are there."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.big_picture import PICTURE, kept, svg
from incremental_assets.catalog import tables
from incremental_assets.settings import PROJECT_ROOT

PAGES = [
    *(PROJECT_ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((PROJECT_ROOT / "docs").rglob("*.md")),
]
_PYTHON_FILE = re.compile(r"`([a-z_][\w/]*/\w+\.py)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
# The package of the reader, and its tests, in examples.
_OF_A_READER = ("shop/", "tests/")
_ROOTS = (PROJECT_ROOT, PROJECT_ROOT / "incremental_assets")


# What the glossary replaces by another word, where the word alone shows that it is meant so.
_NOT_USED = re.compile(
    r"\b(judg(e|es|ed|ing) again|(tell|tells|told|telling) (\w+ ){0,4}apart|anew|stands? on|"
    r"(set|sets|setting) aside|dead letters?|doomed|upkeep|housekeeping|delete markers?|"
    r"bookmarks?|carried over|full cop(y|ies)|words? of a person|control files?|ByDay|on_new|"
    r"most_deleted|(definition|contract|setting|manifest|schema|layout|path|log)s? says?)\b",
    re.IGNORECASE,
)
_GLOSSARY = PROJECT_ROOT / "docs/glossary.md"


def _text(page: Path) -> str:
    """A page without the code that it shows."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> Iterator[str]:
    """The names by which a page's sections are linked, as GitHub makes them."""
    for line in _text(page).splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            yield re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_files_that_are_there(page: Path) -> None:
    named = [n for n in _PYTHON_FILE.findall(_text(page)) if not n.startswith(_OF_A_READER)]

    missing = [name for name in named if not any((root / name).exists() for root in _ROOTS)]

    assert not missing, f"{page.name} names files that are not there: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_to_pages_and_sections_that_are_there(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_text(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in set(_anchors(target))):
            broken.append(link)

    assert not broken, f"{page.name} has links that lead nowhere: {broken}"


def _not_used(text: str) -> list[str]:
    return [found[0] for found in _NOT_USED.finditer(" ".join(re.split(r"[\s#\"]+", text)))]


def test_words_that_the_glossary_replaces_are_not_used() -> None:
    files = [*sorted((PROJECT_ROOT / "incremental_assets").rglob("*.py")), *PAGES]
    found = {str(f): _not_used(f.read_text("utf-8")) for f in files if f != _GLOSSARY}

    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "text",
    [
        *("rows are judged again", "to tell the two\n    # tables apart", "it is made anew"),
        *('as the "\n    "log says', "the paths say it", "reads=ByDay(EVENTS)"),
    ],
)
def test_such_a_word_is_found_across_lines(text: str) -> None:
    assert len(_not_used(text)) == 1


def test_the_path_of_a_row_takes_about_fifteen_files() -> None:
    page = (PROJECT_ROOT / "docs/how-a-load-works.md").read_text("utf-8")
    section = page.split("## The path of a row, file by file")[1].split("\n## ")[0]

    files = re.findall(r"^\| [^|]*\| `([\w/]+\.py)` \|", section, flags=re.MULTILINE)

    assert 12 <= len(files) <= 18


def test_the_picture_of_the_tables_is_drawn_from_their_definitions() -> None:
    drawn = runpy.run_path(str(PROJECT_ROOT / "scripts/draw_data_flow.py"))["svg"]()

    assert (PROJECT_ROOT / "docs/data-flow.svg").read_text("utf-8") == drawn, (
        "run scripts/draw_data_flow.py"
    )
    assert all(f">{table.name}<" in drawn for table in tables())


def test_the_picture_of_a_big_day_is_drawn_from_its_figures() -> None:
    assert PICTURE.read_text("utf-8") == svg(kept()), "run python -m benchmarks.big_picture"


def test_the_pictures_are_those_that_the_browser_test_takes_and_each_is_shown() -> None:
    test = (PROJECT_ROOT / "incremental_assets_tests/end_to_end/test_browser.py").read_text("utf-8")
    taken = set(re.findall(r"\.picture\(\s*\"([\w-]+)\"", test))
    shown = {name for page in PAGES for name in re.findall(r"/([\w-]+)\.png\)", _text(page))}
    kept = {file.stem for file in (PROJECT_ROOT / "docs/pictures").glob("*.png")}

    assert taken == kept == shown, "run `make pictures`, and look at them"
