"""Rules that compare a row with other rows: of its batch, of its table, of another table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, FractionalType, StringType

from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.quality.rule import HELPER, RowRule, Scope

_NOT_HASHED = ("variant", "map", "array", "struct")


def unique(*columns: str) -> RowRule:
    """No two rows of a day have the same values in these columns; rows with a null in them pass.

    Of several rows in a batch the first in order of the table's key, then of all their values,
    passes and the others break the rule, also where that one is quarantined for another reason; so
    do rows whose values another row of their day in the table has. A row with the key of the one in
    the table is another version of it, and no duplicate.
    """
    if not columns:
        raise DefinitionError("unique(): name at least one column.")
    name = f"{'_'.join(columns)}_unique"
    flag = f"{HELPER}{name}"

    def prepare(rows: DataFrame, scope: Scope) -> DataFrame:
        own = [quoted(column) for column in columns]
        complete = " AND ".join(f"{column} IS NOT NULL" for column in own)
        rows = rows.withColumn(flag, F.expr(f"{complete} AND {_is_later(rows, own, scope)}"))
        present = scope.present()
        return rows if present is None else _with_taken(rows, present, columns, scope, flag)

    return RowRule(
        name,
        f"No two rows of a day have the same {', '.join(columns)}.",
        lambda: ~F.col(flag),
        columns=columns,
        prepare=prepare,
    )


def references(column: str, table: str, key: str = "") -> RowRule:
    """The value of the column is in the column `key` of a table of the lake; null passes.

    The table is looked up as it is when the rows are judged: let it be loaded first. Before it was
    ever loaded, it is empty. A text is compared with a number, date or instant as such a value; one
    that is none, as "n/a", is not there.
    """
    name = f"{column}_in_{table.replace('/', '_')}"
    flag = f"{HELPER}{name}"
    value = f"{HELPER}value"

    def prepare(rows: DataFrame, scope: Scope) -> DataFrame:
        there = scope.read(table)
        if there is None:
            return rows.withColumn(flag, F.col(quoted(column)).isNull())
        keys = there.select(F.col(quoted(key or column)).alias(value))
        mine = rows.select(quoted(column)).schema[0].dataType
        theirs = keys.schema[0].dataType
        keys = keys.select(_comparable(F.col(value), theirs, mine).alias(value)).distinct()
        rows = rows.withColumn(value, _comparable(F.col(quoted(column)), mine, theirs))
        rows = rows.join(keys.withColumn(flag, F.lit(True)), value, "left").drop(value)
        return rows.withColumn(flag, F.expr(f"{quoted(column)} IS NULL OR {flag} IS NOT NULL"))

    return RowRule(
        name,
        f"{column} is null or a {key or column} of {table}.",
        lambda: F.col(flag),
        columns=(column,),
        reads_table=table,
        prepare=prepare,
    )


def _comparable(value: Column, kind: DataType, other: DataType) -> Column:
    """The value as the other side's type, if only that one is no text; null where it is none."""
    if not isinstance(kind, StringType) or isinstance(other, StringType):
        return value
    found = value.try_cast(other)
    if isinstance(other, FractionalType):  # a number that the other type would round is another
        return F.when(found.cast("double") == value.try_cast("double"), found)
    return found


def _is_later(rows: DataFrame, own: Sequence[str], scope: Scope) -> str:
    """Whether another row of the batch comes first with the same values, as SQL."""
    by = f"PARTITION BY {', '.join((quoted(scope.day), *own))}"
    if scope.key:  # versions of one key are one row in the end
        return f"dense_rank() OVER ({by} ORDER BY {', '.join(map(quoted, scope.key))}) > 1"
    plain = [f.name for f in rows.schema.fields if f.dataType.typeName() not in _NOT_HASHED]
    # Which of wholly equal rows stays does not show.
    return f"row_number() OVER ({by} ORDER BY xxhash64({', '.join(map(quoted, plain))})) > 1"


def _with_taken(
    rows: DataFrame, present: DataFrame, columns: Sequence[str], scope: Scope, flag: str
) -> DataFrame:
    """Mark also the rows whose values a row with another key has in the table."""
    key = f"struct({', '.join(map(quoted, scope.key))})" if scope.key else "NULL"
    there = present.selectExpr(
        f"dt AS {HELPER}day",
        *(f"{quoted(column)} AS {HELPER}{at}" for at, column in enumerate(columns)),
        f"{key} AS {HELPER}key",
    ).distinct()
    same = [F.col(scope.day) == F.col(f"{HELPER}day")]
    same += [F.col(quoted(c)) == F.col(f"{HELPER}{at}") for at, c in enumerate(columns)]
    if scope.key:
        same.append(F.expr(f"{key} != {HELPER}key"))
    names = list(dict.fromkeys((scope.day, *columns, *scope.key)))
    taken = rows.join(there, same, "left_semi").selectExpr(*map(quoted, names)).distinct()
    rows = rows.join(taken.withColumn(f"{HELPER}taken", F.lit(True)), names, "left")
    rows = rows.withColumn(flag, F.expr(f"{flag} OR {HELPER}taken IS NOT NULL"))
    return rows.drop(f"{HELPER}taken")
