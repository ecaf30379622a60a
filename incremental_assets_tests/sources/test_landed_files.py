"""What is listed of a landing, what is not data, and what a landing that cannot be read says."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import fsspec
import pytest

from incremental_assets.errors import DefinitionError, SettingsError, SourceError
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.landing_root import missing_or_changed
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.storage import files_below

DAY = date(2017, 1, 2)
EVENTS = LandedFiles("events")
NOBODY = 65534


def put(landing: Path, path: str, content: str = "{}\n") -> Path:
    file = landing / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def paths(files: list[SourceFile]) -> list[str]:
    return [file.path for file in files]


@pytest.fixture
def open_landing() -> Iterator[Path]:
    """A landing that every user may enter, with one file; pytest's own folders are private."""
    with tempfile.TemporaryDirectory() as folder:
        landing = Path(folder)
        landing.chmod(0o755)
        put(landing, "events/2017-01-02/a.jsonl")
        yield landing


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so where the tests run as root they step down."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def bucket() -> Iterator[str]:
    """An object store in memory, with one landing day."""
    store = fsspec.filesystem("memory")
    day = "/bucket/landing/events/2017-01-02"
    for name in (
        "b.jsonl",
        "a.jsonl",
        "_SUCCESS",
        ".hidden",
        "_temporary/c.jsonl",
        "hour=00/d.jsonl",
    ):
        store.pipe_file(f"{day}/{name}", b"{}\n")
    yield "memory://bucket/landing"
    store.rm("/bucket", recursive=True)


def test_a_landing_root_that_is_missing_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    landing = str(tmp_path / "nowhere")
    expected = "nowhere does not exist. Set INCREMENTAL_ASSETS_LANDING"

    with pytest.raises(SourceError, match=expected):
        EVENTS.files(landing, DAY)
    with pytest.raises(SourceError, match=expected):
        EVENTS.days(landing)


def test_a_landing_root_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    file = put(tmp_path, "landing")

    with pytest.raises(SourceError, match="landing is not a folder"):
        EVENTS.files(str(file), DAY)


def test_a_feed_that_never_landed_is_empty(tmp_path: Path) -> None:
    assert EVENTS.days(str(tmp_path)) == []
    assert EVENTS.files(str(tmp_path), DAY) == []


def test_a_day_without_a_folder_is_empty(tmp_path: Path) -> None:
    put(tmp_path, "events/2017-01-01/a.jsonl")

    assert EVENTS.files(str(tmp_path), DAY) == []


def test_days_are_the_folders_that_are_named_like_one(tmp_path: Path) -> None:
    for name in ("2017-01-03", "2017-01-01", "2017-02-30", "2017-1-2", "tmp", ".2017-01-05"):
        put(tmp_path, f"events/{name}/a.jsonl")
    put(tmp_path, "users/2017-01-04/a.jsonl")

    assert EVENTS.days(str(tmp_path)) == [date(2017, 1, 1), date(2017, 1, 3)]


def test_files_are_listed_by_path_with_size_and_modification_mark(tmp_path: Path) -> None:
    put(tmp_path, "events/2017-01-02/b.jsonl", "")
    file = put(tmp_path, "events/2017-01-02/a.jsonl", "12345")
    os.utime(file, ns=(0, 1_483_315_200_123_456_789))

    files = EVENTS.files(str(tmp_path), DAY)

    assert paths(files) == ["events/2017-01-02/a.jsonl", "events/2017-01-02/b.jsonl"]
    assert files[0] == SourceFile(files[0].path, 5, "", "1483315200123456789")
    assert files[1].size == 0


def test_what_is_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Whoever opened it would wait for ever: a plan, a run, each tick of a sensor."""
    pipe = tmp_path / "events/2017-01-02/pipe.jsonl"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match=r"pipe\.jsonl cannot be read: it is no file, but a pipe"):
        EVENTS.files(str(tmp_path), DAY)

    pipe.unlink()
    pipe.symlink_to("/dev/zero")
    with pytest.raises(SourceError, match="remove it, and run again"):
        EVENTS.files(str(tmp_path), DAY)


def test_names_that_begin_with_a_dot_or_an_underscore_or_are_being_copied_are_not_data(
    tmp_path: Path,
) -> None:
    hidden = ("_SUCCESS", ".a.jsonl.crc", "_temporary/0/b.jsonl", ".git/c", "b.jsonl._COPYING_")
    for name in (*hidden, "data_.jsonl"):
        put(tmp_path, f"events/2017-01-02/{name}")

    assert paths(EVENTS.files(str(tmp_path), DAY)) == ["events/2017-01-02/data_.jsonl"]


def test_a_link_to_nothing_is_named_with_the_remedy(tmp_path: Path) -> None:
    link = put(tmp_path, "events/2017-01-02/a.jsonl").with_name("b.jsonl")
    link.symlink_to(tmp_path / "nowhere")

    with pytest.raises(
        SourceError, match=r"b\.jsonl is a link to a file that is not there.*remove"
    ):
        EVENTS.files(str(tmp_path), DAY)


def test_a_link_to_nothing_is_named_also_where_files_have_no_folders(tmp_path: Path) -> None:
    flat = LandedFiles("sales", layout="*.jsonl")
    put(tmp_path, "sales/a.jsonl").with_name("b.jsonl").symlink_to("nowhere")
    (tmp_path / "sales/.#c.jsonl").symlink_to("user@host")  # as an editor locks a file

    with pytest.raises(SourceError, match=r"sales/b\.jsonl is a link to a file that is not there"):
        list(flat.days(str(tmp_path)))

    (tmp_path / "sales/b.jsonl").unlink()
    assert len(list(flat.days(str(tmp_path)))) == 1


def test_what_is_renamed_while_it_is_listed_is_found_under_its_new_name(tmp_path: Path) -> None:
    file = put(tmp_path, "deep/a.jsonl")

    def skip(name: str) -> bool:
        if name == "a.jsonl":
            file.rename(file.with_name("b.jsonl"))
        return False

    assert [found.path for found in files_below(str(tmp_path), skip)] == ["deep/b.jsonl"]


def test_nested_folders_belong_to_the_day(tmp_path: Path) -> None:
    for name in ("hour=00/a.jsonl", "hour=01/part/b.jsonl", "z.jsonl"):
        put(tmp_path, f"events/2017-01-02/{name}")

    assert paths(EVENTS.files(str(tmp_path), DAY)) == [
        "events/2017-01-02/hour=00/a.jsonl",
        "events/2017-01-02/hour=01/part/b.jsonl",
        "events/2017-01-02/z.jsonl",
    ]


@pytest.mark.parametrize(
    "name",
    ["a b.jsonl", "a%20b.jsonl", "a+b.jsonl", "a*[1]{2}?.jsonl", "a'b.jsonl", 'a"b`.jsonl', "ä→.jsonl",
     "a\nb.jsonl", "back\\slash.jsonl", "no_ending", "#1?.jsonl"],
)  # fmt: skip
def test_an_odd_file_name_is_listed_as_it_is_and_can_be_tagged(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"events/2017-01-02/{name}")

    (file,) = EVENTS.files(str(tmp_path), DAY)

    assert file.path == f"events/2017-01-02/{name}"
    assert with_content_tag(str(tmp_path), file).tag


def test_the_tag_of_a_local_file_is_a_digest_of_its_content(tmp_path: Path) -> None:
    put(tmp_path, "events/2017-01-02/a.jsonl", "one")
    put(tmp_path, "events/2017-01-02/b.jsonl", "two")
    files = EVENTS.files(str(tmp_path), DAY)

    first, second = (with_content_tag(str(tmp_path), file) for file in files)

    assert first.tag == hashlib.blake2b(b"one", digest_size=16).hexdigest()
    assert first == SourceFile(files[0].path, 3, first.tag, files[0].modified)
    assert second.tag != first.tag


def test_a_tag_that_is_known_is_not_worked_out_again(tmp_path: Path) -> None:
    not_there = SourceFile("events/2017-01-02/a.jsonl", 1, tag="known")

    assert with_content_tag(str(tmp_path), not_there) == not_there


def test_a_file_that_vanished_after_the_listing_is_named(tmp_path: Path) -> None:
    file = put(tmp_path, "events/2017-01-02/a.jsonl")
    (listed,) = EVENTS.files(str(tmp_path), DAY)
    file.unlink()

    with pytest.raises(SourceError) as raised:
        with_content_tag(str(tmp_path), listed)

    assert "events/2017-01-02/a.jsonl vanished" in str(raised.value)
    assert "Nothing was loaded" in str(raised.value)


def test_what_vanished_or_grew_while_it_was_read_is_found_out(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path, f"events/2017-01-02/{name}.jsonl")
    files = EVENTS.files(str(tmp_path), DAY)
    (tmp_path / "events/2017-01-02/a.jsonl").unlink()
    put(tmp_path, "events/2017-01-02/b.jsonl", "{}\n{}\n")

    assert missing_or_changed(str(tmp_path), files) == files[:2]


def test_a_day_folder_without_permission_is_named_with_the_remedy(open_landing: Path) -> None:
    (open_landing / "events/2017-01-02").chmod(0o300)

    with as_nobody(), pytest.raises(SourceError) as raised:
        EVENTS.files(str(open_landing), DAY)

    assert f"{open_landing}/events/2017-01-02 cannot be read: Permission denied" in str(
        raised.value
    )
    assert "give this user the right to read it" in str(raised.value)


def test_a_feed_folder_without_permission_is_named(open_landing: Path) -> None:
    (open_landing / "events").chmod(0o300)

    with as_nobody(), pytest.raises(SourceError) as raised:
        EVENTS.days(str(open_landing))

    assert f"{open_landing}/events cannot be read: Permission denied" in str(raised.value)


def test_a_file_without_permission_is_named(open_landing: Path) -> None:
    (open_landing / "events/2017-01-02/a.jsonl").chmod(0o000)
    (listed,) = EVENTS.files(str(open_landing), DAY)

    with as_nobody(), pytest.raises(SourceError) as raised:
        with_content_tag(str(open_landing), listed)

    assert "2017-01-02/a.jsonl cannot be read: Permission denied" in str(raised.value)


def test_a_landing_may_be_given_as_a_file_uri(tmp_path: Path) -> None:
    put(tmp_path, "events/2017-01-02/a b.jsonl", "one")
    landing = f"file://{tmp_path}"

    (file,) = EVENTS.files(landing, DAY)

    assert EVENTS.days(landing) == [DAY]
    assert file.path == "events/2017-01-02/a b.jsonl"
    assert (
        with_content_tag(landing, file).tag == hashlib.blake2b(b"one", digest_size=16).hexdigest()
    )
    assert missing_or_changed(landing, [file]) == []


def test_an_object_store_is_listed_like_a_disk(bucket: str) -> None:
    files = EVENTS.files(bucket, DAY)

    assert EVENTS.days(bucket) == [DAY]
    assert paths(files) == [
        "events/2017-01-02/a.jsonl",
        "events/2017-01-02/b.jsonl",
        "events/2017-01-02/hour=00/d.jsonl",
    ]
    assert [file.size for file in files] == [3, 3, 3]


def test_a_feed_or_day_that_an_object_store_lacks_is_empty(bucket: str) -> None:
    assert EVENTS.files(bucket, date(2017, 1, 3)) == []
    assert LandedFiles("users").files(bucket, DAY) == []
    assert LandedFiles("users").days(bucket) == []


def test_the_tag_of_a_store_is_taken_and_nothing_is_read(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = fsspec.filesystem("memory").find("/bucket/landing/events/2017-01-02", detail=True)
    tagged = {path: {**info, "ETag": '"abc-1"', "mtime": 1} for path, info in listed.items()}
    monkeypatch.setattr(
        fsspec.implementations.memory.MemoryFileSystem, "find", lambda *_, **__: tagged
    )

    files = EVENTS.files(bucket, DAY)

    assert {(file.tag, file.modified) for file in files} == {("abc-1", "")}
    assert [with_content_tag(bucket, file) for file in files] == files


def test_what_vanished_from_an_object_store_is_found_out(bucket: str) -> None:
    files = EVENTS.files(bucket, DAY)
    fsspec.filesystem("memory").rm("/bucket/landing/events/2017-01-02/a.jsonl")

    assert missing_or_changed(bucket, files) == files[:1]


def test_a_store_without_a_client_says_so() -> None:
    with pytest.raises(SettingsError, match="no client for this kind of store is installed"):
        EVENTS.files("nosuchstore://bucket/landing", DAY)


@pytest.mark.parametrize("feed", ["", "a/b", "..", "../events", "/events", "_events", "a b", "a\n"])
def test_a_feed_is_one_plain_folder_name(feed: str) -> None:
    with pytest.raises(DefinitionError, match="no slashes"):
        LandedFiles(feed)
