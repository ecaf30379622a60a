"""A file is new, changed or as it was; a moved clock is no change, and archiving is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from incremental_assets.changes.files import Files
from incremental_assets.sources.loaded_files import is_as_loaded


@dataclass(frozen=True)
class File:
    path: str = "a.jsonl"
    size: int = 10
    tag: str = ""
    modified: str = "1000"


LOADED = File(tag="digest of the content")


class Disk:
    """Gives each file its tag, and remembers which files had to be read for it."""

    def __init__(self, tag: str = LOADED.tag) -> None:
        self.tag = tag
        self.read: list[str] = []

    def tagged(self, file: File) -> File:
        self.read.append(file.path)
        return replace(file, tag=self.tag)


def compare(
    listed: Sequence[File], known: Sequence[File], disk: Disk
) -> tuple[list[File], list[File]]:
    return Files().new_and_changed(listed, {file.path: file for file in known}, disk.tagged)


def test_an_unknown_file_is_new_and_gets_its_tag() -> None:
    disk = Disk()

    new, changed = compare([File("a.jsonl"), File("b.jsonl")], [LOADED], disk)

    assert new == [File("b.jsonl", tag=LOADED.tag)]
    assert changed == []
    assert disk.read == ["b.jsonl"]


def test_a_file_of_the_same_size_and_mark_is_unchanged_and_not_read() -> None:
    disk = Disk("would differ")

    assert compare([File()], [LOADED], disk) == ([], [])
    assert disk.read == []


def test_a_file_without_tag_and_time_is_as_it_was_by_its_content_alone() -> None:
    disk = Disk("differs")
    nameless = File(modified="")

    assert compare([nameless], [replace(nameless, tag=LOADED.tag)], disk) == (
        [],
        [replace(nameless, tag="differs")],
    )
    assert not is_as_loaded(nameless, nameless)


def test_a_touched_file_is_read_and_found_unchanged() -> None:
    disk = Disk()

    assert compare([File(modified="2000")], [LOADED], disk) == ([], [])
    assert disk.read == ["a.jsonl"]


def test_other_content_of_the_same_size_is_a_change() -> None:
    new, changed = compare([File(modified="2000")], [LOADED], Disk("other"))

    assert new == []
    assert changed == [File(modified="2000", tag="other")]


def test_another_size_is_a_change_even_if_the_clock_stood_still() -> None:
    new, changed = compare([File(size=11)], [LOADED], Disk("other"))

    assert new == []
    assert changed == [File(size=11, tag="other")]


def test_a_known_file_that_is_gone_is_no_change() -> None:
    assert compare([], [LOADED], Disk()) == ([], [])


def test_the_tag_of_a_store_decides_whatever_its_clock_says() -> None:
    same = File(tag=LOADED.tag, modified="2000")
    other = File(tag="other", modified=LOADED.modified)

    assert compare([same], [LOADED], Disk()) == ([], [])
    assert compare([other], [LOADED], Disk("other")) == ([], [other])
