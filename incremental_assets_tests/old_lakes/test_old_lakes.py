"""Lakes, ledgers and targets that older versions have left are loaded on, and proved."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets.verifying import verify
from incremental_assets_tests.end_to_end.loaders_rounds import (
    APPENDED,
    COPIED,
    LIVE,
    NUMBERED,
    VERSIONS,
    load_all,
)
from incremental_assets_tests.end_to_end.test_own_tables import contents, deliver
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.old_lakes.make import DAYS, HERE, lake_in
from incremental_assets_tests.thorough import thorough

VERSIONS_BEFORE = sorted(file.name.removesuffix(".tar.gz") for file in HERE.glob("*.tar.gz"))


@pytest.fixture(params=VERSIONS_BEFORE)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What an older version has left, in another folder than it was made in."""
    folder = tmp_path / "old"
    with tarfile.open(HERE / f"{request.param}.tar.gz") as kept:
        kept.extractall(folder, filter="data")
    return folder


def loaded_on(old: Path, spark: SparkSession) -> Lake:
    lake = lake_in(old, spark)
    deliver(lake, 3)
    lake.load(DAYS)
    lake.load_stale()
    return lake


def test_a_lake_of_an_older_version_is_loaded_on_and_is_what_a_new_one_would_be(
    old: Path, spark: SparkSession
) -> None:
    lake = loaded_on(old, spark)

    fresh = lake.another("fresh")
    fresh.load(DAYS)
    fresh.load_stale()
    assert contents(lake) == contents(fresh)
    assert lake.reasons("silver/users") == fresh.reasons("silver/users") != []


@thorough(
    "old_lakes/test_old_lakes.py, verifying/test_kinds.py: silver and gold are as of a new one"
)
def test_bronze_of_a_lake_of_an_older_version_is_what_a_rebuild_makes_of_it(
    old: Path, spark: SparkSession
) -> None:
    lake = loaded_on(old, spark)

    assert lake.load(DAYS).keys() == lake.tables.keys()
    for table in (t for t in lake.tables.values() if t.layer == "bronze"):
        found = verify(lake.lakehouse, table, None)
        assert found.equal, (table.name, found.rows.examples)


@thorough("old_lakes/test_old_lakes.py: tables of a lake, by the same engine")
def test_the_loaders_go_on_in_targets_of_an_older_version(old: Path, spark: SparkSession) -> None:
    files = sorted((old / "feed").iterdir())
    for file in files[2:]:
        shutil.copy(file, old / "source")
    load_all(spark, old)
    fresh = old.parent / "fresh"
    shutil.copytree(old / "feed", fresh / "source")
    load_all(spark, fresh)

    for name in (APPENDED, NUMBERED, LIVE, VERSIONS, COPIED):
        assert shown(spark, old / name) == shown(spark, fresh / name) != [], name


def shown(spark: SparkSession, path: Path) -> list[tuple[object, ...]]:
    rows = spark.read.format("delta").load(str(path))
    rows = rows.select(sorted(c for c in rows.columns if not c.startswith("_")))
    return sorted(map(tuple, rows.collect()), key=repr)
