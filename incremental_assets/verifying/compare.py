"""Two tables compared row by row, in one job: what is missing, extra or different, by day.

Rows are matched by their key, or without one by all their columns; those of one key by their
order, so that a doubled row is an extra one. Values are compared exactly, nulls as values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, MapType, VariantType

from incremental_assets.frames import quoted
from incremental_assets.row_hash import row_hash
from incremental_assets.verifying.verified import Compared, DayCompared

EXAMPLES = 5
_KINDS = ("missing", "extra", "different")
_NOT_JUDGED = "not_judged"
_DAY, _KEY, _NTH, _ROW = "_v_day", "_v_key", "_v_nth", "_v_row"


@dataclass(frozen=True)
class Matching:
    """How rows of a table are matched: the column of the `day`, the `key` (none: all columns).

    `columns` are compared, `shown` are shown of an example. With `forgets` the rebuild may lack
    rows that the source no longer has, and equal rows count as one: only a doubled row is extra
    then, and others that only the table has are not judged.
    """

    day: str
    key: Sequence[str]
    columns: Sequence[str]
    shown: Sequence[str]
    forgets: bool = False


def compare(real: DataFrame, rebuilt: DataFrame, by: Matching) -> Compared:
    """The table against its rebuild; a column that one side lacks is null there."""
    types = {f.name: f.dataType for f in rebuilt.schema.fields}
    types |= {f.name: f.dataType for f in real.schema.fields}
    kinds = {name: types[name] for name in dict.fromkeys((*by.key, *by.columns, *by.shown))}
    left, right = (_side(rows, kinds, types[by.day], by) for rows in (real, rebuilt))
    compared = [name for name in by.columns if name not in by.key]
    joined = left.alias("a").join(right.alias("b"), _same_row(by, left), "full")
    apart = {name: ~F.col(f"a.{_c(i)}").eqNullSafe(F.col(f"b.{_c(i)}")) for i, name in _at(by)}
    there = F.col(f"a.{_NTH}").isNotNull() & F.col(f"b.{_NTH}").isNotNull()
    different = F.lit(False)
    for name in compared:
        different |= apart[name]
    is_the_first = F.col(f"a.{_NTH}") == 1
    kind = (
        F.when(F.lit(by.forgets) & (F.col(f"b.{_NTH}") > 1), "same")
        .when(F.lit(by.forgets) & F.col(f"b.{_NTH}").isNull() & is_the_first, _NOT_JUDGED)
        .when(F.col(f"a.{_NTH}").isNull(), "missing")
        .when(F.col(f"b.{_NTH}").isNull(), "extra")
        .when(different, "different")
        .otherwise("same")
    )
    differs = [F.when(there, apart[name]).alias(f"_apart_{i}") for i, name in enumerate(compared)]
    rows = joined.select(
        F.coalesce(f"b.{_DAY}", f"a.{_DAY}").alias("day"),
        kind.alias("kind"),
        F.coalesce(f"b.{_KEY}", f"a.{_KEY}").alias("shown"),
        *differs,
    )
    counts = [F.count_if(F.col(f"_apart_{i}")).alias(f"_apart_{i}") for i in range(len(compared))]
    found = rows.groupBy("day").agg(
        F.count_if(F.col("kind") != _NOT_JUDGED).alias("compared"),
        F.count_if(F.col("kind") == _NOT_JUDGED).alias(_NOT_JUDGED),
        *(F.count_if(F.col("kind") == each).alias(each) for each in _KINDS),
        *(F.min(F.when(F.col("kind") == k, F.col("shown"))).alias(f"_of_{k}") for k in _KINDS),
        *counts,
    )
    days = sorted(found.collect(), key=lambda row: (row["day"] is None, row["day"]))
    columns = {name: sum(row[f"_apart_{i}"] for row in days) for i, name in enumerate(compared)}
    return Compared(
        tuple(DayCompared(row["day"], row["compared"], *(row[k] for k in _KINDS)) for row in days),
        {name: count for name, count in sorted(columns.items()) if count},
        tuple(
            f"{row['day'] or 'no day'}: {kind} {row[f'_of_{kind}']}"
            for row in days
            for kind in _KINDS
            if row[f"_of_{kind}"]
        )[:EXAMPLES],
        sum(row[_NOT_JUDGED] for row in days),
    )


def _side(rows: DataFrame, kinds: dict[str, DataType], day: DataType, by: Matching) -> DataFrame:
    """One side: the day, what is shown of a row, its key and columns, and its number in the key."""
    there = {f.name: f.dataType for f in rows.schema.fields}
    values = {
        name: _comparable(F.col(quoted(name)), there[name], kind)
        if name in there
        else F.lit(None).cast(_plain(kind))
        for name, kind in kinds.items()
    }
    shown = F.concat_ws(", ", *(_shown(name, values[name]) for name in by.shown))
    plain = rows.select(
        (F.col(quoted(by.day)) if by.day in there else F.lit(None).cast(day)).alias(_DAY),
        shown.alias(_KEY),
        *(values[name].alias(_k(i)) for i, name in enumerate(by.key)),
        *(values[name].alias(_c(i)) for i, name in _at(by)),
    )
    hashed = {f.name: f.dataType for f in plain.schema.fields if f.name not in (_DAY, _KEY)}
    plain = plain.withColumn(_ROW, row_hash(hashed))
    of_key = [_k(i) for i in range(len(by.key))] or [_ROW]
    nth = F.row_number().over(Window.partitionBy(*of_key).orderBy(_ROW))
    return plain.withColumn(_NTH, nth)


def _same_row(by: Matching, side: DataFrame) -> Column:
    names = [_k(i) for i in range(len(by.key))] or [_ROW]
    found = F.col(f"a.{_NTH}") == F.col(f"b.{_NTH}")
    for name in names:
        found &= F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}"))
    return found


def _comparable(value: Column, kind: DataType, wanted: DataType) -> Column:
    """A value as it can be compared: a variant and a map as their JSON, in order of name."""
    if isinstance(kind, VariantType):
        return F.to_json(value)
    if isinstance(kind, MapType):
        return F.to_json(F.array_sort(F.map_entries(value)))
    return value if kind == wanted else value.try_cast(wanted)


def _plain(kind: DataType) -> str:
    return "string" if isinstance(kind, VariantType | MapType) else kind.simpleString()


def _shown(name: str, value: Column) -> Column:
    return F.concat(F.lit(f"{name}="), F.coalesce(value.cast("string"), F.lit("null")))


def _at(by: Matching) -> list[tuple[int, str]]:
    return list(enumerate(by.columns))


def _k(at: int) -> str:
    return f"_k{at}"


def _c(at: int) -> str:
    return f"_c{at}"
