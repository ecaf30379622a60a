"""Folders whose manifests say which files belong to a delivery, and what waits until it is there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import IO

import fsspec
import pytest

from incremental_assets.sources import deliveries
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.loaded_files import NOTHING_LOADED, LoadedFiles
from incremental_assets.sources.manifests import LARGEST, MOST_NAMED, NamedFile, named_files
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.storage import StoredFile, open_file, remove, write_file

DAY = date(2024, 5, 1)
FEED = LandedFiles("sales", manifest="*.manifest")
SUM = hashlib.sha256(b"{}\n").hexdigest()

MANIFESTS: dict[str, tuple[bytes, list[NamedFile]]] = {
    "names": (b"a.json\r\n\r\nhour=1/b c.json\n", [NamedFile("a.json"), NamedFile("hour=1/b c.json")]),
    "sums": (
        f"{SUM}  a.json\n{SUM[:32].upper()} *./b.json\n".encode(),
        [
            NamedFile("a.json", None, (("sha256", SUM),)),
            NamedFile("b.json", None, (("md5", SUM[:32]),)),
        ],
    ),
    "a list": (b'\xef\xbb\xbf["a.json"]', [NamedFile("a.json")]),
    "an object": (
        b'{"rows": 7, "files": [{"path": "a.json", "size": 3, "rows": 1}, {"path": "b", "md5": "x"}]}',
        [NamedFile("a.json", 3), NamedFile("b", None, (("md5", "x"),))],
    ),
    "digests with their names": (
        b"SHA1 (a b.json) = " + b"AB" * 20,
        [NamedFile("a b.json", None, (("sha1", "ab" * 20),))],
    ),
    "digests in any case": (
        b'[{"path": "./a", "MD5": "X", "Sha1": "y"}, {"path": "a", "md5": "x", "sha1": "Y"}]',
        [NamedFile("a", None, (("md5", "x"), ("sha1", "y")))],
    ),
    "no file": (b"[]", []),
}  # fmt: skip
NONE: dict[str, bytes] = {
    "is empty": b" \n",
    'no list of "files"': b'{"data": []}',
    "Expecting": b'{"files": ["a.json"',
    "'../a.json' is no name": b"../a.json",
    "'/etc/passwd' is no name": b'["/etc/passwd"]',
    "None is no name": b'[{"size": 1}]',
    "3 is no name": b"[3]",
    "it is nested too deeply": b"[" * 200_000,
    "is no name of a file": b'["\\ud800.json"]',
    "[[[...]]] is no name": b"[" + b"[" * 50 + b"]" * 50 + b"]",
    "it names 'a' twice, with another": b'[{"path": "a", "size": 1}, {"path": "./a", "size": 2}]',
    "more than 100,000 files": b"".join(b"%d\n" % number for number in range(MOST_NAMED + 1)),
    "the size of 'a.json' is '3'": b'[{"path": "a.json", "size": "3"}]',
    "the md5 of 'a.json' is 3": b'[{"path": "a.json", "md5": 3}]',
    "'utf-8' codec": b"\xff\xfe\xff",
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_names_files_as_text_or_json(kind: str) -> None:
    content, expected = MANIFESTS[kind]

    assert named_files(content) == expected


@pytest.mark.parametrize("message", NONE)
def test_what_is_no_manifest_says_why(message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - which of them, is told below
        named_files(NONE[message])

    assert message in str(refused.value)
    assert len(str(refused.value)) < 200  # of whatever size the manifest is


@pytest.fixture(params=["disk", "store"])
def landing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A landing root on a disk, and one in an object store."""
    if request.param == "disk":
        yield str(tmp_path)
        return
    yield "memory://deliveries/landing"
    fsspec.filesystem("memory").rm("/deliveries", recursive=True)


def put(landing: str, name: str, content: str = "{}\n") -> None:
    path = f"{landing}/sales/{DAY}/{name}"
    if "://" not in path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content.encode())


@dataclass(frozen=True)
class Known:
    """Files as they were loaded on the day."""

    loaded: Mapping[str, SourceFile]

    def files(self, day: date) -> Mapping[str, SourceFile]:
        return self.loaded if day == DAY else {}

    def landing_days(self) -> Mapping[str, date]:
        return dict.fromkeys(self.loaded, DAY)


def known(landing: str, *names: str, feed: LandedFiles = FEED) -> Known:
    """The day after these files, which are there, were loaded."""
    listed = {file.path: replace(file, waits="") for file in feed.files(landing, DAY)}
    paths = [f"sales/{DAY}/{name}" for name in names]
    return Known({path: listed.get(path, SourceFile(path, 3, "gone")) for path in paths})


def waiting(
    landing: str, loaded: LoadedFiles = NOTHING_LOADED, feed: LandedFiles = FEED
) -> dict[str, str]:
    """What is listed of the day, with the reason to wait."""
    prefix = f"sales/{DAY}/"
    return {f.path.removeprefix(prefix): f.waits for f in feed.files(landing, DAY, loaded)}


def test_files_wait_until_all_that_their_manifest_names_is_there_and_as_it_says(
    landing: str,
) -> None:
    named = [
        {"path": "a.json", "size": 3},
        {"path": "b.json", "size": 3},
        {"path": "h/c.json", "sha256": SUM},
    ]
    put(landing, "a.json")
    put(landing, ".written.manifest", "a.json")
    put(landing, "h/2.manifest", "../a.json\na.json")
    no = "no *.manifest in its folder names it"
    assert waiting(landing) == {"a.json": no, "h/2.manifest": no}
    remove(f"{landing}/sales/{DAY}/h/2.manifest")

    put(landing, "1.manifest", json.dumps({"files": named}))
    missing = "b.json is not there, and 1 more"
    assert waiting(landing) == {"1.manifest": missing, "a.json": f"1.manifest waits: {missing}"}

    put(landing, "b.json", "{")
    put(landing, "h/c.json", "{ }")
    put(landing, "d.json")
    other = "b.json has 1 byte, and should have 3"
    assert waiting(landing) == {
        "1.manifest": other,
        **dict.fromkeys(("a.json", "b.json", "h/c.json"), f"1.manifest waits: {other}"),
        "d.json": "no *.manifest in its folder names it",
    }

    put(landing, "b.json")
    assert waiting(landing)["1.manifest"] == "h/c.json has another sha256"
    put(landing, "h/c.json")
    assert {name: why for name, why in waiting(landing).items() if name != "d.json"} == {
        "a.json": "",
        "b.json": "",
        "h/c.json": "",
    }


def test_a_delivery_does_not_wait_for_another_nor_for_files_that_were_loaded(landing: str) -> None:
    for name in ("a.json", "b.json"):
        put(landing, name)
    put(landing, "1.manifest", "a.json\n")
    put(landing, "2.manifest", f"{SUM}  b.json\n{SUM}  a.json\ngone.json")
    put(landing, "3.manifest", "{")
    broken = "it is no manifest: Expecting property name"

    first = waiting(landing)
    assert (first["a.json"], first["b.json"]) == ("", "2.manifest waits: gone.json is not there")
    assert first["3.manifest"].startswith(broken)

    then = waiting(landing, known(landing, "a.json", "gone.json"))
    assert {name: why for name, why in then.items() if why} == {"3.manifest": first["3.manifest"]}


def test_a_marker_and_a_manifest_may_both_be_asked_for(tmp_path: Path) -> None:
    feed = LandedFiles("sales", layout="*/", marker="_SUCCESS", manifest="_manifest.json")
    landing = str(tmp_path)
    put(landing, "a.json")
    put(landing, "_manifest.json", '["a.json"]')

    def waits() -> list[str]:
        (day,) = feed.days(landing)
        return [file.waits for file in feed.files(landing, day)]

    assert waits() == ["there is no _SUCCESS in its folder"]
    put(landing, "_SUCCESS", "")
    assert waits() == [""]
    remove(f"{landing}/sales/{DAY}/_manifest.json")
    assert waits() == ["no _manifest.json in its folder names it"]


def test_a_large_file_is_not_read_as_a_manifest(tmp_path: Path) -> None:
    put(str(tmp_path), "a.manifest")
    with (tmp_path / f"sales/{DAY}/a.manifest").open("r+b") as file:
        file.truncate(LARGEST + 1)

    assert waiting(str(tmp_path)) == {"a.manifest": "it is no manifest: it has more than 16 MiB"}


def test_a_file_that_was_loaded_and_is_replaced_has_to_be_as_its_manifest_says(
    landing: str,
) -> None:
    put(landing, "a.json")
    put(landing, "b.json")
    loaded = known(landing, "a.json", "b.json")
    new = hashlib.sha256(b"[ ]").hexdigest()
    put(landing, "1.manifest", f"{new}  a.json\n{new}  b.json\n")

    put(landing, "a.json", "[ ")  # half of it
    half = waiting(landing, loaded)
    put(landing, "a.json", "[ ]")
    one = waiting(landing, loaded)
    put(landing, "b.json", "[ ]")
    both = waiting(landing, loaded)

    assert half["1.manifest"] == "a.json has another sha256, and 1 more"
    assert one["1.manifest"] == "b.json has another sha256"
    assert both == {"a.json": "", "b.json": ""}


def test_all_digests_that_a_manifest_has_are_compared(tmp_path: Path) -> None:
    landing = str(tmp_path)
    put(landing, "a.json")
    put(landing, "1.manifest", json.dumps([{"path": "a.json", "SHA256": SUM, "md5": "0" * 32}]))

    assert waiting(landing)["1.manifest"] == "a.json has another md5"


def test_a_manifest_that_may_still_be_written_waits(tmp_path: Path) -> None:
    feed = replace(FEED, quiet_for=timedelta(minutes=5))
    landing = str(tmp_path)
    put(landing, "a.json")
    os.utime(tmp_path / f"sales/{DAY}/a.json", (1, 1))
    put(landing, "1.manifest", "a.json")
    why = "it was modified less than 0:05:00 ago"

    assert waiting(landing, feed=feed) == {"1.manifest": why, "a.json": f"1.manifest waits: {why}"}
    os.utime(tmp_path / f"sales/{DAY}/1.manifest", (1, 1))
    assert waiting(landing, feed=feed) == {"a.json": ""}


def test_manifests_and_markers_may_be_named_in_one_and_are_no_data(landing: str) -> None:
    feed = replace(FEED, marker="_SUCCESS", manifest="_m*")
    names = ("_SUCCESS", "_m.sums", "a.json")
    for name in (*names, "_m.sums._COPYING_", "_metadata/part-0.json", "_mine/_m.sums"):
        put(landing, name)
    put(landing, "_m.sums", "".join(f"{SUM}  {name}\n" for name in names))

    assert waiting(landing, feed=feed) == {"a.json": ""}
    put(landing, "_m.sums", "_metadata/part-0.json\na.json\n")
    why = "it names _metadata/part-0.json, and such a name is no data"
    assert waiting(landing, feed=feed)["_m.sums"] == why


def test_a_manifest_that_is_gone_when_it_is_read_waits(tmp_path: Path) -> None:
    found = [StoredFile("a.json", 3, 1), StoredFile("1.manifest", 6, 1)]
    placed = [file._replace(path=f"d/{file.path}") for file in found]

    _, why = FEED.signs.judged(str(tmp_path), "d", placed, lambda _: None, lambda _: "")

    assert why["d/1.manifest"] == "it is no longer there"


def test_manifests_are_read_once_and_not_where_all_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def counted(path: str) -> IO[bytes]:
        opened.append(path.rpartition("/")[2])
        return open_file(path)

    monkeypatch.setattr(deliveries, "open_file", counted)
    landing = str(tmp_path)
    put(landing, "a.json")
    put(landing, "1.manifest", f"{SUM}  a.json\n")
    loaded = known(landing, "a.json")
    assert waiting(landing) == waiting(landing, loaded) == {"a.json": ""}
    assert opened == ["1.manifest", "a.json"]

    put(landing, "1.manifest", "a.json")
    assert waiting(landing, loaded) == {"a.json": ""}
    assert opened == ["1.manifest", "a.json"]
