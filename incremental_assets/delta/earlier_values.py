"""Values that a change does not have: each is that of the last change before it that has one.

A row has in `_partial` the columns that its own change did not have: `column`, whether an earlier
value is `known`, and the position of the change that the value is from. So a value is found again
whatever comes late: a change between the two, or a delete, after which nothing is known. Null where
the change had all columns.

Where every update has its changed columns alone, those that a table gets later are lacked as well:
an entry `*` records it, for all that are null. What is null in the change itself has an entry
with the change's own position.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructType

from incremental_assets.delta.columns import DELETED, PARTIAL, is_reserved
from incremental_assets.delta.literals import sql_text
from incremental_assets.frames import quoted

OTHERS = "*"
"""In `_partial`, the name of all columns that the table got after the change, or may get."""
_BEST, _FLOOR = "_of_best_", "_of_floor"


def partial_type(schema: StructType, order: Sequence[str]) -> ArrayType:
    """The type of `_partial` of rows whose position has these columns."""
    entry = StructType().add("column", StringType()).add("known", BooleanType())
    for name in order:
        entry.add(name, schema[name].dataType)
    return ArrayType(entry)


def as_partial(
    kind: ArrayType, lacks: Column, nulls: Column | None = None, others: Column | None = None
) -> Column:
    """`_partial` of a change that `lacks` the columns of these names, before they are looked up.

    `nulls` are names of columns that are null in the change itself. It lacks `others` that are
    null, too: those that the table gets later.
    """
    entry = kind.elementType
    assert isinstance(entry, StructType)
    position = entry.fields[2:]
    unknown = [F.lit(None).cast(f.dataType).alias(f.name) for f in position]
    here = [F.col(quoted(f.name)).alias(f.name) for f in position]

    def named(name: Column) -> Column:
        return F.struct(name.alias("column"), F.lit(False).alias("known"), *unknown)

    def null(name: Column) -> Column:
        return F.struct(name.alias("column"), F.lit(True).alias("known"), *here)

    entries = F.transform(F.array_sort(lacks), named).cast(kind)
    if nulls is not None:
        entries = F.concat(entries, F.transform(nulls, null).cast(kind))
    if others is not None:
        rest = F.array(named(F.lit(OTHERS))).cast(kind)
        entries = F.when(others, F.concat(entries, rest)).otherwise(entries)
    return F.when(F.size(entries) > 0, entries)


def forgotten(rows: DataFrame, order: Sequence[str]) -> DataFrame:
    """The rows with the `_partial` of their changes, whatever was found of them before."""
    kind = rows.schema[PARTIAL].dataType
    assert isinstance(kind, ArrayType)
    is_own = " AND ".join(f"entry.{quoted(name)} <=> {quoted(name)}" for name in order)
    unknown = F.transform(
        F.expr(f"filter({PARTIAL}, entry -> NOT (entry.known AND {is_own}))"), lambda e: e["column"]
    )
    own = F.expr(f"filter({PARTIAL}, entry -> entry.known AND {is_own})")
    entries = F.concat(F.coalesce(as_partial(kind, unknown), F.array().cast(kind)), own)
    return rows.withColumn(PARTIAL, F.when(F.size(PARTIAL) > 0, entries))


def lacked_columns(rows: DataFrame, key: Sequence[str], order: Sequence[str]) -> list[str]:
    """The columns that some row may lack, found in one job."""
    names = F.transform(PARTIAL, lambda entry: entry["column"])
    every = F.array_distinct(F.flatten(F.collect_set(names))).alias("names")
    found: list[str] = rows.agg(every).collect()[0]["names"]
    if OTHERS not in found:
        return sorted({*found} & {*rows.columns})
    own = (f.name for f in rows.schema.fields if not is_reserved(f.name))
    return sorted({*own} - {*key, *order, "dt"})


def with_earlier_values(
    rows: DataFrame,
    key: Sequence[str],
    order: Sequence[str],
    columns: Sequence[str],
    apart: Sequence[str] = (),
    gives: str = "true",
) -> DataFrame:
    """The rows with the values of the `columns` that they lack, and with what is known of these.

    Of each key, all changes and rows that count; those that differ in the columns `apart` have
    nothing to do with each other. At one position of the `order`, whose last column is the row
    hash, a delete comes first, and the same change twice counts as one. `gives` (SQL) selects the
    rows whose values others may have.
    """
    if not columns:
        return rows
    position = order[:-1]
    sort = [f"{quoted(name)} NULLS FIRST" for name in position]
    sort += [f"{DELETED} DESC", f"{quoted(order[-1])} NULLS FIRST"]
    group = ", ".join(map(quoted, (*key, *apart)))
    so_far = (
        f"OVER (PARTITION BY {group} ORDER BY {', '.join(sort)} "
        "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    here = _struct(position)
    found = [f"max(CASE WHEN {DELETED} AND {gives} THEN {here} END) {so_far} AS {_FLOOR}"]
    for index, name in enumerate(columns):
        entry = _entry(name)
        of_entry = _struct(order, f"{entry}.")
        at = (
            f"CASE WHEN {DELETED} OR NOT {gives} THEN NULL "
            f"WHEN {entry} IS NULL THEN {_struct(order)} WHEN {entry}.known THEN {of_entry} END"
        )
        value = f"named_struct('value', {quoted(name)}, 'at', {at})"
        found.append(f"max_by({value}, {at}) {so_far} AS {_BEST}{index}")
    rows = rows.selectExpr("*", *found)
    values, entries = dict[str, Column](), list[str]()
    for index, name in enumerate(columns):
        best, lacks = f"{_BEST}{index}", f"{_entry(name)} IS NOT NULL"
        is_known = (
            f"coalesce({best}.at IS NOT NULL AND "
            f"({_FLOOR} IS NULL OR {_struct(position, f'{best}.at.')} >= {_FLOOR}), false)"
        )
        known = f"CASE WHEN {is_known} THEN {best}.value END"
        values[name] = F.expr(f"CASE WHEN {lacks} THEN {known} ELSE {quoted(name)} END")
        of_best = (f"CASE WHEN {is_known} THEN {best}.at.{quoted(n)} END" for n in order)
        fields = zip(("column", "known", *order), (_text(name), is_known, *of_best), strict=True)
        struct = ", ".join(f"{_text(field)}, {sql}" for field, sql in fields)
        entries.append(f"CASE WHEN {lacks} AND NOT {DELETED} THEN named_struct({struct}) END")
    kind = rows.schema[PARTIAL].dataType
    named = ", ".join(map(_text, columns))
    rest = f"filter({PARTIAL}, entry -> NOT entry.column IN ({named}))"
    found_here = F.expr(f"filter(array({', '.join(entries)}), entry -> entry IS NOT NULL)")
    every = F.concat(found_here.cast(kind), F.expr(rest))
    values[PARTIAL] = F.when(F.size(every) > 0, every)
    return rows.withColumns(values).drop(_FLOOR, *(f"{_BEST}{i}" for i in range(len(columns))))


def _entry(name: str) -> str:
    """The entry of a column: its own, or where it is null that of all others."""
    by_name = f"get(filter({PARTIAL}, entry -> entry.column = {_text(name)}), 0)"
    others = f"get(filter({PARTIAL}, entry -> entry.column = {_text(OTHERS)}), 0)"
    return f"coalesce({by_name}, CASE WHEN {quoted(name)} IS NULL THEN {others} END)"


def _text(name: str) -> str:
    return sql_text(name.replace("\\", "\\\\"))


def _struct(names: Sequence[str], prefix: str = "") -> str:
    parts = ", ".join(f"{_text(name)}, {prefix}{quoted(name)}" for name in names)
    return f"named_struct({parts})"
