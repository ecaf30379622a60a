"""PostgreSQL as a source, by psycopg and its JDBC driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

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
    described,
    utc,
)
from incremental_assets.sources.dialect import LAG, Dialect

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
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "targetServerType": "target_session_attrs",
}
_SERVERS = {"primary": "read-write", "secondary": "standby", "preferSecondary": "prefer-standby"}
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
_IS_OF_A_VALUE = re.compile(r"bad value|invalid input|out of range|No value specified", re.I)


class PostgreSql(Dialect):
    """PostgreSQL, from version 12 on."""

    driver: ClassVar[str] = "org.postgresql.Driver"
    package: ClassVar[str] = "psycopg"
    extra: ClassVar[str] = "postgresql"
    shares_moment: ClassVar[bool] = True
    remedy: ClassVar[str] = (
        "a value that Spark cannot hold, or a '?' in the query, stays an error: pass a query that "
        "converts or avoids it, such as NULLIF(…), a cast to text, jsonb_exists"
    )

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
        try:
            for setting in _SETTINGS:
                found.cursor().execute(f"SET {setting}")
            ask(found, _NO_LIMITS)
        except BaseException:
            found.close()
            raise
        return found

    def columns(self, connection: DbConnection, relation: Relation) -> Sequence[DbColumn]:
        return [self._column(found) for found in described(connection, relation)]

    def _column(self, found: Any) -> DbColumn:
        """The column, as the driver describes it.

        Of a type that Spark would change, the text: no digit is lost, and no kind of value.

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

    def settled(self, connection: DbConnection, relation: Relation) -> Settled:
        clock = self.clock(connection)
        # A transaction that has begun is listed a moment later.
        ((_, is_standby),) = ask(connection, "SELECT pg_sleep(0.05), pg_is_in_recovery()")
        if is_standby:
            raise SourceError(f"a standby does not know the transactions of its primary; {LAG}")
        ((begun, hidden, disabled, prepared),) = ask(connection, _OPEN)
        if hidden:
            raise SourceError(
                "the user may not see since when other transactions are open, which may still "
                f"bring rows below the watermark; GRANT pg_read_all_stats to it, or {LAG}"
            )
        if disabled:
            raise SourceError(
                "track_activities is off for another session, so it is not visible since when its "
                f"transaction is open; set it to on, or {LAG}"
            )
        prepared = None if prepared is None else prepared - _BEFORE_PREPARED
        until = min(utc(at) for at in (clock, begun, prepared) if at is not None)
        why = "" if until == clock else "the transaction that is open since then has ended"
        return Settled(until, clock, why)

    def odd(self, column: DbColumn) -> str:
        """Infinity, years beyond 9999, and what the Gregorian calendar counts otherwise."""
        if column.kind not in ("instant", "naive", "date"):
            return ""
        at = self.quoted(column.name)
        return f"({at} < '1582-10-15' OR {at} >= '10000-01-01')"

    def text(self, value: str) -> str:
        return f"({value})::text"

    def number(self, value: str) -> str:
        return f"CAST({value} AS numeric)"

    def day_of(self, column: DbColumn) -> str | None:
        at = self.quoted(column.name)
        if column.kind == "instant":
            return f"({at} AT TIME ZONE 'UTC')::date"
        return f"{at}::date" if column.kind in ("naive", "date") else None

    def bound(self, column: DbColumn, at: datetime) -> str:
        found = self.literal(at)
        return f"({found} AT TIME ZONE 'UTC')" if column.kind == "naive" else found

    def content(self, columns: Sequence[DbColumn]) -> str:
        return self.content_of(ROWS)

    def content_of(self, value: str) -> str:
        return f"sum(hashtextextended({value}::text, 0)::numeric)"

    def row_bytes(self, connection: DbConnection, relation: Relation) -> int:
        planned = ask(connection, f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation} {ROWS}")[0][0]
        return int(planned[0]["Plan"]["Plan Width"])

    def literal(self, value: Any) -> str:
        if isinstance(value, datetime):
            return f"TIMESTAMPTZ '{utc(value).isoformat()}'"
        return f"DATE '{value}'" if isinstance(value, date) else str(value)

    def of_value(self, reason: str) -> str | None:
        return reason if _IS_OF_A_VALUE.search(reason) else None

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


def _address(url: str) -> dict[str, Any]:
    """What libpq takes, from a JDBC URL. Raises DefinitionError for one that names no database."""
    parts = urlsplit(url.removeprefix("jdbc:"))
    database = unquote(parts.path.removeprefix("/"))
    servers = [SERVER.fullmatch(server) for server in parts.netloc.split(",")]
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
