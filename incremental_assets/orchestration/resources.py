"""What the assets are handed: a lazy Spark session, and the lakehouse over it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables
from incremental_assets.load import Lakehouse
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session


class SparkResource(LazyPySparkResource):
    """Starts Spark when a load first asks for it, as the settings say; `spark_config` wins.

    A run with nothing to do starts none. Raises SparkUnavailableError with the remedy.
    """

    spark_config: dict[str, Any] = {}

    @property
    def spark_session(self) -> SparkSession:
        if self._spark_session is None:
            extra = {name: str(value) for name, value in self.spark_config.items()}
            self._spark_session = start_session(Settings.from_environment(), extra)
        session: SparkSession = self._spark_session
        return session


def lakehouse(spark: SparkResource, say: Callable[[str], None]) -> Lakehouse:
    """The lakehouse of the environment's settings."""
    return Lakehouse(
        Settings.from_environment(),
        tables(),
        lambda: spark.spark_session,
        lambda: datetime.now(UTC),
        say,
    )
