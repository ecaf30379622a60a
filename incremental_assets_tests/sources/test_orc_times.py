"""Timestamps of ORC, which Spark's reader takes for those of Java's time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.sources import typed_rows
from incremental_assets_tests.sources.reading import read


@pytest.mark.parametrize(
    "row", [{"at": datetime(2024, 5, 1, 22)}, {"list": [{"at": datetime(2024, 5, 1)}]}]
)
def test_they_are_refused_where_java_is_in_another_zone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]
) -> None:
    orc.write_table(pa.Table.from_pylist([row]), tmp_path / "a.orc")
    assert len(read(spark, tmp_path).rows) == 1

    monkeypatch.setattr(typed_rows, "java_zone", lambda _: "America/New_York")
    with pytest.raises(SourceError, match=r"zone America/New_York.*-Duser\.timezone=UTC"):
        read(spark, tmp_path)


def test_a_column_that_is_called_timestamp_is_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orc.write_table(
        pa.table({"timestamp": [1], "day": [datetime(2024, 5, 1, tzinfo=UTC).date()]}),
        tmp_path / "a.orc",
    )
    monkeypatch.setattr(typed_rows, "java_zone", lambda _: "America/New_York")

    assert read(spark, tmp_path).column("timestamp") == [1]
