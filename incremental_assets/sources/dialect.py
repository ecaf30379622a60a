"""A kind of database: it connects by a driver of Python's, without Spark, and words the queries.

Spark reads the rows by JDBC.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

from incremental_assets.errors import SourceError
from incremental_assets.sources.database import (
    ROWS,
    Access,
    ColumnDates,
    DbColumn,
    DbConnection,
    Relation,
    RowsState,
    Settled,
    ask,
    utc,
)

# Rows that are further ahead of the clock are no neighbours of an open transaction.
_AHEAD = timedelta(days=1)
_FROM_JAVA = re.compile(r"\b\w*(?:SQL|Sql)\w*Exception: ([^\n]+)")
LAG = "name a time by which they have ended: lag=timedelta(minutes=…)"


class Dialect(ABC):
    """A kind of database. `driver` is the class of its JDBC driver, `quote` encloses a name.

    `package` is the driver of Python's, which the project's extra `extra` installs. With
    `shares_moment` several connections can read as of one moment; else each query is of its own.
    `remedy` is what a query can do about a value that Spark cannot hold.
    """

    driver: ClassVar[str]
    quote: ClassVar[str] = '"'
    package: ClassVar[str]
    extra: ClassVar[str]
    shares_moment: ClassVar[bool]
    remedy: ClassVar[str]

    @abstractmethod
    def require_url(self, url: str) -> None:
        """Raise DefinitionError for a JDBC URL that names no database, or not in this way."""

    @abstractmethod
    def connect(self, access: Access) -> DbConnection:
        """A connection in which each query is a transaction of its own."""

    def spark_url(self, url: str) -> str:
        """The JDBC URL as Spark is given it."""
        return url

    def quoted(self, name: str) -> str:
        """A name as the database takes it."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    @abstractmethod
    def columns(self, connection: DbConnection, relation: Relation) -> Sequence[DbColumn]:
        """The columns of a table or query, by queries that read no row."""

    @abstractmethod
    def clock(self, connection: DbConnection) -> datetime:
        """The time by the server's clock, in UTC."""

    @abstractmethod
    def settled(self, connection: DbConnection, relation: Relation) -> Settled:
        """Up to when every transaction that began has ended.

        Raises SourceError if the server does not show it, not to this user, or not of this table.
        """

    @abstractmethod
    def odd(self, column: DbColumn) -> str:
        """The condition on values that Spark has no value for; "" where it has all."""

    @abstractmethod
    def text(self, value: str) -> str:
        """A value as text."""

    @abstractmethod
    def number(self, value: str) -> str:
        """A text as the number that it shows."""

    @abstractmethod
    def day_of(self, column: DbColumn) -> str | None:
        """The UTC date of a column; None where it holds no instants or dates."""

    @abstractmethod
    def bound(self, column: DbColumn, at: datetime) -> str:
        """An instant, as it is compared with a column of instants, with or without a zone."""

    @abstractmethod
    def content(self, columns: Sequence[DbColumn]) -> str:
        """An aggregate that changes with the content of the rows, not with their order."""

    @abstractmethod
    def content_of(self, value: str) -> str:
        """An aggregate that changes with the values of a column."""

    @abstractmethod
    def row_bytes(self, connection: DbConnection, relation: Relation) -> int:
        """The width of a row, as the server estimates it."""

    @abstractmethod
    def literal(self, value: Any) -> str:
        """A number, an instant or a date as the database takes it."""

    @abstractmethod
    def of_value(self, reason: str) -> str | None:
        """What an error of a read means for a value that Spark cannot hold; None for any other."""

    @abstractmethod
    def moment(self, access: Access) -> AbstractContextManager[Mapping[str, str]]:
        """Options of Spark's reader, by which all that is read inside is of one moment.

        Without `shares_moment` they only make sessions alike.
        """

    def unsettled(self, column: DbColumn, settled: Settled) -> str:
        """The condition on rows that are left out, as their transaction may have neighbours.

        "" where the column holds no instants.
        """
        at, until = self.quoted(column.name), utc(settled.until)
        ahead = utc(settled.clock) + _AHEAD
        if column.kind == "date":  # the day of the watermark is always read again
            return f"({at} > {self.literal(until.date())} AND {at} <= {self.literal(ahead.date())})"
        if column.kind not in ("instant", "naive"):
            return ""
        return f"({at} >= {self.bound(column, until)} AND {at} <= {self.bound(column, ahead)})"

    def state(
        self,
        connection: DbConnection,
        relation: Relation,
        where: str,
        columns: Sequence[DbColumn],
        cursor: DbColumn | None,
    ) -> RowsState:
        """What there is now, by a query that reads the cursor alone, or every row without one."""
        width = self.row_bytes(connection, relation)
        rows = f"FROM {relation} {ROWS} {where}"
        if cursor is None:
            count, state = ask(connection, f"SELECT count(*), {self.content(columns)} {rows}")[0]
            return RowsState(count, f"{count}:{state}", row_bytes=width)
        at = self.quoted(cursor.name)
        highest = self.text(f"max({at})")
        query = f"SELECT count(*), {self.content_of(at)}, {highest} {rows}"
        count, total, top = ask(connection, query)[0]
        newest = self._newest(connection, relation, where, columns, at)
        return RowsState(count, f"{count}:{total}:{top}:{newest}", _highest(top, cursor), width)

    def _newest(
        self,
        connection: DbConnection,
        relation: Relation,
        where: str,
        columns: Sequence[DbColumn],
        at: str,
    ) -> str:
        """Text that changes with the rows that have the highest value of a column."""
        rows = f"FROM {relation} {ROWS} {where}"
        last = f"{rows} {'AND' if where else 'WHERE'} {at} = (SELECT max({at}) {rows})"
        count, content = ask(connection, f"SELECT count(*), {self.content(columns)} {last}")[0]
        return f"{count}:{content}"

    def days(
        self, connection: DbConnection, relation: Relation, where: str, column: DbColumn
    ) -> ColumnDates | None:
        """The days that a column has; None where it holds no instants or dates."""
        day = self.day_of(column)
        if day is None:
            return None
        ends = ", ".join(self.text(f"{end}({day})") for end in ("min", "max"))
        counts = f"count(*), count(*) - count({day})"
        found = ask(connection, f"SELECT {ends}, {counts} FROM {relation} {ROWS} {where}")[0]
        first, last, rows, without = found
        return ColumnDates(_date(first), _date(last), rows, without)

    def rows_by_day(
        self,
        connection: DbConnection,
        relation: Relation,
        where: str,
        columns: Sequence[DbColumn],
        column: DbColumn,
        days: Collection[date],
        last: date,
    ) -> Mapping[date, str] | None:
        """The fingerprint of each day's rows: their number, `:` and text that changes with them."""
        at, day = self.quoted(column.name), self.day_of(column)
        if day is None or not days:
            return None if day is None else {}
        today, first, final = (self.literal(each) for each in (last, min(days), max(days)))
        # Rows without a day, and of days to come, are of the last one.
        of = f"CASE WHEN {day} <= {today} THEN {day} ELSE {today} END"
        some = f"{day} BETWEEN {first} AND {final}"
        if last in days:
            some += f" OR {at} IS NULL OR {day} > {today}"
        asked = f"{where} {'AND' if where else 'WHERE'} ({some})"
        highest = self.text(f"max({at})")
        found = ask(
            connection,
            f"SELECT {self.text(of)}, count(*), {self.content_of(at)}, {highest} "
            f"FROM {relation} {ROWS} {asked} GROUP BY 1",
        )
        by_day = {text: f"{count}:{total}:{top}" for text, count, total, top in found}
        ((newest,),) = ask(connection, f"SELECT {highest} FROM {relation} {ROWS} {where}")
        for text, _, _, top in found:
            if top is not None and top == newest:
                seen = self._newest(connection, relation, where, columns, at)
                by_day[text] += f":{seen}"
        return {day: by_day[str(day)] for day in days if str(day) in by_day}

    def ends(
        self, connection: DbConnection, relation: Relation, where: str, column: DbColumn
    ) -> Any:
        """The lowest and the highest value of a column of numbers, instants or dates."""
        at = self.quoted(column.name)
        return ask(connection, f"SELECT min({at}), max({at}) FROM {relation} {ROWS} {where}")[0]

    def ended_read(self, error: Exception, path: str) -> SourceError | None:
        """Why the database ended a read, by an error of Spark; None where it did not."""
        found = _FROM_JAVA.search(str(error))
        if found is None:
            return None
        reason, remedy = found[1].strip()[:300], "run again"
        value = self.of_value(reason)
        if value is not None:
            reason, remedy = value, self.remedy
        return SourceError(
            f"{path}: the database ended the read: {reason}. Nothing was published in part; "
            f"{remedy}."
        )


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
