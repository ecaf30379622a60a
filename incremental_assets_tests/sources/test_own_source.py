"""What a source of somebody's own gets by default, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.new_files import new_files
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.loaders.options import source_of
from incremental_assets.sources.source import NO_TYPES, FixedSource
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored import Stored

PAGE = SourceFile("page", 4096, modified="1")


@dataclass(frozen=True)
class Pages(FixedSource):
    path: str
    files: tuple[SourceFile, ...]

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        raise NotImplementedError


def unread(page: SourceFile, known: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    found = new_files(ChangeLog(), Pages("pages", (page,)), known, None)
    return {file.path: file for file in found.files}


@pytest.mark.parametrize(
    "changed",
    [replace(PAGE, modified="2"), replace(PAGE, size=8192, modified="2"), replace(PAGE, tag="b")],
)
def test_a_log_reads_a_file_again_whose_time_or_tag_is_another_one(changed: SourceFile) -> None:
    first = unread(PAGE, {})
    assert unread(PAGE, first) == {}

    again = unread(changed, first)

    assert list(again) == ["page"]
    assert unread(changed, again) == {}


def test_a_loader_takes_no_source_below_a_landing_root_and_no_second_format() -> None:
    with pytest.raises(DefinitionError, match="landing root"):
        source_of("source_path", Stored("orders"), {})
    with pytest.raises(DefinitionError, match="source_format"):
        source_of("source_path", Stored("/data/orders"), {"source_format": "csv"})


@dataclass(frozen=True)
class Versions(Pages):
    version: int = 0


def test_a_version_of_a_source_is_distinguished_from_the_one_before() -> None:
    first, second = (Versions("lake", (), version).fingerprint for version in (1, 2))
    assert first != second
