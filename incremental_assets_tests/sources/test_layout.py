"""Layouts: which paths below a feed are of which landing day, with and without a listing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.file_identity import FileLike
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.layout import Layout
from incremental_assets.sources.loaded_files import LoadedFiles
from incremental_assets.sources.stored import fixed_at
from incremental_assets.sources.stored_files import FeedFormat

FIRST, SECOND = date(2024, 5, 1), date(2024, 5, 2)

# Per layout: paths of the first day, paths of the second one, and paths that are nobody's.
LAYOUTS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "%Y-%m-%d/": (
        ["2024-05-01/a.json", "2024-05-01/deep/b.json"],
        ["2024-05-02/a.json"],
        ["2024-05-1/a.json", "2024-02-30/a.json", "read-me.txt", "2024-05-01x/a.json"],
    ),
    "dt=%Y-%m-%d/": (["dt=2024-05-01/a.json"], ["dt=2024-05-02/a.json"], ["2024-05-01/a.json"]),
    "%Y/%m/%d/": (
        ["2024/05/01/a.json"],
        ["2024/05/02/a.json"],
        ["2024/05/x/a.json", "2024/13/01/a.json", "24/05/01/a.json"],
    ),
    "%Y-%m-%d/%H/": (
        ["2024-05-01/00/a.json", "2024-05-01/23/a.json"],
        ["2024-05-02/07/a.json"],
        ["2024-05-01/noon/a.json"],
    ),
    "region=*/%Y%m%d/": (
        ["region=north/20240501/a.json", "region=south/20240501/a.json"],
        ["region=north/20240502/a.json"],
        ["20240501/a.json"],
    ),
    "sales_%Y%m%d*.csv": (
        ["sales_20240501.csv", "sales_20240501_2.csv", "sales_20240501_dir.csv/part-0"],
        ["sales_20240502.csv"],
        ["sales_20240501.csv.tmp", "returns_20240501.csv"],
    ),
    "%Y/%m/*_%d.json": (
        ["2024/05/shop_01.json"],
        ["2024/05/shop_02.json", "2024/05/other_02.json"],
        ["2024/05/shop_99.json"],
    ),
}


def put(root: Path, *paths: str) -> None:
    for path in paths:
        (root / "sales" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "sales" / path).write_text("{}\n")


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_each_path_of_a_layout_is_of_its_day_and_no_other_path_is(layout: str) -> None:
    first, second, others = LAYOUTS[layout]
    day_of = LandedFiles("sales", layout=layout).day_of

    assert [day_of(f"sales/{path}") for path in first] == [FIRST] * len(first)
    assert [day_of(f"sales/{path}") for path in second] == [SECOND] * len(second)
    assert [day_of(f"sales/{path}") for path in others] == [None] * len(others)
    assert day_of(f"returns/{first[0]}") is None
    assert day_of(f"sales/{first[0]}".replace("a.json", "_a.json")) in (None, FIRST)


def test_a_landing_is_listed_by_its_days_on_a_disk_and_in_a_store(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, others = LAYOUTS[layout]
    put(tmp_path, *first, *second, *others, ".hidden/a.json", "_tmp/20240501/a.json")
    feed = LandedFiles("sales", layout=layout)
    wanted = {FIRST: [f"sales/{p}" for p in sorted(first)], SECOND: [f"sales/{p}" for p in second]}
    wanted[SECOND].sort()
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs.clear()
    for path in (*first, *second, *others, "_tmp/20240501/a.json"):
        store.pipe_file(f"/landing/sales/{path}", b"{}\n")

    for landing in (str(tmp_path), "memory://landing"):
        assert feed.days(landing) == [FIRST, SECOND], landing
        found = feed.by_day(landing, [FIRST, SECOND])
        assert {d: [f.path for f in files] for d, files in found.items()} == wanted, landing
        assert [f.path for f in feed.files(landing, SECOND)] == wanted[SECOND], landing
        assert feed.files(landing, date(2024, 5, 3)) == []
        for passed in feed.passed_over(landing):
            assert any(path.startswith(passed) for path in others), (landing, passed)
        assert feed.passed_over(landing)


WRONG = {
    "": "names are of letters",
    "/": "names are of letters",
    "%Y-%m/": "it has %d 0 times",
    "%Y-%m-%d/%d/": "it has %d 2 times",
    "%Y-%j/": "%j is none of",
    "%y-%m-%d/": "%y is none of",
    "../%Y-%m-%d/": "names are of letters",
    "/%Y-%m-%d/": "names are of letters",
    "%Y-%m-%d//": "names are of letters",
    "_x/%Y-%m-%d/": "names are of letters",
    "%Y-%m-%d/%H/%H/": "it has %H more than once",
    "%Y-%m-%d`/": "names are of letters",
    "%Y-%m-%d%": "% is none of",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_layout_that_names_no_day_or_leaves_the_feed_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError, match="Layout") as refused:
        LandedFiles("sales", layout=text)
    assert WRONG[text] in str(refused.value)


@dataclass(frozen=True)
class Loaded(LoadedFiles):
    """Files that were loaded on these days, whatever they were."""

    days: dict[str, date]

    def files(self, day: date, /) -> Mapping[str, FileLike]:
        return {}

    def landing_days(self) -> Mapping[str, date]:
        return self.days


@pytest.mark.parametrize("text", ["*", "*.json", "till*/"])
def test_a_file_whose_path_says_no_day_is_of_the_day_on_which_it_came_first(
    tmp_path: Path, text: str
) -> None:
    folder = "till1/" if text.endswith("/") else ""
    put(tmp_path, f"{folder}a.json", f"{folder}b.json", f"{folder}_c.json", ".d.json")
    for name, day in (("a", 1), ("b", 2)):
        moment = datetime(2024, 5, day, 23, 59, tzinfo=UTC).timestamp()
        os.utime(tmp_path / f"sales/{folder}{name}.json", (moment, moment))
    feed, landing = LandedFiles("sales", layout=text), str(tmp_path)

    def paths(loaded: dict[str, date]) -> list[list[str]]:
        found = feed.by_day(landing, [FIRST, SECOND], Loaded(loaded))
        return [[f.path for f in found[day]] for day in (FIRST, SECOND)]

    a, b = f"sales/{folder}a.json", f"sales/{folder}b.json"
    assert feed.days(landing) == [FIRST, SECOND]
    assert paths({}) == [[a], [b]]
    assert paths({b: FIRST}) == [[a, b], []]
    assert feed.days(landing, Loaded({b: FIRST})) == [FIRST]
    assert feed.day_of(b, Loaded({b: FIRST})) == FIRST
    assert feed.day_of(b) is None


REFUSED: dict[str, dict[str, Any]] = {
    "The format of feed sales is": {"format": "excel"},
    "did you mean parquet?": {"format": "parqet"},
    "'csv', Csv(…) or Xml(…), not 'excel'": {"format": "excel"},
    "'zip' is how files are packed; name the format of what is in them": {"format": "zip"},
    "the marker 'a/b'": {"marker": "a/b"},
    "the marker 'DONE'": {"marker": "DONE", "layout": "%Y%m%d.csv"},
    "quiet_for is datetime": {"quiet_for": timedelta(seconds=-1)},
    "quiet_for is 5": {"quiet_for": 5},
    "the layout is a text": {"layout": None},
    "the marker '..'": {"marker": ".."},
    "the manifest 'a/*'": {"manifest": "a/*"},
    "the manifest '*'": {"manifest": "*"},
    "the manifest 'm.json'": {"manifest": "m.json", "layout": "*.csv"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_feed_with_a_wrong_option_is_refused(message: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        LandedFiles("sales", **REFUSED[message])
    assert message in str(refused.value)


@pytest.mark.parametrize("marker", ["_SUCCESS", "DONE"])
def test_a_folder_is_read_once_its_marker_is_there(tmp_path: Path, marker: str) -> None:
    put(tmp_path, "2024-05-01/00/a.json", "2024-05-01/01/a.json", f"2024-05-01/01/{marker}")
    put(tmp_path, "2024-05-02/00/deep/a.json", f"2024-05-02/00/deep/{marker}")
    feed = LandedFiles("sales", layout="%Y-%m-%d/%H/", marker=marker)

    waits = f"there is no {marker} in its folder"
    found = feed.by_day(str(tmp_path), [FIRST, SECOND])
    assert [(f.path, f.waits) for files in found.values() for f in files] == [
        ("sales/2024-05-01/00/a.json", waits),
        ("sales/2024-05-01/01/a.json", ""),
        ("sales/2024-05-02/00/deep/a.json", waits),
    ]

    put(tmp_path, f"2024-05-02/00/{marker}")
    assert [f.waits for f in feed.files(str(tmp_path), SECOND)] == [""]


def test_a_file_that_was_just_written_waits(tmp_path: Path) -> None:
    put(tmp_path, *(f"2024-05-01/{name}.json" for name in ("old", "new", "tomorrow")))
    for name, seconds in (("old", -600), ("tomorrow", 86_400)):
        moment = time.time() + seconds
        os.utime(tmp_path / f"sales/2024-05-01/{name}.json", (moment, moment))

    feed = LandedFiles("sales", quiet_for=timedelta(minutes=5))

    new, old, tomorrow = (file.waits for file in feed.files(str(tmp_path), FIRST))
    assert (new, old) == ("it was modified less than 0:05:00 ago", "")
    assert "it was last modified in the future" in tomorrow


def test_a_file_that_spark_cannot_unpack_waits_and_no_other_does(tmp_path: Path) -> None:
    put(tmp_path, *(f"2024-05-01/{name}" for name in ("a.csv.xz", "b.csv.gz", "c.CSV.GZ")))

    found = LandedFiles("sales", format="csv").files(str(tmp_path), FIRST)

    assert [file.waits for file in found] == [
        "Spark cannot unpack it; store it plain, or as .gz, .bz2, .zst, .zstd, .zip",
        "",
        "",
    ]


@pytest.mark.parametrize("kind", ["csv", "json", "json_document"])
def test_what_tar_packed_waits(tmp_path: Path, kind: FeedFormat) -> None:
    """What tar puts before a file would be read as the beginning of its first line."""
    names = ("a.csv.tar.gz", "b.tar", "c.TGZ", "d.tar.zst", "e.json.tbz2")
    put(tmp_path, *(f"2024-05-01/{name}" for name in names), "2024-05-01/tariff")

    found = LandedFiles("sales", format=kind).files(str(tmp_path), FIRST)

    assert [file.path.rpartition("/")[2] for file in found if not file.waits] == ["tariff"]


def test_lines_that_spark_would_unpack_in_a_way_of_its_own_wait(tmp_path: Path) -> None:
    """It asks for all memory there is, or finds no row."""
    endings = ("SNAPPY", "deflate", "gz", "lz4", "zip")
    put(tmp_path, *(f"2024-05-01/a.json.{ending}" for ending in endings))

    found = LandedFiles("sales").files(str(tmp_path), FIRST)

    waiting = [name for name, file in zip(endings, found, strict=True) if file.waits]
    assert waiting == ["SNAPPY", "deflate", "lz4"]


NOT_FOUND = {
    os.fsdecode(b"\xff"): "\\udcff: the name is not UTF-8",
    "a:b.json": "a:b.json: from a disk Spark reads no file with a colon",
    "a:b/c[1].json": "c[1].json: Spark reads no path that holds a colon and one of the signs",
}


@pytest.mark.parametrize("name", NOT_FOUND, ids=ascii)
def test_a_file_whose_name_no_reader_finds_is_reported_by_its_name(
    tmp_path: Path, name: str
) -> None:
    put(tmp_path, f"2024-05-01/{name}")

    with pytest.raises(SourceError) as of_a_feed:
        LandedFiles("sales").files(str(tmp_path), FIRST)
    with pytest.raises(SourceError) as of_a_folder:
        fixed_at(str(tmp_path / "sales"), "json")

    for refused in (of_a_feed, of_a_folder):
        assert NOT_FOUND[name] in str(refused.value)
        assert "rename it, and run again" in str(refused.value)


def test_an_example_is_a_path_of_the_layout(layout: str) -> None:
    pattern = Layout(layout)

    assert pattern.day_of(pattern.example) == date(2017, 1, 5)
    assert pattern.leads_to(pattern.example.split("/")[0])


WRONG_CSV: dict[str, dict[str, Any]] = {
    "delimiter is one ASCII character": {"delimiter": "::"},
    "delimiter is one ASCII character,": {"delimiter": 5},
    "escape is one ASCII character": {"escape": "a"},
    "the delimiter cannot be '\\\\'": {"delimiter": "\\"},
    "the delimiter cannot be ';'": {"delimiter": ";", "quote": ";"},
    "columns are the names": {"columns": "ab"},
    "columns are the names of": {"columns": ("a", "A ")},
    "encoding is one of": {"encoding": "klingon"},
    "encoding is one of ": {"encoding": None},
}


@pytest.mark.parametrize("message", WRONG_CSV)
def test_a_csv_of_signs_that_nobody_could_read_is_refused(message: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Csv(**WRONG_CSV[message])
    assert message in str(refused.value)


def test_a_file_next_to_folders_of_days_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "north/2024-05-01/a.json", "read-me.txt")
    feed = LandedFiles("sales", layout="*/%Y-%m-%d/")

    assert [f.path for f in feed.files(str(tmp_path), FIRST)] == ["sales/north/2024-05-01/a.json"]
    assert feed.passed_over(str(tmp_path)) == ["read-me.txt"]
