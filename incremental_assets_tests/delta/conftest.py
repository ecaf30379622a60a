"""What the tests of the lake share: a small table by day, and rows for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from types import MappingProxyType

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.delta.publish import publish
from incremental_assets.delta.stage import folder_of, stage
from incremental_assets.delta.transaction import Transaction
from incremental_assets.spark.load_session import own_session

APP = "silver/sales"
JAN_1, JAN_2 = date(2017, 1, 1), date(2017, 1, 2)


def give_feature(
    path: str, name: str, properties: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Commit a feature of Delta's writers, with properties, as another program does."""
    log = Path(path) / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    (made,) = (action["metaData"] for action in first if "metaData" in action)
    made["configuration"] |= properties
    (protocol,) = (action["protocol"] for action in first if "protocol" in action)
    protocol["minWriterVersion"] = 7
    protocol["writerFeatures"] = [*protocol.get("writerFeatures", ()), name]
    actions = ({"protocol": protocol}, {"metaData": made})
    version = DeltaTable(path).version() + 1
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


class Small:
    """A table of `id`, `amount` and `_batch` by `dt`."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self.session = session
        self.path = path
        ensure_table(path, APP, (("_batch", "long"), ("dt", "date")), ("dt",))

    def frame(self, batch: int, *rows: Sequence[object]) -> DataFrame:
        frame = self.session.createDataFrame(list(rows), "id string, dt date, amount int")
        batch_column = F.lit(batch).cast("long").alias("_batch")
        return frame.select(batch_column, "dt", "id", "amount").coalesce(1)

    def append(self, batch: int, *rows: Sequence[object]) -> None:
        staged = stage(self.frame(batch, *rows), self.path, self.folder(batch), ("dt",))
        publish(staged, self.transaction(batch))

    def folder(self, batch: int) -> str:
        return folder_of(APP, batch)

    def transaction(self, batch: int) -> Transaction:
        return Transaction(APP, batch, "{}")

    def rows(self) -> list[tuple[str, str, int]]:
        """Read by Delta itself: id, day, amount."""
        table = self.session.read.format("delta").load(self.path)
        found = table.select("id", F.col("dt").cast("string"), "amount").collect()
        return sorted(tuple(row) for row in found)


@pytest.fixture
def small(spark: SparkSession, tmp_path: Path) -> Iterator[Small]:
    with own_session(spark, "small") as session:
        yield Small(session, str(tmp_path / "lake" / "silver" / "sales"))
