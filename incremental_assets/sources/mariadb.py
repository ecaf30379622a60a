"""MariaDB and MySQL as a source, by PyMySQL and the JDBC driver of MariaDB."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.database import (
    ROWS,
    Access,
    Days,
    DbColumn,
    DbConnection,
    Dialect,
    RowsState,
    Settled,
    ask,
    utc,
)

# By their numbers in the protocol.
_TIMESTAMP, _DATETIME, _DATE, _TIME, _BIT, _DECIMAL, _GEOMETRY = 7, 12, 10, 11, 16, 246, 255
_NUMBERS = {1, 2, 3, 8, 9, 13, _DECIMAL}
_KINDS = {
    **dict.fromkeys(_NUMBERS, "number"),
    _TIMESTAMP: "instant",
    _DATETIME: "naive",
    _DATE: "date",
}
_DIGITS = 38
_AHEAD = timedelta(minutes=5)
# The start of a transaction is kept in seconds, and of its first statement a moment later.
_BEFORE = timedelta(seconds=2)
_NO_RIGHT = 1227
_OPEN = """
SELECT TIMESTAMPDIFF(SECOND, MIN(trx_started), NOW()) FROM information_schema.innodb_trx
WHERE trx_is_read_only = 0 AND trx_mysql_thread_id <> CONNECTION_ID()
"""
_EPOCH = "'1970-01-01'"


class MariaDb(Dialect):
    """MariaDB, from version 10.5 on, and MySQL, from version 8 on."""

    driver: ClassVar[str] = "org.mariadb.jdbc.Driver"
    quote: ClassVar[str] = "`"
    package: ClassVar[str] = "pymysql"
    extra: ClassVar[str] = "mariadb"

    def connect(self, access: Access) -> DbConnection:
        import pymysql  # deferred: an extra

        found: DbConnection = pymysql.connect(
            **_address(access.url),
            user=access.user,
            password=access.password,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET time_zone = '+00:00'",
        )
        return found

    def spark_url(self, url: str) -> str:
        """Spark knows MySQL's types and quotes by the name of its scheme."""
        where, _, parameters = url.partition("?")
        own = "permitMysqlScheme&tinyInt1isBit=false&yearIsDateType=false&timezone=UTC"
        where = where.replace("jdbc:mariadb:", "jdbc:mysql:", 1)
        return f"{where}?{parameters}&{own}" if parameters else f"{where}?{own}"

    def column(self, found: Any) -> DbColumn:
        """Of a type that Spark would change, the text: no digit is lost, and no kind of value."""
        name, kind, length = found[0], found[1], found[3] or 0
        at = self.quoted(name)
        if kind == _BIT:
            return DbColumn(name, f"CAST({at} AS UNSIGNED) AS {at}")
        if kind == _GEOMETRY:
            return DbColumn(name, f"ST_AsText({at}) AS {at}")
        if kind == _TIME or (kind == _DECIMAL and length - 2 > _DIGITS):
            return DbColumn(name, f"CAST({at} AS CHAR) AS {at}", _KINDS.get(kind, ""))
        return DbColumn(name, at, _KINDS.get(kind, ""))

    def clock(self, connection: DbConnection) -> datetime:
        return utc(ask(connection, "SELECT UTC_TIMESTAMP(6)")[0][0])

    def settled(self, connection: DbConnection) -> Settled:
        import pymysql  # deferred: an extra

        clock = self.clock(connection)
        # The start of a transaction is told in the time of the server.
        connection.cursor().execute("SET time_zone = 'SYSTEM'")
        try:
            ((seconds,),) = ask(connection, _OPEN)
        except pymysql.Error as error:
            if error.args[0] != _NO_RIGHT:
                raise
            raise SourceError(
                "the user may not see since when other transactions are open, which may still "
                "bring rows below the watermark; GRANT PROCESS ON *.* to it, or name a time by "
                "which they have ended: lag=timedelta(minutes=…)"
            ) from error
        finally:
            connection.cursor().execute("SET time_zone = '+00:00'")
        if seconds is None:
            return Settled(clock, clock)
        until = clock - timedelta(seconds=max(0, int(seconds))) - _BEFORE
        return Settled(until, clock, "the transaction that is open since then has ended")

    def unsettled(self, column: DbColumn, settled: Settled) -> str:
        at, until, ahead = self.quoted(column.name), settled.until, settled.clock + _AHEAD
        if column.kind == "date":  # the day of the watermark is always read again
            return f"({at} > {self.literal(until.date())} AND {at} <= {self.literal(ahead.date())})"
        if column.kind not in ("instant", "naive"):
            return ""
        return f"({at} >= {self.literal(until)} AND {at} <= {self.literal(ahead)})"

    def state(
        self,
        connection: DbConnection,
        relation: str,
        where: str,
        columns: Sequence[DbColumn],
        cursor: DbColumn | None,
    ) -> RowsState:
        rows = f"FROM {relation} {ROWS} {where}"
        content = self._content(columns)
        if cursor is None:
            count, state = ask(connection, f"SELECT COUNT(*), {content} {rows}")[0]
            return RowsState(count, f"{count}:{state}")
        at = self.quoted(cursor.name)
        query = f"SELECT COUNT(*), COUNT({at}), {_sum(at, cursor)}, CAST(MAX({at}) AS CHAR) {rows}"
        count, there, total, top = ask(connection, query)[0]
        last = f"{rows} {'AND' if where else 'WHERE'} {at} = (SELECT MAX({at}) {rows})"
        newest = ask(connection, f"SELECT COUNT(*), {content} {last}")[0]
        state = f"{count}:{there}:{total}:{top}:{newest[0]}:{newest[1]}"
        return RowsState(count, state, _highest(top, cursor))

    def days(
        self, connection: DbConnection, relation: str, where: str, column: DbColumn
    ) -> Days | None:
        if column.kind not in ("instant", "naive", "date"):
            return None
        day = f"DATE({self.quoted(column.name)})"
        ends = f"CAST(MIN({day}) AS CHAR), CAST(MAX({day}) AS CHAR), COUNT(*) - COUNT({day})"
        first, last, without = ask(connection, f"SELECT {ends} FROM {relation} {ROWS} {where}")[0]
        return Days(_date(first), _date(last), without)

    def rows_by_day(
        self,
        connection: DbConnection,
        relation: str,
        where: str,
        columns: Sequence[DbColumn],
        column: DbColumn,
        days: Collection[date],
        last: date,
    ) -> Mapping[date, str] | None:
        if column.kind not in ("instant", "naive", "date"):
            return None
        at = self.quoted(column.name)
        newest = f"(SELECT MAX({at}) FROM {relation} {ROWS} {where})"
        content = self._content(columns, f"{at} = {newest}")
        today = self.literal(last)
        of = f"CASE WHEN DATE({at}) <= {today} THEN DATE({at}) ELSE {today} END"
        found = ask(
            connection,
            f"SELECT CAST({of} AS CHAR), COUNT(*), COUNT({at}), {_sum(at, column)}, {content} "
            f"FROM {relation} {ROWS} {where} GROUP BY 1",
        )
        by_day = {str(row[0]): row[1:] for row in found}
        return {
            day: ":".join("" if part is None else str(part) for part in by_day[str(day)])
            for day in days
            if str(day) in by_day
        }

    def literal(self, value: Any) -> str:
        if isinstance(value, datetime):
            return f"TIMESTAMP '{utc(value).replace(tzinfo=None).isoformat(sep=' ')}'"
        return super().literal(value)

    def options(self) -> Mapping[str, str]:
        return {"sessionInitStatement": "SET time_zone = '+00:00'"}

    def _content(self, columns: Sequence[DbColumn], condition: str = "1 = 1") -> str:
        """A sum of hashes over whole rows, with the names of their columns."""
        parts = ", ".join(
            f"IFNULL(HEX(CONCAT({self.quoted(c.name)})), '-')" for c in sorted(columns, key=_name)
        )
        hashed = f"CAST(CONV(LEFT(MD5(CONCAT_WS(',', {parts})), 15), 16, 10) AS DECIMAL(20))"
        return f"SUM(CASE WHEN {condition} THEN {hashed} END)"


def _name(column: DbColumn) -> str:
    return column.name


def _address(url: str) -> dict[str, Any]:
    """What PyMySQL takes, from a JDBC URL. Raises DefinitionError for one without a database."""
    parts = urlsplit(url.removeprefix("jdbc:"))
    database = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not database or "," in parts.netloc:
        raise DefinitionError(
            f"{url}: expected jdbc:mariadb://host:port/database, with '?sslMode=verify-full' and "
            "the like behind it."
        )
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    found: dict[str, Any] = {"host": parts.hostname, "port": parts.port or 3306}
    mode = given.get("sslMode", "disable").lower().replace("_", "-")
    if mode != "disable":
        found["ssl"] = {"ca": given["serverSslCert"]} if "serverSslCert" in given else {"ca": None}
        found["ssl_verify_cert"] = mode != "trust"
        found["ssl_verify_identity"] = mode == "verify-full"
    return {**found, "database": database}


def _sum(at: str, column: DbColumn) -> str:
    """A sum over a column that changes when one of its values does."""
    if column.kind in ("instant", "naive"):
        return f"SUM(CAST(TIMESTAMPDIFF(MICROSECOND, {_EPOCH}, {at}) AS DECIMAL(30)))"
    if column.kind == "date":
        return f"SUM(TO_DAYS({at}))"
    return f"SUM({at})" if column.kind == "number" else f"SUM(CRC32({at}))"


def _highest(text: str | None, cursor: DbColumn) -> datetime | int | None:
    """The value in a text; None where Python has none for it."""
    with suppress(TypeError, ValueError):
        if cursor.kind == "number":
            return int(text or "")
        return datetime.fromisoformat(text or "").replace(tzinfo=UTC)
    return None


def _date(text: str | None) -> date | None:
    with suppress(TypeError, ValueError):
        return date.fromisoformat(text or "")
    return None
