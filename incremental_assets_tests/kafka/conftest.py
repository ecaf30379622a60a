"""The broker of a test run, and a topic for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets.spark.optional_jars import resolve_set
from incremental_assets_tests.feeds.conftest import lake
from incremental_assets_tests.kafka.broker import Broker

__all__ = ["lake"]

_numbers = count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of the test run, and what Spark reads it by."""
    resolve_set("kafka", PROJECT_ROOT / ".cache", Settings.from_environment().java_home)
    with Broker.started(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of one partition that no other test uses."""
    name = f"test.{next(_numbers)}"
    broker.create(name)
    return name
