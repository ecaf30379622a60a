"""PostgreSQL as a source, by psycopg and its JDBC driver."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.database import (
    APPLICATION,
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

# By their numbers in the catalog pg_type, which never change.
_SMALL, _WHOLE, _LONG, _NUMERIC = 21, 23, 20, 1700
_DATE, _NAIVE, _INSTANT = 1082, 1114, 1184
_KINDS = {
    _SMALL: "number",
    _WHOLE: "number",
    _LONG: "number",
    _NUMERIC: "number",
    _DATE: "date",
    _NAIVE: "naive",
    _INSTANT: "instant",
}
_TYPES = {_DATE: "date", _NAIVE: "timestamp", _INSTANT: "timestamptz"}
_BOOLEAN, _BYTES, _TEXT, _SINGLE, _DOUBLE, _CHAR, _VARCHAR = 16, 17, 25, 700, 701, 1042, 1043
_AS_THEY_ARE = {
    *(_BOOLEAN, _BYTES, _TEXT, _SINGLE, _DOUBLE, _CHAR, _VARCHAR),
    *(_SMALL, _WHOLE, _LONG),
}
_JSON = {114, 3802}
_ARRAYS = {1000, 1002, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1115, 1182, 1185, 1231, 2951}
_DIGITS = 38
# What the URL of a JDBC driver calls differently, or has, too.
_PARAMETERS = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "connectTimeout": "connect_timeout",
    "targetServerType": "target_session_attrs",
}
_SERVERS = {"primary": "read-write", "secondary": "standby", "preferSecondary": "prefer-standby"}
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:@/,]+)(?::([0-9]{1,5}))?")
# Roles and databases may set these otherwise, and texts and sums would be others.
_SETTINGS = (
    "TimeZone = 'UTC'",
    "DateStyle = 'ISO'",
    "IntervalStyle = 'postgres'",
    "bytea_output = 'hex'",
    "extra_float_digits = 1",
    "client_encoding = 'UTF8'",
)
_NO_LIMITS = """
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""
_HIDDEN = "<insufficient privilege>"
# Rows that are further ahead of the clock are no neighbours of an open transaction.
_AHEAD = timedelta(days=1)
# Of a prepared transaction the server keeps when it was prepared, and not when it began.
_BEFORE_PREPARED = timedelta(minutes=10)
_OPEN = f"""
SELECT min(coalesce(xact_start, query_start)) FILTER (WHERE state IS DISTINCT FROM 'idle'),
       count(*) FILTER (WHERE query = '{_HIDDEN}'),
       count(*) FILTER (WHERE state = 'disabled'),
       (SELECT min(prepared) FROM pg_prepared_xacts WHERE database = current_database())
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND NOT (application_name = '{APPLICATION}' AND usename = current_user)
  AND coalesce(backend_type, '') NOT IN (
    'autovacuum worker', 'autovacuum launcher', 'walsender', 'walreceiver', 'startup',
    'logical replication launcher', 'background writer', 'checkpointer', 'walwriter', 'archiver')
"""
_LAG = "name a time by which they have ended: lag=timedelta(minutes=…)"


class PostgreSql(Dialect):
    """PostgreSQL, from version 12 on."""

    driver: ClassVar[str] = "org.postgresql.Driver"
    package: ClassVar[str] = "psycopg"
    extra: ClassVar[str] = "postgresql"

    def require_url(self, url: str) -> None:
        _address(url)

    def connect(self, access: Access) -> DbConnection:
        import psycopg  # deferred: an extra

        found: DbConnection = psycopg.connect(
            **_address(access.url),
            user=access.user,
            password=access.password or None,
            application_name=APPLICATION,
            autocommit=True,
        )
        for setting in _SETTINGS:
            found.cursor().execute(f"SET {setting}")
        ask(found, _NO_LIMITS)
        return found

    def column(self, found: Any) -> DbColumn:
        """Of a type that Spark would change, the text: no digit is lost, and no kind of value.

        An instant or date that Spark has no value for is an error of the server.
        """
        kind, name = found.type_code, self.quoted(found.name)
        digits, scale = found.precision or 0, found.scale or 0
        if kind in _AS_THEY_ARE or (kind == _NUMERIC and 0 <= scale <= digits and 0 < digits <= 38):
            return DbColumn(found.name, name, _KINDS.get(kind, ""))
        if kind in _TYPES:
            column = DbColumn(found.name, name, _KINDS[kind])
            error = f"('{found.name.replace(chr(39), chr(39) * 2)} is ' || {name}::text)"
            value = f"CASE WHEN {self.odd(column)} THEN {error}::{_TYPES[kind]} ELSE {name} END"
            return DbColumn(found.name, f"{value} AS {name}", column.kind)
        if kind in _JSON or kind in _ARRAYS:
            return DbColumn(found.name, f"to_json({name})::text AS {name}", is_json=True)
        return DbColumn(found.name, f"{name}::text AS {name}", _KINDS.get(kind, ""))

    def clock(self, connection: DbConnection) -> datetime:
        return utc(ask(connection, "SELECT clock_timestamp()")[0][0])

    def settled(self, connection: DbConnection) -> Settled:
        clock = self.clock(connection)
        # A transaction that has begun is listed a moment later.
        ((_, is_standby),) = ask(connection, "SELECT pg_sleep(0.05), pg_is_in_recovery()")
        if is_standby:
            raise SourceError(f"a standby does not know the transactions of its primary; {_LAG}")
        ((begun, hidden, disabled, prepared),) = ask(connection, _OPEN)
        if hidden:
            raise SourceError(
                "the user may not see since when other transactions are open, which may still "
                f"bring rows below the watermark; GRANT pg_read_all_stats to it, or {_LAG}"
            )
        if disabled:
            raise SourceError(
                "track_activities is off for another session, so that nobody sees since when its "
                f"transaction is open; set it to on, or {_LAG}"
            )
        prepared = None if prepared is None else prepared - _BEFORE_PREPARED
        until = min(utc(at) for at in (clock, begun, prepared) if at is not None)
        why = "" if until == clock else "the transaction that is open since then has ended"
        return Settled(until, clock, why)

    def unsettled(self, column: DbColumn, settled: Settled) -> str:
        at, until = self.quoted(column.name), utc(settled.until)
        ahead = utc(settled.clock) + _AHEAD
        if column.kind == "date":  # the day of the watermark is always read again
            return f"({at} > {self.literal(until.date())} AND {at} <= {self.literal(ahead.date())})"
        if column.kind not in ("instant", "naive"):
            return ""
        low, high = (self.literal(end) for end in (until, ahead))
        if column.kind == "naive":
            low, high = (f"({end} AT TIME ZONE 'UTC')" for end in (low, high))
        return f"({at} >= {low} AND {at} <= {high})"

    def odd(self, column: DbColumn) -> str:
        """Infinity, years beyond 9999, and what the Gregorian calendar counts otherwise."""
        if column.kind not in ("instant", "naive", "date"):
            return ""
        at = self.quoted(column.name)
        return f"({at} < '1582-10-15' OR {at} >= '10000-01-01')"

    def state(
        self, connection: DbConnection, relation: str, where: str, cursor: DbColumn | None
    ) -> RowsState:
        planned = ask(connection, f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation} {ROWS}")[0][0]
        width = int(planned[0]["Plan"]["Plan Width"])
        rows = f"FROM {relation} {ROWS} {where}"
        if cursor is None:
            count, state = ask(connection, f"SELECT count(*), {_CONTENT} {rows}")[0]
            return RowsState(count, f"{count}:{state}", row_bytes=width)
        at = self.quoted(cursor.name)
        query = f"SELECT count(*), {_sum(at)}, max({at})::text {rows}"
        count, total, top = ask(connection, query)[0]
        newest = self._newest(connection, relation, where, at)
        return RowsState(count, f"{count}:{total}:{top}:{newest}", _highest(top, cursor), width)

    def _newest(self, connection: DbConnection, relation: str, where: str, at: str) -> str:
        """Text that changes with the rows that have the highest value of a column."""
        rows = f"FROM {relation} {ROWS} {where}"
        last = f"{rows} {'AND' if where else 'WHERE'} {at} = (SELECT max({at}) {rows})"
        count, content = ask(connection, f"SELECT count(*), {_CONTENT} {last}")[0]
        return f"{count}:{content}"

    def days(
        self, connection: DbConnection, relation: str, where: str, column: DbColumn
    ) -> Days | None:
        day = _day(self.quoted(column.name), column)
        if day is None:
            return None
        ends = f"min({day})::text, max({day})::text, count(*), count(*) - count({day})"
        found = ask(connection, f"SELECT {ends} FROM {relation} {ROWS} {where}")[0]
        first, last, rows, without = found
        return Days(_date(first), _date(last), rows, without)

    def rows_by_day(
        self,
        connection: DbConnection,
        relation: str,
        where: str,
        column: DbColumn,
        days: Collection[date],
        last: date,
    ) -> Mapping[date, str] | None:
        at = self.quoted(column.name)
        day = _day(at, column)
        if day is None or not days:
            return None if day is None else {}
        today, first, final = (self.literal(each) for each in (last, min(days), max(days)))
        # Rows without a day, and of days to come, are of the last one.
        of = f"CASE WHEN {day} <= {today} THEN {day} ELSE {today} END"
        some = f"{day} BETWEEN {first} AND {final}"
        if last in days:
            some += f" OR {at} IS NULL OR {day} > {today}"
        asked = f"{where} {'AND' if where else 'WHERE'} ({some})"
        found = ask(
            connection,
            f"SELECT ({of})::text, count(*), {_sum(at)}, max({at})::text "
            f"FROM {relation} {ROWS} {asked} GROUP BY 1",
        )
        by_day = {text: f"{count}:{total}:{top}" for text, count, total, top in found}
        ((newest,),) = ask(connection, f"SELECT max({at})::text FROM {relation} {ROWS} {where}")
        for text, _, _, top in found:
            if top is not None and top == newest:
                by_day[text] += f":{self._newest(connection, relation, where, at)}"
        return {day: by_day[str(day)] for day in days if str(day) in by_day}

    def ends(self, connection: DbConnection, relation: str, where: str, column: DbColumn) -> Any:
        at = self.quoted(column.name)
        return ask(connection, f"SELECT min({at}), max({at}) FROM {relation} {ROWS} {where}")[0]

    def literal(self, value: Any) -> str:
        if isinstance(value, datetime):
            return f"TIMESTAMPTZ '{utc(value).isoformat()}'"
        return f"DATE '{value}'" if isinstance(value, date) else str(value)

    @contextmanager
    def moment(self, access: Access) -> Iterator[Mapping[str, str]]:
        connection = self.connect(access)
        try:
            begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            connection.cursor().execute(begin)
            ((snapshot,),) = ask(connection, "SELECT pg_export_snapshot()")
            statements = (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
                f"SET TRANSACTION SNAPSHOT '{snapshot}'",
                f"SET LOCAL application_name = '{APPLICATION}'",
                *(f"SET LOCAL {setting}" for setting in _SETTINGS[:-1]),  # JDBC has its encoding
            )
            yield {"sessionInitStatement": "; ".join(statements)}
        finally:
            connection.close()


_CONTENT = f"sum(hashtextextended({ROWS}::text, 0)::numeric)"
"""A sum of hashes over whole rows."""


def _sum(at: str) -> str:
    """A sum of hashes over a column."""
    return f"sum(hashtextextended({at}::text, 0)::numeric)"


def _address(url: str) -> dict[str, Any]:
    """What libpq takes, from a JDBC URL. Raises DefinitionError for one that names no database."""
    parts = urlsplit(url.removeprefix("jdbc:"))
    database = unquote(parts.path.removeprefix("/"))
    servers = [_SERVER.fullmatch(server) for server in parts.netloc.split(",")]
    ports = [int((server and server[2]) or 5432) for server in servers]
    if not all(servers) or not database or max(ports) > 65_535:
        raise DefinitionError(
            f"Jdbc: {url.partition('?')[0]!r}: expected jdbc:postgresql://host:port/database, with "
            "'?sslmode=require' and the like behind it."
        )
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    found = {own: given[name] for name, own in _PARAMETERS.items() if name in given}
    if given.get("ssl", "false").lower() != "false":  # as the JDBC driver takes it
        found.setdefault("sslmode", "verify-full")
    if "target_session_attrs" in found:
        found["target_session_attrs"] = _SERVERS.get(found["target_session_attrs"], "any")
    if "currentSchema" in given:
        schemas = given["currentSchema"].replace("\\", "\\\\").replace(" ", "\\ ")
        found["options"] = f"-csearch_path={schemas}"
    return {
        "host": ",".join(server[1].strip("[]") for server in servers if server),
        "port": ",".join(map(str, ports)),
        "dbname": database,
        **found,
    }


def _day(at: str, column: DbColumn) -> str | None:
    """The UTC date of a column; None where it holds no instants or dates."""
    if column.kind == "instant":
        return f"({at} AT TIME ZONE 'UTC')::date"
    return f"{at}::date" if column.kind in ("naive", "date") else None


def _highest(text: str | None, cursor: DbColumn) -> datetime | int | None:
    """The value in a text; None where Python has none for it."""
    with suppress(TypeError, ValueError):
        if cursor.kind == "number":
            return int(text or "")
        return utc(datetime.fromisoformat(text or ""))
    return None


def _date(text: str | None) -> date | None:
    with suppress(TypeError, ValueError):
        return date.fromisoformat(text or "")
    return None
