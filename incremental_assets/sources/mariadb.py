"""MariaDB as a source, by PyMySQL and MariaDB's JDBC driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, ClassVar

from incremental_assets.errors import SourceError
from incremental_assets.sources.database import (
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
from incremental_assets.sources.mariadb_connection import address_of, connected, java_options
from incremental_assets.sources.mariadb_transactions import settled

# The numbers of types in the protocol.
_WHOLE = {1, 2, 3, 8, 9, 13}  # the last one is a year
_DECIMALS = {0, 246}
_FLOATS = {4, 5}
_KINDS = {7: "instant", 10: "date", 12: "naive"}
_BITS, _GEOMETRY = 16, 255
_TEXTS = {15, 247, 248, 249, 250, 251, 252, 253}
_PADDED = 254  # Spark fills a text of fixed length with blanks
_DIGITS = 38
# Of others nobody sees which transactions are open; a view has none.
_ENGINES = frozenset({None, "InnoDB", "Aria", "MyISAM"})
_WITH_COLUMNS = frozenset({"BASE TABLE", "SYSTEM VERSIONED"})
_CATALOG = """
SELECT TABLE_TYPE, ENGINE, AVG_ROW_LENGTH FROM information_schema.TABLES
WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s
"""
_JSON_VALID = re.compile(r"CHECK \(json_valid\(`((?:[^`]|``)+)`\)\)")
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
        address_of(url)

    def connect(self, access: Access) -> DbConnection:
        return connected(access)

    def spark_url(self, url: str) -> str:
        return address_of(url).spark_url

    def columns(self, connection: DbConnection, relation: Relation) -> Sequence[DbColumn]:
        found = described(connection, relation)
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

    def settled(self, connection: DbConnection, relation: Relation) -> Settled:
        clock = self.clock(connection)
        of = _catalog(connection, relation)
        if of is not None and of.engine not in _ENGINES:
            raise SourceError(
                f"the engine {of.engine} does not show which of its transactions are open; {LAG}"
            )
        return settled(connection, clock)

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
        of = _catalog(connection, relation)
        return (of and of.row_bytes) or 100

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
        yield java_options(access.url)


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
    return {
        name: length - 1 - (scale > 0)  # the sign and the point
        for name, (_, _, _, length, _, scale, _) in zip(
            names, described(connection, relation, signed), strict=True
        )
    }


def _json_columns(connection: DbConnection, relation: Relation) -> set[str]:
    """The columns of a table that were declared as JSON: texts with a constraint.

    Whoever may read a table may see its statement, and not its constraints in the catalog.
    """
    of = _catalog(connection, relation)
    if of is None or of.kind not in _WITH_COLUMNS:
        return set()
    ((_, statement),) = ask(connection, f"SHOW CREATE TABLE {relation}")
    return {found[1].replace("``", "`") for found in _JSON_VALID.finditer(statement)}


@dataclass(frozen=True, slots=True)
class _OfTable:
    """What the catalog has of a table or view."""

    kind: str
    engine: str | None
    row_bytes: int


def _catalog(connection: DbConnection, relation: Relation) -> _OfTable | None:
    """What the catalog has of a table; None for a query."""
    if not relation.names:
        return None
    *named, table = relation.names
    cursor = connection.cursor()
    cursor.execute(_CATALOG, (named[-1] if named else None, table))
    found = cursor.fetchone()
    return found and _OfTable(found[0], found[1], int(found[2] or 0))
