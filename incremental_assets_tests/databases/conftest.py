"""The servers of a test run, and a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from incremental_assets_tests.databases import mariadb as of_mariadb
from incremental_assets_tests.databases.binaries import NoProgramsError
from incremental_assets_tests.databases.postgresql import Database, PostgreSQL
from incremental_assets_tests.databases.server import LOADER, PASSWORD, Server
from incremental_assets_tests.feeds.conftest import lake

__all__ = ["lake"]

AnyServer = TypeVar("AnyServer", bound=Server)

_numbers = count(1)


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """The PostgreSQL of the test run. A test that stops it starts it again."""
    with _started(PostgreSQL, tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture
def database(postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A PostgreSQL database that no other test uses; loads read it as `loader`."""
    monkeypatch.setenv("DATABASE_USER", LOADER)
    monkeypatch.setenv("DATABASE_PASSWORD", PASSWORD)
    return postgresql.database(f"test_{next(_numbers)}")


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[of_mariadb.MariaDB]:
    """The MariaDB of the test run."""
    with _started(of_mariadb.MariaDB, tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture
def maria(mariadb: of_mariadb.MariaDB, monkeypatch: pytest.MonkeyPatch) -> of_mariadb.Database:
    """A MariaDB database that no other test uses; loads read it as `loader`."""
    monkeypatch.setenv("DATABASE_USER", LOADER)
    monkeypatch.setenv("DATABASE_PASSWORD", PASSWORD)
    return mariadb.database(f"test_{next(_numbers)}")


@contextmanager
def _started(kind: type[AnyServer], folder: Path) -> Iterator[AnyServer]:
    """The server; its tests are left out where there are no programs for the machine."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(kind.started(folder))
        except NoProgramsError as error:
            pytest.skip(str(error))
        yield server
