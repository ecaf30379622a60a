"""The rows of a source as a load works with them: checked columns, typed order, hash."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from incremental_assets.changes.request import ReadRequest
from incremental_assets.delta.columns import HASH, ORDER, is_reserved
from incremental_assets.errors import SourceError
from incremental_assets.frames import quoted
from incremental_assets.quality.types import Instant
from incremental_assets.row_hash import row_hash

LINE = "line:"
_READER_COLUMNS = ("_file", "_raw", "_unreadable")
_WHOLE_NUMBER = r"^\s*[+-]?[0-9]{1,38}\s*$"
_UNORDERED = (ArrayType, MapType, StructType, VariantType, BinaryType)


def own_types(rows: DataFrame) -> dict[str, DataType]:
    """The source's own columns, with their types."""
    return {f.name: f.dataType for f in rows.schema.fields if f.name not in _READER_COLUMNS}


def require_no_lines(request: ReadRequest, rows: DataFrame) -> None:
    """Raise SourceError for a source without a column that holds lines nevertheless.

    Otherwise it would seem to have nothing new.
    """
    line = next(iter(rows.select("_raw").limit(1).collect()), None)
    if line is not None:
        raise SourceError(
            f"{request.name}: the source {request.source.path} holds lines, such as "
            f"{str(line['_raw'])[:60]!r}, and none of them is a JSON object. Nothing was loaded; "
            "write one object a line (an array becomes that by `jq -c '.[]'`)."
        )


def require_columns(
    request: ReadRequest, own: Mapping[str, DataType], needed: Collection[str]
) -> None:
    """Raise SourceError for a column that is missing, reserved, or duplicated."""
    source = f"{request.name}: the source {request.source.path}"
    missing = sorted(set(needed) - set(own))
    if missing:
        raise SourceError(
            f"{source} has no column {', '.join(map(repr, missing))}; it has {sorted(own)}. "
            "Nothing was loaded; name a column that it has."
        )
    validity = request.state.write.validity
    clash = sorted(name for name in own if name.lower() in validity or is_reserved(name))
    if clash:
        raise SourceError(
            f"{source} has columns {clash}, whose names the load uses for its own. Nothing was "
            "loaded; rename them in the source, or read it through a view of other names."
        )
    floats = [n for n in request.partition_by if isinstance(own.get(n), DoubleType | FloatType)]
    if floats and request.state.version is None:
        raise SourceError(
            f"{source}: {floats} cannot partition the target, since a floating-point number is "
            "written in more ways than one. Nothing was loaded; partition by a whole number, a "
            "text or a date."
        )
    folded = [name.lower() for name in own]
    twice = sorted(name for name in own if folded.count(name.lower()) > 1)
    if twice:
        raise SourceError(
            f"{source} has columns that differ only in case: {twice}. Nothing was loaded; rename "
            "one of each."
        )


def instant_of(name: str, kind: DataType) -> Column:
    """A column as an instant; text is ISO 8601, UTC unless an offset is given."""
    column = F.col(quoted(name))
    if isinstance(kind, TimestampType):
        return column
    if isinstance(kind, TimestampNTZType | DateType):
        return column.cast("timestamp_ltz")
    if isinstance(kind, StringType):
        return Instant().parse(column)
    remedy = "read by a sequence" if isinstance(kind, IntegralType | DecimalType) else "converted"
    raise SourceError(
        f"Column {name!r} is {kind.simpleString()}, which cannot be ordered as instants; it should "
        f"be a timestamp, a date or ISO 8601 text. Nothing was loaded; it may be {remedy}."
    )


def number_of(name: str, kind: DataType) -> Column:
    """A column as a whole number: bigint, or decimal(38,0) where that is needed."""
    column = F.col(quoted(name))
    if isinstance(kind, IntegralType):
        return column.cast("bigint")
    if isinstance(kind, DecimalType) and kind.scale == 0:
        return column.cast("decimal(38,0)")
    if isinstance(kind, StringType):
        return F.when(column.rlike(_WHOLE_NUMBER), F.trim(column).try_cast("decimal(38,0)"))
    if isinstance(kind, DoubleType | FloatType):
        why = "floating-point numbers are equal to their neighbours beyond 2^53"
    elif isinstance(kind, _UNORDERED):
        why = "such values have no order"
    else:
        why = "a sequence is of whole numbers; instants are read by a timestamp"
    raise SourceError(
        f"Column {name!r} is {kind.simpleString()}, which cannot be ordered as a sequence: {why}. "
        "Nothing was loaded; name a column of whole numbers."
    )


def with_order(rows: DataFrame, own: Mapping[str, DataType], order: Column) -> DataFrame:
    """Add `_order` and `_hash`."""
    return rows.withColumns({ORDER: order, HASH: hash_of(own)})


def hash_of(own: Mapping[str, DataType]) -> Column:
    """The row's hash; of a line that could not be taken apart, the line's.

    A value that cannot be read is null here, and yet the row is not the one that holds a null.
    """
    line = F.concat(F.lit(LINE), F.substring(F.sha2(F.col("_raw"), 256), 1, 32))
    names = F.concat_ws(",", F.array_sort("_unreadable"))
    unread = F.concat(F.lit("unread:"), names, F.lit(":"), row_hash(own))
    return (
        F.when(F.col("_raw").isNotNull(), line)
        .when(F.size("_unreadable") > 0, unread)
        .otherwise(row_hash(own))
    )


def unseen(rows: DataFrame, known: Sequence[DataFrame]) -> DataFrame:
    """The rows that are not among the known ones, by `_hash`.

    A row that equals a known one in every column is that row, delivered again.
    """
    for hashes in known:
        rows = rows.join(hashes.select(HASH), HASH, "left_anti")
    return rows
