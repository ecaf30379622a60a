"""A source of somebody's own whose rows change while a load reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.changes import Sequence
from incremental_assets.frames import Frames
from incremental_assets.sources.rows import all_readable
from incremental_assets.sources.source import NO_TYPES, FixedSource, Source
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.conftest import Lakes

TODAY = "2017-01-10"
NUMBERS = [1, 2, 4]  # what the source has
COMES_AFTER_A_READ: list[int] = []


@dataclass(frozen=True)
class Counter(Source):
    path: str = "counter"

    def fix(self) -> FixedSource:
        return FixedCounter("counter", (SourceFile("all", 1, tag=str(NUMBERS)),))


@dataclass(frozen=True)
class FixedCounter(FixedSource):
    path: str
    files: tuple[SourceFile, ...]

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        found = frames.session.createDataFrame(pa.table({"number": pa.array(NUMBERS, pa.int64())}))
        NUMBERS.extend(COMES_AFTER_A_READ)
        COMES_AFTER_A_READ.clear()
        return all_readable(found)


def test_numbers_that_come_between_two_reads_of_a_load_are_loaded_once(lake: Lakes) -> None:
    made = lake(
        Table(
            name="bronze/counter",
            description="Numbers.",
            reads=(Counter(),),
            changes=Sequence("number"),
            write=Append(),
        )
    )
    COMES_AFTER_A_READ.extend([3, 5])  # in a gap, and above

    made.load(TODAY)
    assert [n for _, n in made.bronze("bronze/counter", "number")] == ["1", "2", "4"]
    made.load(TODAY)
    made.load(TODAY)

    assert [n for _, n in made.bronze("bronze/counter", "number")] == ["1", "2", "3", "4", "5"]
