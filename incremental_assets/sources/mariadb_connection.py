"""How MariaDB is connected to: by PyMySQL and by MariaDB's JDBC driver, from one URL."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.database import APPLICATION, SERVER, Access, DbConnection, ask

_TLS = ("disable", "trust", "verify-ca", "verify-full")
_VERIFIED = frozenset({"verify-ca", "verify-full"})
# What a URL may have behind it: both drivers, of Python and of Java, take it alike.
_PARAMETERS = ("sslMode", "serverSslCert", "connectTimeout")
_MILLISECONDS = range(1_000, 3_600_001)
_NUMBER = re.compile(r"[0-9]{1,9}")
# In the URL of the JDBC driver, which decodes nothing, they would end a value.
_ENDS = frozenset("/?&#")
# Servers and accounts may set these otherwise, and instants, the number of rows, texts and the
# answers of the catalog would be others. Nobody waits for longer for a table that is altered.
_VARIABLES = (
    "time_zone='+00:00',sql_select_limit=18446744073709551615,sql_mode='',sql_quote_show_create=1,"
    "lock_wait_timeout=300"
)
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
# A server may take long to hash all rows of a table, and sends nothing meanwhile.
_SECONDS_TO_ANSWER, _SECONDS_TO_SEND = 3600, 60
_OF_JAVA = {
    # Else a tinyint(1) of 2 is true, a year is a date, and of a float there are six digits.
    "tinyInt1isBit": "false",
    "yearIsDateType": "false",
    "useServerPrepStmts": "true",
    # The server ends a connection to whom it cannot send for so many seconds.
    "sessionVariables": f"{_VARIABLES},net_write_timeout=3600",
    "connectionAttributes": f"program_name:{APPLICATION}",
    "sessionInitStatement": _ISOLATION,
    # A query may take as long as it needs; a server that is gone is noticed meanwhile.
    "tcpKeepAlive": "true",
    "tcpKeepIdle": "60",
}
# Ways to log in that send the password itself, or encrypt it with a key that the server gives.
_PLAIN_TEXT = (
    "mysql_clear_password",
    "dialog",
    "sha256_password",
    "caching_sha2_password",
    "mysql_old_password",
)
# Those that answer a challenge, from which nobody learns the password.
_CHALLENGES = "mysql_native_password,client_ed25519,parsec"


@dataclass(frozen=True, slots=True)
class Address:
    """What a JDBC URL states: the server, the database, how it is encrypted; milliseconds."""

    host: str
    port: int
    database: str
    ssl_mode: str = "disable"
    certificate: str = ""
    connect_timeout: int = 30_000

    @property
    def is_verified(self) -> bool:
        """Whether the server's certificate shows that it is the one that is meant."""
        return self.ssl_mode in _VERIFIED

    @property
    def spark_url(self) -> str:
        """The JDBC URL as Spark is given it.

        Spark quotes names with back quotes in URLs of MySQL alone, which the driver takes, too.
        With others, a name would be a text of the same letters.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        given = f"&sslMode={self.ssl_mode}&connectTimeout={self.connect_timeout}"
        if self.certificate:
            given += f"&serverSslCert={self.certificate}"
        return f"jdbc:mysql://{host}:{self.port}/{self.database}?permitMysqlScheme=true{given}"


def address_of(url: str) -> Address:
    """What a JDBC URL states. Raises DefinitionError for one that the drivers do not take alike."""
    shown = url.partition("?")[0].partition("#")[0]
    parts = urlsplit(url.removeprefix("jdbc:"))
    server, database = SERVER.fullmatch(parts.netloc), unquote(parts.path.removeprefix("/"))
    port = int((server and server[2]) or 3306)
    if server is None or not database or _ENDS & set(database) or port > 65_535 or "#" in url:
        raise DefinitionError(
            f"Jdbc: {shown!r}: expected jdbc:mariadb://host:port/database, one host, with "
            "'?sslMode=verify-full' and the like behind it, without '#'."
        )
    given = _parameters(parts.query, shown)
    mode, certificate = given.get("sslMode", "disable"), given.get("serverSslCert", "")
    timeout = given.get("connectTimeout", "30000")
    unknown = sorted(given.keys() - set(_PARAMETERS))
    is_bounded = _NUMBER.fullmatch(timeout) and int(timeout) in _MILLISECONDS
    if unknown or not is_bounded or mode not in _TLS or "&" in certificate:
        raise DefinitionError(
            f"Jdbc: {shown!r} has {unknown or given} behind it; expected of "
            f"{', '.join(_PARAMETERS)}: sslMode is one of {', '.join(_TLS)}, serverSslCert the "
            f"path of a certificate in PEM, connectTimeout {_MILLISECONDS[0]} to "
            f"{_MILLISECONDS[-1]} milliseconds."
        )
    if "serverSslCert" in given and (mode not in _VERIFIED or not certificate):
        raise DefinitionError(
            f"Jdbc: {shown!r} has a serverSslCert without sslMode=verify-full or verify-ca, so "
            "that nothing would be verified by it; add one, or leave the certificate out."
        )
    return Address(server[1].strip("[]"), port, database, mode, certificate, int(timeout))


def _parameters(query: str, shown: str) -> Mapping[str, str]:
    """What stands behind the `?`; a `+` is a plus."""
    found: dict[str, str] = {}
    for name, _, value in (each.partition("=") for each in query.split("&") if each):
        if name in found:
            raise DefinitionError(f"Jdbc: {shown!r} has {name} twice behind it; give it once.")
        found[name] = unquote(value)
    return found


def java_options(url: str) -> Mapping[str, str]:
    """Options of Spark's reader, by which the sessions of the JDBC driver are like PyMySQL's."""
    if address_of(url).is_verified:
        return _OF_JAVA
    return _OF_JAVA | {"restrictedAuth": _CHALLENGES}


def connected(access: Access) -> DbConnection:
    """A connection of PyMySQL to a server that is MariaDB, in which each query is of its own."""
    import pymysql  # deferred: an extra

    at, shown = address_of(access.url), access.url.partition("?")[0]
    try:
        found: DbConnection = pymysql.connect(
            host=at.host,
            port=at.port,
            database=at.database,
            user=access.user,
            password=access.password.encode(),
            connect_timeout=at.connect_timeout // 1000,
            read_timeout=_SECONDS_TO_ANSWER,
            write_timeout=_SECONDS_TO_SEND,
            charset="utf8mb4",
            autocommit=True,
            program_name=APPLICATION,
            auth_plugin_map={} if at.is_verified else _refusing(shown),
            **_tls(at, shown),
        )
    except RuntimeError as error:  # a way to log in that needs another package
        raise SourceError(
            f"{shown}: {error}. Nothing was loaded; pip install PyNaCl for an account by ed25519, "
            "cryptography for one by sha256_password, or let the account use mysql_native_password."
        ) from error
    try:
        cursor = found.cursor()
        cursor.execute(_ISOLATION)
        cursor.execute(f"SET {_VARIABLES}")
        ((version,),) = ask(found, "SELECT VERSION()")
        if "mariadb" not in version.lower():
            raise SourceError(
                f"{shown}: the server is {version}, not MariaDB, and answers some queries "
                "differently. Nothing was loaded; land its rows as files, or read its change log."
            )
    except BaseException:
        found.close()
        raise
    return found


def _tls(at: Address, shown: str) -> dict[str, Any]:
    """How PyMySQL encrypts; as the JDBC driver, not at all if nothing is set."""
    if at.ssl_mode == "disable":
        return {"ssl_disabled": True}
    try:
        context = ssl.create_default_context(cafile=at.certificate or None)
    except OSError as error:
        raise SourceError(
            f"{shown}: serverSslCert: {error.strerror or error}: {at.certificate}. Nothing was "
            "loaded; name a certificate in PEM that there is on this machine and those of Spark."
        ) from error
    context.check_hostname = at.ssl_mode == "verify-full"
    if not at.is_verified:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def _refusing(shown: str) -> Mapping[str, Any]:
    """What PyMySQL asks for an answer, by the names of the ways to log in that are refused."""
    return {plugin: partial(_Refused, shown, plugin) for plugin in _PLAIN_TEXT}


@dataclass(frozen=True, slots=True)
class _Refused:
    shown: str
    plugin: str
    connection: Any

    def authenticate(self, _packet: Any) -> Any:
        raise SourceError(
            f"{self.shown}: the server asks for the password itself ({self.plugin}), which only a "
            "server gets whose certificate was verified. Nothing was loaded; add "
            "sslMode=verify-full to the URL, or let the account use another plugin."
        )
