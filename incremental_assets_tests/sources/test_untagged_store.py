"""Files in a store that gives no tag: their content is what tells a repair."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from uuid import uuid4

import fsspec
import pytest

from incremental_assets.changes.files import Files
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets.sources.stored import FixedFiles
from incremental_assets.storage import open_store

DAY = date(2017, 1, 2)
FEED = LandedFiles("events")


@pytest.fixture
def landing() -> Iterator[str]:
    """fsspec's store in memory: it has times of its own name and no tags."""
    root = f"memory://{uuid4().hex}"
    yield root
    store, path = fsspec.core.url_to_fs(root)
    store.rm(path, recursive=True)


def put(landing: str, content: bytes, at: datetime) -> None:
    store, path = open_store(landing)
    file = f"{path}/events/{DAY}/a.jsonl"
    store.pipe_file(file, content)
    store.store[file].created = store.store[file].modified = at


def changed(landing: str, known: SourceFile) -> list[SourceFile]:
    found = Files().new_and_changed(
        FEED.files(landing, DAY),
        {known.path: known},
        lambda file: with_content_tag(landing, file),
    )
    return found[1]


def loaded(landing: str) -> SourceFile:
    (file,) = FEED.files(landing, DAY)
    return with_content_tag(landing, file)


def test_a_repair_of_equal_size_and_newer_time_is_noticed_without_tags(landing: str) -> None:
    put(landing, b'{"qty": 1}\n', datetime(2017, 1, 2, 10, tzinfo=UTC))
    before = loaded(landing)
    put(landing, b'{"qty": 2}\n', datetime(2017, 1, 2, 11, tzinfo=UTC))

    assert [file.path for file in changed(landing, before)] == [f"events/{DAY}/a.jsonl"]


def test_a_source_in_a_store_that_tells_nothing_is_known_by_its_content(landing: str) -> None:
    files = (SourceFile(f"events/{DAY}/a.jsonl", 11),)
    source = FixedFiles(landing, "json", files=files, root=landing)
    put(landing, b'{"qty": 1}\n', datetime(2017, 1, 2, 10, tzinfo=UTC))
    before = source.fingerprint
    put(landing, b'{"qty": 2}\n', datetime(2017, 1, 2, 10, tzinfo=UTC))

    assert source.fingerprint != before


def test_a_file_that_was_only_copied_again_is_no_repair(landing: str) -> None:
    put(landing, b'{"qty": 1}\n', datetime(2017, 1, 2, 10, tzinfo=UTC))
    before = loaded(landing)
    put(landing, b'{"qty": 1}\n', datetime(2017, 1, 2, 11, tzinfo=UTC))

    assert changed(landing, before) == []
