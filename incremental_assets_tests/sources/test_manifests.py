"""Folders whose manifests say which files belong to a delivery, and what waits until it is there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

import fsspec
import pytest

from incremental_assets.sources.deliveries import LARGEST, NamedFile, named_files
from incremental_assets.sources.landed_files import LandedFiles, nothing_loaded
from incremental_assets.storage import remove, write_file

DAY = date(2024, 5, 1)
FEED = LandedFiles("sales", manifest="*.manifest")
SUM = hashlib.sha256(b"{}\n").hexdigest()

MANIFESTS: dict[str, tuple[bytes, list[NamedFile]]] = {
    "names": (b"a.json\r\n\r\nhour=1/b c.json\n", [NamedFile("a.json"), NamedFile("hour=1/b c.json")]),
    "sums": (
        f"{SUM}  a.json\n{SUM[:32].upper()} *./b.json\n".encode(),
        [NamedFile("a.json", None, "sha256", SUM), NamedFile("b.json", None, "md5", SUM[:32].upper())],
    ),
    "a list": (b'\xef\xbb\xbf["a.json"]', [NamedFile("a.json")]),
    "an object": (
        b'{"rows": 7, "files": [{"path": "a.json", "size": 3, "rows": 1}, {"path": "b", "md5": "x"}]}',
        [NamedFile("a.json", 3), NamedFile("b", None, "md5", "x")],
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
    "it names _a.json": b"_a.json",
    "the size of a.json is '3'": b'[{"path": "a.json", "size": "3"}]',
    "the md5 of a.json is 3": b'[{"path": "a.json", "md5": 3}]',
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


def waiting(
    landing: str, loaded: Mapping[str, date] | None = None, feed: LandedFiles = FEED
) -> dict[str, str]:
    """What is listed of the day, with the reason to wait."""
    known = (lambda: loaded) if loaded else nothing_loaded
    prefix = f"sales/{DAY}/"
    return {f.path.removeprefix(prefix): f.waits for f in feed.files(landing, DAY, known)}


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
    assert waiting(landing) == {"a.json": "no *.manifest in its folder names it"}

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
    put(landing, "2.manifest", f"{SUM}  b.json\n{'0' * 64}  a.json\ngone.json")
    put(landing, "3.manifest", "{")
    broken = "it is no manifest: Expecting property name"

    first = waiting(landing)
    assert (first["a.json"], first["b.json"]) == ("", "2.manifest waits: gone.json is not there")
    assert first["3.manifest"].startswith(broken)

    paths = [f"sales/{DAY}/{name}" for name in ("a.json", "gone.json")]
    then = waiting(landing, dict.fromkeys(paths, DAY))
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
