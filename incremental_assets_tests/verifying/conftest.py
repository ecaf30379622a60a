from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.scenarios.world import World

Lakes = Callable[..., Lake]


@pytest.fixture
def world(spark: SparkSession, settings: Settings) -> World:
    return World(spark, settings)


@pytest.fixture
def lake(spark: SparkSession, settings: Settings) -> Lakes:
    def make(*tables: Table) -> Lake:
        return Lake(spark, settings, *tables)

    return make
