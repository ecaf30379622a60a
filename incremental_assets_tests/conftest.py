"""What tests share: an environment of their own, settings in a temporary folder, one Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import PREFIX, PROJECT_ROOT, Settings
from incremental_assets.spark.server import free_port
from incremental_assets.spark.session import server_conf, start_session
from incremental_assets.spark.sizing import LARGE, SMALL
from incremental_assets.testing.fixtures import SMALL_ROWS
from incremental_assets_tests.made_once import MadeOnce

_FOREIGN = ("DAGSTER_HOME", "SPARK_REMOTE", "SPARK_MASTER")
# Room for what a test leaves behind, so that it is collected a few times a minute, not a second,
# and for the classes of Spark, which would cause five full collections while it starts.
_ROOM = ("-Xms1g", "-Xmn450m", "-XX:MetaspaceSize=400m")
# The processes of the tests leave no core idle, and their loads are small: the first compiler alone
# took 7 % less of the processors' time, of 463 tests.
_SIZES = (" ".join(LARGE), " ".join(SMALL))
_LOCALHOST, _PORT = "127.0.0.1", "spark.connect.grpc.binding.port"


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "where the browser's tests put the pictures of the documentation; `make pictures`"
    parser.addoption("--pictures", type=Path, metavar="FOLDER", help=what)


@pytest.fixture(scope="session", autouse=True)
def _own_environment() -> Iterator[None]:
    """No test sees how the machine or its user set the project up."""
    with pytest.MonkeyPatch.context() as environment:
        for name in list(os.environ):
            if name.startswith(PREFIX) or name in _FOREIGN:
                environment.delenv(name)
        yield


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings whose lake and landing lie in the test's own folder; only the landing exists."""
    landing = tmp_path / "landing"
    landing.mkdir()
    return _settings_in(tmp_path)


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that Spark logs its events to, one JSON object a line."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, event_log: Path) -> Iterator[SparkSession]:
    """The embedded Spark of the test run; for commands in other processes a Connect server, too."""
    folder = tmp_path_factory.mktemp("spark")
    java_options = server_conf(_settings_in(folder))["spark.driver.extraJavaOptions"]
    session = start_session(
        _settings_in(folder),
        {
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            # The end-to-end tests run the embedded Spark as it is.
            **SMALL_ROWS,
            "spark.driver.extraJavaOptions": " ".join([java_options.replace(*_SIZES), *_ROOM]),
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": _LOCALHOST,
            _PORT: str(free_port()),
            # What a load costs is counted from Spark's own event log.
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{event_log}",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            # Of what is over, nothing is kept for a user interface.
            "spark.ui.retainedJobs": "50",
            "spark.ui.retainedStages": "50",
            "spark.ui.retainedTasks": "1",
            "spark.sql.ui.retainedExecutions": "1",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(spark: SparkSession) -> str:
    """The URL at which the Spark of the test run serves other processes."""
    return f"sc://{_LOCALHOST}:{spark.conf.get(_PORT)}"


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    return MadeOnce(tmp_path_factory.mktemp("made"))


def _settings_in(folder: Path) -> Settings:
    return Settings(
        lake=str(folder / "lake"),
        landing=str(folder / "landing"),
        start_date=date(2017, 1, 1),
        cache=PROJECT_ROOT / ".cache",
        driver_memory="1g",
        java_home=Settings.from_environment().java_home,
    )
