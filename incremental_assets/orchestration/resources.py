"""What the assets are handed: a lazy Spark session, and the lakehouse over it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from threading import Lock
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables
from incremental_assets.load import Lakehouse
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session


class SparkResource(LazyPySparkResource):
    """Starts Spark when a load first asks for it, as the settings say; `spark_config` wins.

    A run with nothing to do starts none. Raises SparkUnavailableError with the remedy.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> SparkSession:
        extra = tuple(sorted((name, str(value)) for name, value in self.spark_config.items()))
        with _STARTING:  # tables that load at once ask at once
            return _session(Settings.from_environment(), extra)


_STARTING = Lock()


@lru_cache(maxsize=1)
def _session(settings: Settings, extra: tuple[tuple[str, str], ...]) -> SparkSession:
    """One session a process: Dagster copies a resource for each run."""
    return start_session(settings, dict(extra))


def lakehouse(spark: SparkResource, say: Callable[[str], None]) -> Lakehouse:
    """The lakehouse of the environment's settings."""
    return Lakehouse(
        Settings.from_environment(),
        tables(),
        lambda: spark.spark_session,
        lambda: datetime.now(UTC),
        say,
    )
