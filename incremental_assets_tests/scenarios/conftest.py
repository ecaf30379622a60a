from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import Settings
from incremental_assets_tests.scenarios.world import World


@pytest.fixture
def world(spark: SparkSession, settings: Settings) -> World:
    return World(spark, settings)
