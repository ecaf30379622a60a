"""SQL expressions of rules, read before any Spark is there.

sqlglot is imported where it is used: tables without such rules do without it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from incremental_assets.errors import DefinitionError

if TYPE_CHECKING:
    from sqlglot import exp


_WORD = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = frozenset({"sum", "count", "min", "max", "avg", "distinct"})


def parse_sql(who: str, sql: str, what: str) -> exp.Condition:
    """The expression. Raises DefinitionError for what is no single SQL expression."""
    import sqlglot

    try:
        found = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        first = str(error).partition("\n")[0]
        raise DefinitionError(f"{who}: {sql!r} is no SQL {what}: {first}") from error
    if not isinstance(found, sqlglot.exp.Condition):
        raise DefinitionError(
            f"{who}: {sql!r} is a statement; give a {what} on the columns of the table."
        )
    return found


def require_condition(who: str, sql: str) -> list[str]:
    """The columns that a condition on one row reads.

    Raises DefinitionError for what is none, or reads more than a row.
    """
    from sqlglot import exp

    found = parse_sql(who, sql, "condition")
    if found.find(exp.AggFunc) or found.find(exp.Query) or found.find(exp.Window):
        raise DefinitionError(
            f"{who}: {sql!r} reads more than one row; use a rule on the day, or unique() "
            "and references()."
        )
    # Of a field inside a column, the column is the first part.
    return sorted({column.parts[0].name for column in found.find_all(exp.Column)})


def require_aggregate(who: str, sql: str) -> None:
    """Raise DefinitionError for what is no aggregate over the rows of a day."""
    from sqlglot import exp

    found = parse_sql(who, sql, "aggregate")
    if not found.find(exp.AggFunc) or found.find(exp.Query):
        raise DefinitionError(f"{who}: {sql!r} is no aggregate; give one such as sum(amount).")


def unknown_columns(who: str, sql: str, known: Collection[str]) -> list[str]:
    """The columns that an expression reads and that are not known, in whatever case.

    Those of the load, which begin with `_`, are. None of an expression that sqlglot cannot parse:
    Spark decides.
    """
    names = {name.lower() for name in known}
    if {word.lower() for word in _WORD.findall(sql)} <= names | _FUNCTIONS:
        return []  # without importing sqlglot
    from sqlglot import exp

    try:
        read = {column.parts[0].name for column in parse_sql(who, sql, "sum").find_all(exp.Column)}
    except DefinitionError:
        return []
    return sorted(c for c in read if c.lower() not in names and not c.startswith("_"))
