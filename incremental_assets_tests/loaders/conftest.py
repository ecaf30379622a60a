"""What the tests of the loaders share: a place with a source, a target and a ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.query import query

NOON = datetime(2024, 5, 10, 12, tzinfo=UTC)


class Place:
    """A source, a target and a ledger in a folder of their own. Nothing here needs Spark."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.source = folder / "source"
        self.target = folder / "target"
        self.watermarks = folder / "watermarks"
        self.snapshot = folder / "snapshot"
        self.now = NOON
        self._landed = 0

    def clock(self) -> datetime:
        return self.now

    @property
    def paths(self) -> dict[str, Any]:
        return {
            "source_path": self.source,
            "target_path": self.target,
            "watermark_path": self.watermarks,
        }

    def land(self, rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> Path:
        """A Parquet file more in the source."""
        self._landed += 1
        self.source.mkdir(exist_ok=True)
        path = self.source / f"part-{self._landed:04}.parquet"
        pl.DataFrame(list(rows), schema=dict(schema), orient="row").write_parquet(path)
        return path

    def land_lines(self, lines: Sequence[Any], name: str = "") -> Path:
        """A file of JSON lines more in the source; text is written as it is."""
        self._landed += 1
        self.source.mkdir(exist_ok=True)
        path = self.source / (name or f"part-{self._landed:04}.json")
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n")
        return path

    def rows(self, *columns: str, path: Path | None = None) -> list[tuple[Any, ...]]:
        """These columns of a Delta table, sorted; read by delta-rs."""
        table = DeltaTable(str(path or self.target))
        frame = query(table)
        return sorted(frame.select(columns).rows(), key=str)

    def columns(self, path: Path | None = None) -> list[str]:
        return [f.name for f in DeltaTable(str(path or self.target)).schema().fields]

    def version(self) -> int:
        return DeltaTable(str(self.target)).version()

    def quarantined(self) -> list[list[str]]:
        """The reasons of the rows that were quarantined."""
        path = self.target / "_quarantine"
        if not path.exists():
            return []
        return sorted(list(r) for r in query(DeltaTable(str(path)))["reasons"].to_list())


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)
