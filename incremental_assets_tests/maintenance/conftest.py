"""A small lake that was loaded, and maintenance of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables
from incremental_assets.delta.compact import CompactionLimits
from incremental_assets.maintenance import (
    MaintainedTable,
    MaintenanceOptions,
    MaintenanceResult,
    maintain,
)
from incremental_assets.plan import merge_or_rebuild
from incremental_assets.settings import Settings
from incremental_assets_tests.scenarios.world import World

# Two files are compacted already, and a load that has the lock is not waited for.
EAGER = MaintenanceOptions(limits=CompactionLimits(min_files=2), lock_seconds=0)


@dataclass(frozen=True)
class Maintained:
    """A world, and what maintains it; `later` is how far its clock is ahead."""

    world: World
    spark: Callable[[], SparkSession]

    def run(
        self, asked: MaintenanceOptions = EAGER, later: timedelta = timedelta(0)
    ) -> dict[str, MaintainedTable]:
        return {kept.name: kept for kept in self.report(asked, later).tables}

    def report(
        self, asked: MaintenanceOptions = EAGER, later: timedelta = timedelta(0)
    ) -> MaintenanceResult:
        now = datetime.now(UTC) + later
        return maintain(self.world.settings, tables(), self.spark, now, asked)

    def without_spark(self) -> Maintained:
        def none() -> SparkSession:
            raise AssertionError("Spark is asked for, and there is nothing to compact")

        return replace(self, spark=none)


@pytest.fixture(autouse=True)
def merging_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gold is merged where it can be, as in a large lake, however few rows it has."""
    monkeypatch.setattr(merge_or_rebuild, "SMALL_DAY", 0)
    monkeypatch.setattr(merge_or_rebuild, "MERGED_SHARE", 1000)


@pytest.fixture
def kept(spark: SparkSession, settings: Settings) -> Maintained:
    return Maintained(World(spark, settings), lambda: spark)
