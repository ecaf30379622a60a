"""The resources of assets and jobs: a lazy Spark session, and the lakehouse of their tables."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from threading import current_thread, main_thread
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.sql import SparkSession

from incremental_assets.lakehouse import Lakehouse
from incremental_assets.orchestration.naming import Naming
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session
from incremental_assets.table import Table


class SparkResource(LazyPySparkResource):
    """Starts Spark when a load first needs it, by the settings; `spark_config` wins.

    A run with nothing to do starts none. Raises SparkUnavailableError with the remedy.
    """

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> SparkSession:
        """The session by the settings of the environment."""
        return self.session(Settings.from_environment())

    def session(self, settings: Settings) -> SparkSession:
        """The session of this process; lakes with the same settings of Spark share it."""
        extra = tuple(sorted((name, str(value)) for name, value in self.spark_config.items()))
        session = _session(settings, extra)
        if settings.spark_remote:
            self._spark_session = session
        return session

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Leave a Spark Connect server, which would keep the session of a process that is gone."""
        del context
        if self._spark_session is not None:
            self._spark_session.stop()
            self._spark_session = None
            _session.cache_clear()


@lru_cache(maxsize=8)
def _session(settings: Settings, extra: tuple[tuple[str, str], ...]) -> SparkSession:
    """One session a process for each lake: Dagster copies a resource for each run."""
    with _own_interrupts():
        return start_session(settings, dict(extra))


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark would handle a Ctrl-C by calls to Java from then on; here Dagster ends the step."""
    if current_thread() is not main_thread():  # signals belong to that one
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class LakehouseResource:
    """The tables and the settings that the assets and jobs of one set of tables share."""

    tables: tuple[Table, ...]
    settings: Settings

    def open(self, spark: SparkResource, log: Callable[[str], None]) -> Lakehouse:
        """The lakehouse, with a Spark that it starts when it first needs one."""
        return Lakehouse(
            self.settings,
            self.tables,
            lambda: spark.session(self.settings),
            lambda: datetime.now(UTC),
            log,
        )


def opened(context: dg.OpExecutionContext | dg.AssetExecutionContext, naming: Naming) -> Lakehouse:
    """The lakehouse of a step, by the resources of the set of tables that it belongs to."""
    spark, lakehouse = (getattr(context.resources, key) for key in (naming.spark, naming.lakehouse))
    found: Lakehouse = lakehouse.open(spark, context.log.info)
    return found
