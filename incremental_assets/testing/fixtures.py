"""The fixtures: one Spark for a test run, and a lake for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session
from incremental_assets.testing.lake import Lake

SMALL_ROWS = {
    # A test plans many queries over a few rows: compiling each costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings of a Spark that loads a few rows at a time."""
_ELSEWHERE = ("SPARK_REMOTE", "SPARK_MASTER")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One embedded Spark with Delta for all tests, wherever the loads of the project run."""
    with pytest.MonkeyPatch.context() as environment:
        for name in _ELSEWHERE:
            environment.delenv(name, raising=False)
        warehouse = str(tmp_path_factory.mktemp("spark") / "warehouse")
        try:
            settings = Settings.from_environment()
            session = start_session(settings, SMALL_ROWS | {"spark.sql.warehouse.dir": warehouse})
        except SparkUnavailableError as error:
            pytest.fail(str(error), pytrace=False)
        yield session
        session.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """An empty lake and an empty landing, in the test's own folder."""
    return Lake(spark, tmp_path / "lakehouse")
