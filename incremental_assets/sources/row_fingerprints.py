"""Fingerprints of the days of a stored source, by its rows and without a JVM."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import date, datetime
from functools import reduce

import polars as pl
from deltalake.exceptions import DeltaError

from incremental_assets.days import ONE_DAY, contiguous
from incremental_assets.sources.source import FixedSource

# With more ranges than these, one range over all of them is quicker to compare rows with.
_MOST_RANGES = 16


def rows_by_day(
    fixed: FixedSource, column: str, days: Collection[date], last: date
) -> Mapping[date, str] | None:
    """For each of `days` that has rows: how many, and the sum of their hashes over all columns.

    As text that changes whenever a row of the day comes, goes or changes in any column, and not
    with the order of the rows or columns, or with a column that is null. Rows without a day and of
    days after `last` count to `last`. Row groups of other days are skipped. None where it cannot
    be taken: JSON and CSV, text for a timestamp, a Delta feature that polars does not know, an
    object store. Another release of polars may hash otherwise: each day then counts as changed.
    """
    own = fixed.rows_by_day(column, days, last)
    if own is not None:
        return own
    try:
        rows = fixed.scan()
        if rows is None:
            return {} if fixed.is_missing else None
        return _counted(rows, column, frozenset(days), last)
    except (pl.exceptions.PolarsError, DeltaError, OSError, KeyError):
        return None


def highest(fixed: FixedSource, column: str) -> datetime | int | None:
    """The highest value of a column that holds instants or whole numbers.

    None where there is none, or where it is not known (as for `rows_by_day`). Parquet's own
    statistics give it, where a file has them.
    """
    own = fixed.highest(column)
    if own is not None:
        return own
    try:
        rows = fixed.scan()
        if rows is None:
            return None
        kind = rows.collect_schema()[column]
        if not (isinstance(kind, pl.Datetime) or kind.is_integer()):
            return None
        found: datetime | int | None = rows.select(pl.col(column).max()).collect().item()
    except (pl.exceptions.PolarsError, DeltaError, OSError, KeyError):
        return None
    return found


def rows_in(counted: str) -> int:
    """The number of rows in a day's fingerprint."""
    return int(counted.partition(",")[0].partition(":")[0] or 0)


def _counted(
    rows: pl.LazyFrame, column: str, days: frozenset[date], last: date
) -> Mapping[date, str] | None:
    kinds = rows.collect_schema()
    at = _date(column, kinds[column])
    if at is None:
        return None
    wanted = _wanted(pl.col(column), kinds[column], days, last)
    day = pl.when(at.is_null() | (at > last)).then(pl.lit(last)).otherwise(at)
    found = (
        rows.filter(wanted)
        .select(day.alias("day"), _row_hash(kinds.names()).alias("hash"))
        .group_by("day")
        .agg(pl.len().alias("rows"), pl.col("hash").cast(pl.Int128).sum())
        .collect()
    )
    return {
        row["day"]: f"{row['rows']}:{row['hash']:x}"
        for row in found.to_dicts()
        if row["day"] in days
    }


def _wanted(at: pl.Expr, kind: pl.DataType, days: Collection[date], last: date) -> pl.Expr:
    """The rows that may be of the days, by the column as it is, so that row groups are skipped."""
    ranges = [(span.first, span.last) for span in contiguous(days)]
    if len(ranges) > _MOST_RANGES:
        ranges = [(ranges[0][0], ranges[-1][1])]

    def bound(day: date) -> pl.Expr:
        return pl.lit(day).cast(kind)

    # A day more on either side, because the bound is put to the column as it is.
    parts = [
        (at >= bound(low - ONE_DAY)) & (at < bound(high + 2 * ONE_DAY)) for low, high in ranges
    ]
    if last in days:
        parts += [at.is_null(), at >= bound(last - ONE_DAY)]
    return reduce(pl.Expr.or_, parts, pl.lit(value=False))


def _row_hash(columns: Collection[str]) -> pl.Expr:
    """A hash of a row's values, each with its column's name; a null counts as not there."""
    nothing = pl.lit(0, dtype=pl.UInt64)
    values = (
        pl.when(pl.col(name).is_null()).then(nothing).otherwise(pl.col(name).hash(_seed(name)))
        for name in columns
    )
    return reduce(pl.Expr.xor, values, nothing).hash(_seed(""))


def _seed(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def _date(name: str, kind: pl.DataType) -> pl.Expr | None:
    if isinstance(kind, pl.Date):
        return pl.col(name)
    if not isinstance(kind, pl.Datetime):
        return None
    at = pl.col(name)
    if kind.time_zone not in (None, "UTC"):
        at = at.dt.convert_time_zone("UTC")
    return at.dt.date()
