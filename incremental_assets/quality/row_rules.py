"""Rules that judge rows one by one: what each value may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.quality.expressions import require_condition
from incremental_assets.quality.rule import RowRule

KEY_COMPLETE = "key_complete"
_BLANKS = " \t\n\x0b\f\r"
Bound = int | float | Decimal | str | date | datetime
# A decimal is exact for large numbers and rounds small fractions away; a double does the reverse.
_READ_AS = {
    int: ("decimal(38,9)", "double"),
    Decimal: ("decimal(38,9)", "double"),
    float: ("double",),
    str: ("string",),
    date: ("date",),
    datetime: ("timestamp_ltz",),
}


def not_null(column: str) -> RowRule:
    """The column has a value; a blank string is none."""
    return RowRule(
        f"{column}_not_null",
        f"{column} is neither null nor blank.",
        lambda: F.col(column).isNotNull() & ~_is_blank(F.col(column)),
        columns=(column,),
    )


def required(column: str) -> RowRule:
    """The column has a value; a blank string is one. The rule of a contract's `required`."""
    return RowRule(
        f"{column}_not_null",
        f"{column} is not null.",
        lambda: F.col(quoted(column)).isNotNull(),
        columns=(column,),
    )


def key_complete(*columns: str) -> RowRule:
    """No column of the key is null: a lookup by such a key would never find the row.

    Holds the day. Every gold table that is merged or made by key has this rule.
    """
    return RowRule(
        KEY_COMPLETE,
        f"None of {', '.join(columns)} is null.",
        lambda: reduce(and_, (F.col(quoted(name)).isNotNull() for name in columns)),
        severity="fail",
        columns=columns,
    )


def at_least(column: str, least: int) -> RowRule:
    """The column is not below `least`; null is the business of `not_null`.

    Text is read as a number; text that is none breaks the rule, and so does NaN.
    """
    sign = "minus_" if least < 0 else ""
    return RowRule(
        f"{column}_at_least_{sign}{abs(least)}",
        f"{column} is not below {least}.",
        lambda: (
            F.col(column).isNull()
            # Spark orders NaN above every number.
            | (_meets(column, int, lambda value: value >= F.lit(least)) & ~_is_nan(column))
        ),
        columns=(column,),
    )


def between(column: str, low: Bound, high: Bound) -> RowRule:
    """The column is neither below `low` nor above `high`; null is the business of `not_null`.

    Text is read as the type of the bounds; text that cannot be read breaks the rule. Times without
    a zone are UTC.
    """
    low, high = _in_utc(low), _in_utc(high)
    if type(low) not in _READ_AS:
        raise DefinitionError(
            f"between({column!r}, {low!r}, …): give numbers, texts, days or times."
        )
    if type(low) is not type(high) or low > high:  # type: ignore[operator]  # of one type
        raise DefinitionError(
            f"between({column!r}, {low!r}, {high!r}): give two bounds of one type, the lower one "
            "first."
        )
    return RowRule(
        f"{column}_between",
        f"{column} is between {low} and {high}, both included.",
        lambda: (
            F.col(column).isNull()
            | _holds(column, type(low), lambda value: value.between(F.lit(low), F.lit(high)))
        ),
        columns=(column,),
    )


def one_of(column: str, values: Sequence[Any]) -> RowRule:
    """The column is one of the values; null is the business of `not_null`.

    Text is read as the type of the values; text that cannot be read breaks the rule. Times without
    a zone are UTC.
    """
    if not values or None in values:
        raise DefinitionError(f"one_of({column!r}, …): name at least one value, and not None.")
    shown = ", ".join(str(value) for value in values)
    by_type: dict[type, list[Any]] = {}
    for value in values:
        by_type.setdefault(type(value), []).append(_in_utc(value))
    return RowRule(
        f"{column}_one_of",
        f"{column} is one of: {shown}.",
        lambda: (
            F.col(column).isNull()
            | reduce(or_, (_is_among(column, kind, of_kind) for kind, of_kind in by_type.items()))
        ),
        columns=(column,),
    )


def matches(column: str, pattern: str) -> RowRule:
    """The whole text of the column matches the regular expression; null is `not_null`'s business.

    The pattern is Java's, which has all that is common to Python's.
    """
    try:
        re.compile(pattern)
    except re.error as error:
        raise DefinitionError(
            f"matches({column!r}, {pattern!r}): no regular expression ({error})."
        ) from error
    return RowRule(
        f"{column}_matches",
        f"{column} matches {pattern}.",
        lambda: F.col(column).isNull() | F.col(column).cast("string").rlike(rf"\A(?:{pattern})\z"),
        columns=(column,),
    )


def not_in_future(column: str) -> RowRule:
    """The time or day in the column is not after the moment of the load."""
    return RowRule(
        f"{column}_not_in_future",
        f"{column} is not after the moment of the load.",
        lambda: (
            F.col(column).isNull()
            | (F.col(column).try_cast("timestamp_ltz") <= F.current_timestamp())
        ),
        columns=(column,),
    )


def satisfies(name: str, sql: str, description: str = "") -> RowRule:
    """A condition in Spark SQL on the columns of the row.

    Raises DefinitionError for what is no single SQL expression, before Spark is started.
    """
    columns = require_condition(f"Rule {name}", sql)
    return RowRule(name, description or f"{sql}.", lambda: F.expr(sql), columns=tuple(columns))


def check(
    name: str, condition: Callable[[], Column], columns: Sequence[str] = (), description: str = ""
) -> RowRule:
    """Any condition as a function that gives a Column; `columns` are those that it reads."""
    return RowRule(name, description or f"{name} is met.", condition, columns=tuple(columns))


def _in_utc(value: Any) -> Any:
    """A time without a zone as one of UTC, which PySpark takes for the machine's time."""
    bare = isinstance(value, datetime) and value.tzinfo is None
    return value.replace(tzinfo=UTC) if bare else value


def _is_among(column: str, kind: type, values: Sequence[Any]) -> Column:
    """Whether the column is one of the values, which are of one type; text is compared as it is."""
    if kind is str or kind not in (*_READ_AS, bool):
        return F.col(column).isin(list(values))
    return _meets(column, kind, lambda value: value.isin(list(values)))


def _meets(column: str, kind: type, condition: Callable[[Column], Column]) -> Column:
    """Whether the column meets a condition on values of a type: as it is, or text that is read.

    Which of the two is known when the query is planned; a row pays for one of them.
    """
    own = F.col(column)
    return F.when(_is_of(own, "string"), _holds(column, kind, condition)).otherwise(condition(own))


def _is_blank(own: Column) -> Column:
    """Whether a text is blank; what is no text never is."""
    is_text = F.typeof(own).rlike("^(string|char|varchar|binary|variant)")
    blank = F.ltrim(own.cast("string"), F.lit(_BLANKS)) == ""
    return F.when(is_text, blank).otherwise(F.lit(False))


def _is_nan(column: str) -> Column:
    own = F.col(column)
    may_be = _is_of(own, "double", "float", "string")
    return F.when(may_be, F.isnan(own.try_cast("double"))).otherwise(F.lit(False))


def _is_of(column: Column, *types: str) -> Column:
    return F.typeof(column).isin(*types)


def _holds(column: str, kind: type, condition: Callable[[Column], Column]) -> Column:
    """Whether the column, read as the type of Python values, meets a condition; else null.

    A number has to meet it as a decimal and as a double, or as a double where no decimal holds it.
    """
    *exact, read = (
        condition(F.col(column).try_cast(name)) for name in _READ_AS.get(kind, ("boolean",))
    )
    return reduce(and_, (F.coalesce(each, F.lit(True)) for each in exact), read)
