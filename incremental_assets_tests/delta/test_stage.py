"""Staged files: all that Spark wrote is seen, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.delta import stage as staging
from incremental_assets.delta.stage import stage
from incremental_assets.errors import LakeError
from incremental_assets.storage import StoredFile, files_below


def test_a_lake_that_another_machine_sees_otherwise_publishes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(8, numPartitions=4)
    monkeypatch.setattr(staging, "_writes_elsewhere", lambda _: True)
    assert sum(stage(rows, str(tmp_path), "batch-1", ()).rows.values()) == 8
    assert stage(rows.where("id < 0"), str(tmp_path), "batch-2", ()).files == ()

    monkeypatch.setattr(staging, "files_below", lambda *found: files_below(*found)[1:])
    with pytest.raises(LakeError, match="wrote 8 rows there, of which this process sees 6"):
        stage(rows, str(tmp_path), "batch-3", ())

    def gone(folder: str, *_: object) -> list[StoredFile]:
        return []

    monkeypatch.setattr(staging, "files_below", gone)
    monkeypatch.setattr(staging, "spark_folder", lambda path: f"{tmp_path}/elsewhere/{path[-8:]}")
    with pytest.raises(LakeError, match="wrote a folder there, which this process does not see"):
        stage(rows, str(tmp_path), "batch-4", ())


def test_what_attempts_left_that_did_not_count_is_not_staged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_leftovers(folder: str, *skip: object) -> list[StoredFile]:
        left = Path(folder, "_temporary/0/attempt_1/part-0.parquet")
        left.parent.mkdir(parents=True)
        pl.DataFrame({"id": [9]}).write_parquet(left)
        Path(folder, "_day=1").mkdir()
        shutil.copy(left, Path(folder, "_day=1/part-0.parquet"))
        return files_below(folder, *skip)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "files_below", with_leftovers)
    staged = stage(spark.range(2, numPartitions=1), str(tmp_path), "batch-1", ())

    assert sorted((f.rows, dict(f.partition)) for f in staged.files) == [
        (1, {"_day": "1"}),
        (2, {}),
    ]
