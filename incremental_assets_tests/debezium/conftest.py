"""PostgreSQL, the connector and the broker of a test run, and a shop for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from itertools import count

import pytest

from incremental_assets_tests.databases.conftest import database, postgresql
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.debezium.connector import Worker
from incremental_assets_tests.debezium.shop import Shop
from incremental_assets_tests.feeds.conftest import Lakes, lake
from incremental_assets_tests.kafka.broker import Broker
from incremental_assets_tests.kafka.conftest import broker

__all__ = ["broker", "database", "lake", "postgresql"]

_numbers = count(1)


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Worker]:
    """The Connect worker of the test run."""
    Worker.brokers = broker.url
    with Worker.started(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def shop(lake: Lakes, database: Database, broker: Broker, worker: Worker) -> Iterator[Shop]:
    """A shop's database whose changes a connector sends, and a lake over its topics."""
    found = Shop(lake, database, broker, worker, f"shop{next(_numbers)}")
    yield found
    with suppress(HTTPException, OSError):  # a test that failed may have left no connector
        worker.disconnect(found.name)
