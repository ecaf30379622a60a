"""Settings that name a catalog: Spark's own, in a schema of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import Settings


@pytest.fixture
def named(settings: Settings, spark: SparkSession) -> Iterator[Settings]:
    """The catalog is that of the Spark of the test run, and in its memory."""
    yield settings.replace(catalog="spark_catalog", catalog_schema="shop_{layer}")
    for layer in ("bronze", "silver", "gold"):
        spark.sql(f"DROP SCHEMA IF EXISTS shop_{layer} CASCADE").collect()
