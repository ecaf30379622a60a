"""MariaDB as a source, by PyMySQL and MariaDB's JDBC driver."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.database import (
    APPLICATION,
    ROWS,
    SERVER,
    Access,
    DbColumn,
    DbConnection,
    Relation,
    Settled,
    ask,
    utc,
)
from incremental_assets.sources.dialect import LAG, Dialect

# The numbers of types in the protocol.
_WHOLE = {1, 2, 3, 8, 9, 13}  # the last one is a year
_DECIMALS = {0, 246}
_FLOATS = {4, 5}
_KINDS = {7: "instant", 10: "date", 12: "naive"}
_BITS, _GEOMETRY = 16, 255
_TEXTS = {15, 247, 248, 249, 250, 251, 252, 253}
_PADDED = 254  # Spark fills a text of fixed length with blanks
_DIGITS = 38
_TLS = ("disable", "trust", "verify-ca", "verify-full")
# What a URL may have behind it: both drivers, of Python and of Java, take it alike.
_PARAMETERS = ("sslMode", "serverSslCert", "connectTimeout")
# Servers and accounts may set these otherwise, and instants and the number of rows would be others.
_VARIABLES = "time_zone='+00:00',sql_select_limit=18446744073709551615"
_ISOLATION = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_OF_JAVA = {
    # Else a tinyint(1) of 2 is true, a year is a date, and of a float there are six digits.
    "tinyInt1isBit": "false",
    "yearIsDateType": "false",
    "useServerPrepStmts": "true",
    # The server ends a connection to whom it cannot send for so many seconds.
    "sessionVariables": f"{_VARIABLES},net_write_timeout=3600",
    "connectionAttributes": f"program_name:{APPLICATION}",
    "sessionInitStatement": _ISOLATION,
}
_DENIED = 1227
# A statement has the time of its own start, also while it waits to begin its transaction.
_RUNNING = """
SELECT ID, COMMAND, UTC_TIMESTAMP(6) - INTERVAL TIME_MS * 1000 MICROSECOND
FROM information_schema.PROCESSLIST
WHERE ID <> CONNECTION_ID() AND TIME_MS > 0
  AND COMMAND NOT IN ('Sleep', 'Daemon', 'Connect', 'Binlog Dump')
"""
_TRANSACTIONS = """
SELECT trx_mysql_thread_id, trx_is_read_only, {started} FROM information_schema.INNODB_TRX
"""
_COMMITTED_ELSEWHERE = """
SHOW GLOBAL VARIABLES WHERE Value <> 'OFF' AND Variable_name IN ('read_only', 'wsrep_on')
"""
# The server shows transactions as they were when they were last asked for, for a tenth of a second.
_STALE, _TRIES = 0.12, 25
_JSON = """
SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s
"""
_BYTES = """
SELECT AVG_ROW_LENGTH FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
"""
_JSON_VALID = re.compile(r"json_valid\(`(.*)`\)", re.DOTALL)
_IS_OF_A_VALUE = re.compile(r"Identifier name '(.* is \d{4}-\d\d-\d\d(?: [\d:.]+)?)")


class MariaDb(Dialect):
    """MariaDB, of which no two connections can read as of one moment."""

    driver: ClassVar[str] = "org.mariadb.jdbc.Driver"
    quote: ClassVar[str] = "`"
    package: ClassVar[str] = "pymysql"
    extra: ClassVar[str] = "mariadb"
    shares_moment: ClassVar[bool] = False
    remedy: ClassVar[str] = (
        "a value that Spark cannot hold stays an error: pass a query that converts it, such as "
        "IF(MONTH(…) = 0, NULL, …) or a cast to CHAR"
    )

    def require_url(self, url: str) -> None:
        _address(url)

    def connect(self, access: Access) -> DbConnection:
        import pymysql  # deferred: an extra

        found: DbConnection = pymysql.connect(
            **_address(access.url),
            **_tls(access.url),
            user=access.user,
            password=access.password.encode(),
            charset="utf8mb4",
            autocommit=True,
            program_name=APPLICATION,
        )
        cursor = found.cursor()
        cursor.execute(_ISOLATION)
        cursor.execute(f"SET {_VARIABLES}")
        ((version,),) = ask(found, "SELECT VERSION()")
        if "mariadb" not in version.lower():
            found.close()
            raise SourceError(
                f"{access.url.partition('?')[0]}: the server is {version}, not MariaDB, and "
                "answers some questions otherwise. Nothing was loaded; land its rows as files, or "
                "read its change log."
            )
        return found

    def spark_url(self, url: str) -> str:
        """Spark quotes names with back quotes in URLs of MySQL alone, which the driver takes, too.

        With others, a name would be a text of the same letters.
        """
        where, _, given = url.removeprefix("jdbc:mariadb:").partition("?")
        return f"jdbc:mysql:{where}?permitMysqlScheme{given and '&'}{given}"

    def columns(self, connection: DbConnection, relation: Relation) -> Sequence[DbColumn]:
        cursor = connection.cursor()
        cursor.execute(f"SELECT * FROM {relation} {ROWS} WHERE 1 = 0")
        found = list(cursor.description)
        digits = _digits(self, connection, relation, found)
        json = _json_columns(connection, relation)
        return [
            self._column(each, digits.get(each[0], 0), is_json=each[0] in json) for each in found
        ]

    def _column(self, found: Any, digits: int, *, is_json: bool) -> DbColumn:
        """The column, as the driver describes it. Of a type that Spark would change, the text."""
        name, kind, length = found[0], found[1], found[3]
        at = self.quoted(name)
        if kind in _KINDS:
            return self._of_time(name, _KINDS[kind])
        if kind in _WHOLE or kind in _DECIMALS:
            value = at if digits <= _DIGITS else f"CAST({at} AS CHAR) AS {at}"
            return DbColumn(name, value, "number", compared=at)
        value = f"CAST({at} AS CHAR) AS {at}"
        if kind in _TEXTS or kind in _FLOATS or (kind == _BITS and length == 1):
            value = at
        elif kind == _PADDED:
            value = f"CONCAT({at}) AS {at}"
        elif kind == _BITS:
            value = f"CAST({at} AS UNSIGNED) AS {at}"
        elif kind == _GEOMETRY:
            value = f"ST_AsBinary({at}) AS {at}"
        # Of a float with all its digits.
        compared = f"({at} + 0e0)" if kind in _FLOATS else f"MD5({at})"
        return DbColumn(name, value, is_json=is_json, compared=compared)

    def _of_time(self, name: str, kind: str) -> DbColumn:
        """A column of instants or dates; one that Spark has no value for is an error.

        The server has none to raise, so its condition asks for a lock of too long a name, and what
        stands behind the condition keeps the type of the column.
        """
        at = self.quoted(name)
        column = DbColumn(name, at, kind, compared=at)
        shown = f"CONVERT(x'{name.encode().hex()}' USING utf8mb4)"
        error = f"IS_USED_LOCK(RPAD(CONCAT({shown}, ' is ', {at}), 200, ' '))"
        value = f"IF({self.odd(column)} AND {error} IS NULL, NULL, {at}) AS {at}"
        return replace(column, value=value)

    def clock(self, connection: DbConnection) -> datetime:
        return utc(ask(connection, "SELECT UTC_TIMESTAMP(6)")[0][0])

    def settled(self, connection: DbConnection) -> Settled:
        clock = self.clock(connection)
        if ask(connection, _COMMITTED_ELSEWHERE):
            raise SourceError(
                "the server is read-only or in a cluster, and does not know the transactions that "
                f"are open elsewhere; {LAG}"
            )
        running, transactions = _open(connection)
        if any(command.startswith("Slave") for _, command, _ in running):
            raise SourceError(
                f"a replica does not know the transactions that are open at its primary; {LAG}"
            )
        if not all(thread for thread, *_ in transactions) and ask(connection, "XA RECOVER"):
            raise SourceError(
                "a prepared transaction (XA RECOVER) has outlived its connection or the server, "
                f"and nobody knows since when it is open; end it, or {LAG}"
            )
        reports = {thread for thread, is_read_only, _ in transactions if is_read_only}
        begun = [at for thread, _, at in (*running, *transactions) if thread not in reports]
        until = min((clock, *map(utc, begun)))
        why = "" if until == clock else "the transaction that is open since then has ended"
        return Settled(until, clock, why)

    def odd(self, column: DbColumn) -> str:
        """Zero dates, dates that no calendar has, and what the Gregorian one counts otherwise."""
        if column.kind not in _KINDS.values():
            return ""
        at = self.quoted(column.name)
        return (
            f"({at} < '1582-10-15' OR MONTH({at}) = 0 OR DAYOFMONTH({at}) = 0 "
            f"OR DAYOFMONTH({at}) > DAYOFMONTH(LAST_DAY({at})))"
        )

    def text(self, value: str) -> str:
        return f"CAST({value} AS CHAR)"

    def number(self, value: str) -> str:
        return f"CAST({value} AS DECIMAL(65, 30))"

    def day_of(self, column: DbColumn) -> str | None:
        return f"DATE({self.quoted(column.name)})" if column.kind in _KINDS.values() else None

    def bound(self, column: DbColumn, at: datetime) -> str:
        return self.literal(at)

    def content(self, columns: Sequence[DbColumn]) -> str:
        """Texts by their hash: whatever is in them or however long, each has its place."""
        values = ", ".join(f"IFNULL({column.compared}, '-')" for column in columns)
        return self.content_of(f"CONCAT_WS(',', {values})")

    def content_of(self, value: str) -> str:
        return f"SUM(CAST(CONV(LEFT(MD5({value}), 16), 16, 10) AS UNSIGNED))"

    def row_bytes(self, connection: DbConnection, relation: Relation) -> int:
        found = _of_table(connection, _BYTES, relation)
        return int(found[0][0] or 100) if found else 100

    def literal(self, value: Any) -> str:
        if isinstance(value, datetime):
            return f"TIMESTAMP '{utc(value).replace(tzinfo=None).isoformat(' ', 'microseconds')}'"
        return f"DATE '{value}'" if isinstance(value, date) else str(value)

    def of_value(self, reason: str) -> str | None:
        found = _IS_OF_A_VALUE.search(reason)
        return found and found[1]

    @contextmanager
    def moment(self, access: Access) -> Iterator[Mapping[str, str]]:
        """No option makes several connections, or queries, see one moment."""
        yield _OF_JAVA


def _digits(
    dialect: Dialect, connection: DbConnection, relation: Relation, found: Sequence[Any]
) -> Mapping[str, int]:
    """How many digits the decimals among the columns have.

    The driver gives their length, and not whether they have a sign; with another number in its
    place, which the server does not come to read, each has one.
    """
    names = [name for name, kind, *_ in found if kind in _DECIMALS]
    if not names:
        return {}
    signed = ", ".join(f"COALESCE(MAX({dialect.quoted(name)}), -1)" for name in names)
    cursor = connection.cursor()
    cursor.execute(f"SELECT {signed} FROM {relation} {ROWS} WHERE 1 = 0")
    return {
        name: length - 1 - (scale > 0)  # the sign and the point
        for name, (_, _, _, length, _, scale, _) in zip(names, cursor.description, strict=True)
    }


def _json_columns(connection: DbConnection, relation: Relation) -> set[str]:
    """The columns of a table that were declared as JSON: texts with a constraint."""
    clauses = [clause for (clause,) in _of_table(connection, _JSON, relation)]
    return {found[1].replace("``", "`") for found in map(_JSON_VALID.fullmatch, clauses) if found}


def _of_table(connection: DbConnection, query: str, relation: Relation) -> Sequence[Any]:
    """What the catalog has of a table; nothing of a query."""
    if not relation.names:
        return ()
    *named, table = relation.names
    ((own,),) = ask(connection, "SELECT DATABASE()")
    cursor = connection.cursor()
    cursor.execute(query, (named[-1] if named else own, table))
    found: Sequence[Any] = cursor.fetchall()
    return found


def _open(connection: DbConnection) -> tuple[Sequence[Any], Sequence[Any]]:
    """The statements that run, and the open transactions: a thread, what it is, since when.

    What the server shows may be older while others ask, so it is asked until a transaction that was
    begun for this is among them.
    """
    import pymysql  # deferred: an extra

    ((own,),) = ask(connection, "SELECT CONNECTION_ID()")
    for _ in range(_TRIES):
        time.sleep(_STALE)
        connection.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            running = ask(connection, _RUNNING)
            found = ask(connection, _TRANSACTIONS.format(started=_in_utc("trx_started")))
        except pymysql.OperationalError as error:
            if error.args[0] != _DENIED:
                raise
            raise SourceError(
                "the user may not see since when other transactions are open, which may still "
                f"bring rows below the watermark; GRANT PROCESS ON *.* to it, or {LAG}"
            ) from error
        finally:
            connection.cursor().execute("ROLLBACK")
        others = [each for each in found if each[0] != own]
        if len(others) < len(found):
            return running, others
    raise SourceError(f"the server does not show which transactions are open; {LAG}")


def _in_utc(value: str) -> str:
    """A time in the zone of the server's system; in the hour that comes twice a year, the first."""
    once = f"CONVERT_TZ({value}, 'SYSTEM', '+00:00')"
    before = f"({once} - INTERVAL 1 HOUR)"
    return f"IF(CONVERT_TZ({before}, '+00:00', 'SYSTEM') = {value}, {before}, {once})"


def _address(url: str) -> dict[str, Any]:
    """What PyMySQL takes, from a JDBC URL. Raises DefinitionError for one that it cannot be."""
    shown = url.partition("?")[0]
    parts = urlsplit(url.removeprefix("jdbc:"))
    server, database = SERVER.fullmatch(parts.netloc), unquote(parts.path.removeprefix("/"))
    port = int((server and server[2]) or 3306)
    if server is None or not database or "/" in database or port > 65_535:
        raise DefinitionError(
            f"Jdbc: {shown!r}: expected jdbc:mariadb://host:port/database, one host, with "
            "'?sslMode=verify-full' and the like behind it."
        )
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(given.keys() - set(_PARAMETERS))
    timeout = given.get("connectTimeout", "30000")
    if unknown or not timeout.isdecimal() or given.get("sslMode", "disable") not in _TLS:
        raise DefinitionError(
            f"Jdbc: {shown!r} has {unknown or given} behind it; expected of "
            f"{', '.join(_PARAMETERS)}: sslMode is one of {', '.join(_TLS)}, serverSslCert the "
            "path of a certificate in PEM, connectTimeout in milliseconds."
        )
    return {
        "host": server[1].strip("[]"),
        "port": port,
        "database": database,
        "connect_timeout": max(1, int(timeout) // 1000),
    }


def _tls(url: str) -> dict[str, Any]:
    """How PyMySQL encrypts, from a JDBC URL; as the JDBC driver, not at all if nothing is said."""
    given = dict(parse_qsl(urlsplit(url.removeprefix("jdbc:")).query))
    mode = given.get("sslMode", "disable")
    if mode == "disable":
        return {"ssl_disabled": True}
    context = ssl.create_default_context(cafile=given.get("serverSslCert"))
    context.check_hostname = mode == "verify-full"
    if mode == "trust":
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}
