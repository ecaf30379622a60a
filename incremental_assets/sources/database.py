"""What a database has to tell of a table that is a source: its columns, and whether it changed.

A `Dialect` is a kind of database: it connects by a driver of Python's, without Spark, and words the
queries. Spark reads the rows by JDBC.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Protocol

from incremental_assets.errors import SourceError

APPLICATION = "incremental_assets"
"""The name by which the servers list the connections."""
ROWS = "incremental_rows"
"""What the queries call the table or query that is read."""


class DbConnection(Protocol):
    """What is used of a connection of Python's database drivers (PEP 249)."""

    def cursor(self) -> Any: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a database: a JDBC URL, and who asks. The password is never shown."""

    url: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Access({self.url!r}, {self.user!r})"


@dataclass(frozen=True, slots=True)
class DbColumn:
    """A column, `value` as it is selected, `kind` of its values as far as bounds depend on it.

    `kind` is number, instant, naive (an instant without a zone) or date, "" for any other.
    `is_json`: the text of the value is JSON.
    """

    name: str
    value: str
    kind: str = ""
    is_json: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """Up to when what is there is all that will ever be: rows from `until` to `clock` are left out.

    `why` is what they wait for where `until` lies before the clock, for the notes of a load.
    """

    until: datetime
    clock: datetime
    why: str = ""


@dataclass(frozen=True, slots=True)
class RowsState:
    """How many rows there are, and text that changes with them.

    `highest` is of the cursor, `row_bytes` the width of a row, as the server estimates it.
    """

    rows: int
    state: str
    highest: datetime | int | None = None
    row_bytes: int = 100


@dataclass(frozen=True, slots=True)
class Days:
    """The first and last UTC date in a column, None where unknown, and its rows with no date."""

    first: date | None
    last: date | None
    rows: int
    without: int


class Dialect(ABC):
    """A kind of database. `driver` is the class of its JDBC driver, `quote` encloses a name.

    `package` is the driver of Python's, which the project's extra `extra` installs.
    """

    driver: ClassVar[str]
    quote: ClassVar[str] = '"'
    package: ClassVar[str]
    extra: ClassVar[str]

    @abstractmethod
    def require_url(self, url: str) -> None:
        """Raise DefinitionError for a JDBC URL that names no database, or not in this way."""

    @abstractmethod
    def connect(self, access: Access) -> DbConnection:
        """A connection in which each query is a transaction of its own."""

    def quoted(self, name: str) -> str:
        """A name as the database takes it."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def columns(self, connection: DbConnection, relation: str) -> Sequence[DbColumn]:
        """The columns of a table or query, by a query that reads no row."""
        cursor = connection.cursor()
        cursor.execute(f"SELECT * FROM {relation} {ROWS} WHERE 1 = 0")
        return [self.column(found) for found in cursor.description]

    @abstractmethod
    def column(self, found: Any) -> DbColumn:
        """A column, as the driver describes it."""

    @abstractmethod
    def clock(self, connection: DbConnection) -> datetime:
        """The time by the server's clock, in UTC."""

    @abstractmethod
    def settled(self, connection: DbConnection) -> Settled:
        """Up to when every transaction that began has ended.

        Raises SourceError if the server does not tell, or not this user.
        """

    @abstractmethod
    def unsettled(self, column: DbColumn, settled: Settled) -> str:
        """The condition on rows that are left out, as their transaction may have neighbours.

        "" where the column holds no instants.
        """

    @abstractmethod
    def odd(self, column: DbColumn) -> str:
        """The condition on values that Spark has no value for; "" where it has all."""

    @abstractmethod
    def state(
        self, connection: DbConnection, relation: str, where: str, cursor: DbColumn | None
    ) -> RowsState:
        """What there is now, by a query that reads the cursor alone, or every row without one."""

    @abstractmethod
    def days(
        self, connection: DbConnection, relation: str, where: str, column: DbColumn
    ) -> Days | None:
        """The days that a column has; None where it holds no instants or dates."""

    @abstractmethod
    def rows_by_day(
        self,
        connection: DbConnection,
        relation: str,
        where: str,
        column: DbColumn,
        days: Collection[date],
        last: date,
    ) -> Mapping[date, str] | None:
        """The fingerprint of each day's rows: their number, `:` and text that changes with them."""

    @abstractmethod
    def ends(self, connection: DbConnection, relation: str, where: str, column: DbColumn) -> Any:
        """The lowest and the highest value of a column of numbers, instants or dates."""

    @abstractmethod
    def literal(self, value: Any) -> str:
        """A number, an instant or a date as the database takes it."""

    @abstractmethod
    def moment(self, access: Access) -> AbstractContextManager[Mapping[str, str]]:
        """Options of Spark's reader by which all that is read inside is of one moment."""


def ask(connection: DbConnection, query: str) -> Sequence[Any]:
    """The rows of a query."""
    cursor = connection.cursor()
    cursor.execute(query)
    found: Sequence[Any] = cursor.fetchall()
    return found


_IS_OF_A_VALUE = re.compile(r"bad value|invalid input|out of range|No value specified", re.I)
_FROM_JAVA = re.compile(r"\b\w*(?:SQL|Sql)\w*Exception: ([^\n]+)")


@contextmanager
def asking(path: str) -> Iterator[None]:
    """Inside, an error of a database or its driver is a SourceError that says which source."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        if not _is_of_a_driver(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SourceError(
            f"{path}: the database answers: {reason[:500]}. Nothing was loaded; put that right "
            "(the address, the user's rights, the names, the query), and run again."
        ) from error


def ended_read(error: Exception, path: str) -> SourceError | None:
    """Why the database ended a read, by an error of Spark; None where it did not."""
    found = _FROM_JAVA.search(str(error))
    if found is None:
        return None
    reason = found[1].strip()[:300]
    if _IS_OF_A_VALUE.search(reason):
        remedy = (
            "a value that Spark cannot hold, or a '?' in the query, stays an error: pass a "
            "query that converts or avoids it, such as NULLIF(…), a cast to text, jsonb_exists"
        )
    else:
        remedy = "run again"
    return SourceError(
        f"{path}: the database ended the read: {reason}. Nothing was published in part; {remedy}."
    )


def named(columns: Sequence[DbColumn], name: str, path: str) -> DbColumn:
    """The column of that name. Raises SourceError."""
    found = next((column for column in columns if column.name == name), None)
    if found is None:
        raise SourceError(
            f"{path} has no column {name!r}; it has {sorted(c.name for c in columns)}. Nothing "
            "was loaded; name a column that it has."
        )
    return found


def require_distinct(columns: Sequence[DbColumn], path: str) -> None:
    """Raise SourceError for names that the queries cannot tell apart."""
    names = [column.name for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or ROWS in names:
        raise SourceError(
            f"{path} has {f'several columns {twice}' if twice else f'a column {ROWS!r}'}. Nothing "
            "was loaded; pass a query that gives each column a name of its own."
        )


def _is_of_a_driver(error: Exception) -> bool:
    """Whether it is an error as PEP 249 names them; each driver has classes of its own."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"DatabaseError", "InterfaceError"}) or isinstance(error, OSError)


def evenly(low: Any, high: Any, parts: int) -> list[Any]:
    """Up to `parts - 1` values that divide what lies between two numbers or instants."""
    if low is None or high is None or parts < 2 or low >= high:
        return []
    if isinstance(low, date) and not isinstance(low, datetime):
        days = (high - low).days
        return sorted({low + timedelta(days=days * n // parts) for n in range(1, parts)} - {low})
    if isinstance(low, datetime):
        return [low + (high - low) * n / parts for n in range(1, parts)]
    whole = int(low), int(high)
    steps = {whole[0] + (whole[1] - whole[0]) * n // parts for n in range(1, parts)}
    return sorted(steps - {whole[0]})


def utc(at: datetime) -> datetime:
    """An instant in UTC; one without a zone is in UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
