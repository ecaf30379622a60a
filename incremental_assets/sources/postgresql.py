"""PostgreSQL as a source, by psycopg and its JDBC driver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
_BOOLEAN, _BYTES, _TEXT, _SINGLE, _DOUBLE, _CHAR, _VARCHAR = 16, 17, 25, 700, 701, 1042, 1043
_AS_THEY_ARE = {
    *(_BOOLEAN, _BYTES, _TEXT, _SINGLE, _DOUBLE, _CHAR, _VARCHAR),
    *(_SMALL, _WHOLE, _LONG, _DATE, _NAIVE, _INSTANT),
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
_HIDDEN = "<insufficient privilege>"
_AHEAD = timedelta(minutes=5)
# Of a prepared transaction the server keeps when it was prepared, and not when it began.
_BEFORE_PREPARED = timedelta(minutes=10)

# A transaction that has begun is listed a moment later, so the clock is read before.
_CLOCK = "SELECT clock_timestamp(), pg_is_in_recovery() FROM pg_sleep(0.05)"
_OPEN = f"""
SELECT min(coalesce(xact_start, query_start)) FILTER (WHERE state <> 'idle'),
       count(*) FILTER (WHERE query = '{_HIDDEN}'),
       (SELECT min(prepared) FROM pg_prepared_xacts WHERE database = current_database())
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND application_name <> '{APPLICATION}'
  AND coalesce(backend_type, 'client backend') IN ('client backend', 'background worker')
"""


class PostgreSql(Dialect):
    """PostgreSQL, from version 12 on."""

    driver: ClassVar[str] = "org.postgresql.Driver"
    package: ClassVar[str] = "psycopg"
    extra: ClassVar[str] = "postgresql"

    def connect(self, access: Access) -> DbConnection:
        import psycopg  # deferred: an extra

        found: DbConnection = psycopg.connect(
            **_address(access.url),
            user=access.user,
            password=access.password or None,
            application_name=APPLICATION,
            autocommit=True,
        )
        for setting in ("TimeZone = 'UTC'", "idle_in_transaction_session_timeout = 0"):
            found.cursor().execute(f"SET {setting}")
        return found

    def column(self, found: Any) -> DbColumn:
        """Of a type that Spark would change, the text: no digit is lost, and no kind of value."""
        kind, name = found.type_code, self.quoted(found.name)
        exact = kind == _NUMERIC and found.precision and found.precision <= _DIGITS
        if kind in _AS_THEY_ARE or exact:
            return DbColumn(found.name, name, _KINDS.get(kind, ""))
        if kind in _JSON or kind in _ARRAYS:
            return DbColumn(found.name, f"to_json({name})::text AS {name}", is_json=True)
        return DbColumn(found.name, f"{name}::text AS {name}", _KINDS.get(kind, ""))

    def settled(self, connection: DbConnection) -> Settled:
        ((clock, is_standby),) = ask(connection, _CLOCK)
        if is_standby:
            raise SourceError(
                "a standby does not know the transactions of its primary; name a time by which "
                "all that a row's timestamp lies before has come: lag=timedelta(minutes=…)"
            )
        ((begun, hidden, prepared),) = ask(connection, _OPEN)
        prepared = None if prepared is None else prepared - _BEFORE_PREPARED
        if hidden:
            raise SourceError(
                "the user may not see since when other transactions are open, which may still "
                "bring rows below the watermark; GRANT pg_read_all_stats to it, or name a time "
                "by which they have ended: lag=timedelta(minutes=…)"
            )
        until = min(at for at in (clock, begun, prepared) if at is not None)
        why = "" if until == clock else "the transaction that is open since then has ended"
        return Settled(utc(until), utc(clock), why)

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

    def state(
        self,
        connection: DbConnection,
        relation: str,
        where: str,
        columns: Sequence[DbColumn],
        cursor: DbColumn | None,
    ) -> RowsState:
        planned = ask(connection, f"EXPLAIN (FORMAT JSON) SELECT * FROM {relation} {ROWS}")[0][0]
        width = int(planned[0]["Plan"]["Plan Width"])
        rows = f"FROM {relation} {ROWS} {where}"
        content = f"sum(hashtextextended({ROWS}::text, 0)::numeric)"
        if cursor is None:
            count, state = ask(connection, f"SELECT count(*), {content} {rows}")[0]
            return RowsState(count, f"{count}:{state}", row_bytes=width)
        at = self.quoted(cursor.name)
        query = f"SELECT count(*), count({at}), {_sum(at, cursor)}, max({at})::text {rows}"
        count, there, total, top = ask(connection, query)[0]
        last = f"{rows} {'AND' if where else 'WHERE'} {at} = (SELECT max({at}) {rows})"
        newest = ask(connection, f"SELECT count(*), {content} {last}")[0]
        state = f"{count}:{there}:{total}:{top}:{newest[0]}:{newest[1]}"
        return RowsState(count, state, _highest(top, cursor), width)

    def days(
        self, connection: DbConnection, relation: str, where: str, column: DbColumn
    ) -> Days | None:
        day = _day(self.quoted(column.name), column)
        if day is None:
            return None
        ends = f"min({day})::text, max({day})::text, count(*) - count({day})"
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
        at = self.quoted(column.name)
        day = _day(at, column)
        if day is None:
            return None
        newest = f"(SELECT max({at}) FROM {relation} {ROWS} {where})"
        content = f"sum(hashtextextended({ROWS}::text, 0)::numeric) FILTER (WHERE {at} = {newest})"
        today = self.literal(last)
        of = f"CASE WHEN {day} <= {today} THEN {day} ELSE {today} END"
        found = ask(
            connection,
            f"SELECT ({of})::text, count(*), count({at}), {_sum(at, column)}, {content} "
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
            return f"TIMESTAMPTZ '{utc(value).isoformat()}'"
        return super().literal(value)

    @contextmanager
    def moment(self, access: Access) -> Iterator[Mapping[str, str]]:
        connection = self.connect(access)
        try:
            begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            connection.cursor().execute(begin)
            ((snapshot,),) = ask(connection, "SELECT pg_export_snapshot()")
            yield {
                "sessionInitStatement": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ "
                f"ONLY; SET TRANSACTION SNAPSHOT '{snapshot}'; SET LOCAL TIME ZONE 'UTC'"
            }
        finally:
            connection.close()

    def options(self) -> Mapping[str, str]:
        return {"ApplicationName": APPLICATION}


def _address(url: str) -> dict[str, Any]:
    """What libpq takes, from a JDBC URL. Raises DefinitionError for one that names no database."""
    parts = urlsplit(url.removeprefix("jdbc:"))
    database = unquote(parts.path.removeprefix("/"))
    if not parts.netloc or not database:
        raise DefinitionError(
            f"{url}: expected jdbc:postgresql://host:port/database, with '?sslmode=require' and "
            "the like behind it."
        )
    ends = [end.rpartition(":") if ":" in end else (end, ":", "5432") for end in _hosts(parts)]
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    found = {own: given[name] for name, own in _PARAMETERS.items() if name in given}
    if "target_session_attrs" in found:
        found["target_session_attrs"] = _SERVERS.get(found["target_session_attrs"], "any")
    if "currentSchema" in given:
        found["options"] = f"-csearch_path={given['currentSchema']}"
    return {
        "host": ",".join(host.strip("[]") for host, _, _ in ends),
        "port": ",".join(port for _, _, port in ends),
        "dbname": database,
        **found,
    }


def _hosts(parts: Any) -> list[str]:
    netloc: str = parts.netloc
    return netloc.split(",")


def _day(at: str, column: DbColumn) -> str | None:
    """The UTC date of a column; None where it holds no instants or dates."""
    if column.kind == "instant":
        return f"({at} AT TIME ZONE 'UTC')::date"
    return f"{at}::date" if column.kind in ("naive", "date") else None


def _sum(at: str, column: DbColumn) -> str:
    """A sum over a column that changes when one of its values does."""
    if column.kind in ("instant", "naive", "date"):
        finite = f"isfinite({at})"
        return (
            f"coalesce(sum(extract(epoch FROM {at})::numeric) FILTER (WHERE {finite}), 0) "
            f"+ count(*) FILTER (WHERE NOT {finite})"
        )
    return f"sum({at})" if column.kind == "number" else f"sum(hashtextextended({at}::text, 0))"


def _highest(text: str | None, cursor: DbColumn) -> datetime | int | None:
    """The value in a text; None where Python has none for it, such as infinity."""
    with suppress(TypeError, ValueError):
        if cursor.kind == "number":
            return int(text or "")
        return utc(datetime.fromisoformat(text or ""))
    return None


def _date(text: str | None) -> date | None:
    with suppress(TypeError, ValueError):
        return date.fromisoformat(text or "")
    return None
