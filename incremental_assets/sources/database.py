"""What a database knows of a table that is a source: its columns, and whether it changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol

from incremental_assets.errors import SourceError

APPLICATION = "incremental_assets"
"""The name by which the servers list the connections."""
ROWS = "incremental_rows"
"""What the queries call the table or query that is read."""
SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:@/,]+)(?::([0-9]{1,5}))?")
"""A host, and perhaps a port, in a URL."""


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
class Relation:
    """What stands behind FROM: a table's quoted name, or a query in parentheses.

    `names` are the names of a table, such as a schema and a table; none for a query.
    """

    sql: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True, slots=True)
class DbColumn:
    """A column, `value` as it is selected, `kind` of its values as far as bounds depend on it.

    `kind` is number, instant, naive (an instant without a zone) or date, "" for any other.
    `is_json`: the text of the value is JSON. `compared` is by what a change of the value is seen,
    for a database that cannot compare rows as a whole.
    """

    name: str
    value: str
    kind: str = ""
    is_json: bool = False
    compared: str = ""


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
class ColumnDates:
    """The first and last UTC date in a column, None where unknown, and its rows with no date."""

    first: date | None
    last: date | None
    rows: int
    without: int


def ask(connection: DbConnection, query: str) -> Sequence[Any]:
    """The rows of a query."""
    cursor = connection.cursor()
    cursor.execute(query)
    found: Sequence[Any] = cursor.fetchall()
    return found


def described(connection: DbConnection, relation: Relation, what: str = "*") -> Sequence[Any]:
    """The columns of a query, as the driver describes them (PEP 249); no row is read."""
    cursor = connection.cursor()
    cursor.execute(f"SELECT {what} FROM {relation} {ROWS} WHERE 1 = 0")
    found: Sequence[Any] = cursor.description
    return found


@contextmanager
def asking(path: str) -> Iterator[None]:
    """Inside, an error of a database or its driver is a SourceError that names the source."""
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        if not _is_of_a_driver(error):
            raise
        reason = " ".join(_message(error).split()) or type(error).__name__
        raise SourceError(
            f"{path}: the database answers: {reason[:500]}. Nothing was loaded; correct that (the "
            "address, the user's rights, the names, the query), and run again."
        ) from error


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
    """Raise SourceError for names that the queries cannot distinguish."""
    names = [column.name for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or ROWS in names:
        raise SourceError(
            f"{path} has {f'several columns {twice}' if twice else f'a column {ROWS!r}'}. Nothing "
            "was loaded; pass a query that gives each column a name of its own."
        )


def _message(error: Exception) -> str:
    """The text of an error; some drivers give its number separately."""
    if isinstance(error, OSError):  # it may name a file
        return str(error)
    match error.args:
        case (int(number), str(text)):
            return f"{text} (error {number})"
    return str(error)


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
