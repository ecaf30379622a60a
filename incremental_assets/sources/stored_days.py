"""What a stored source has, told by a column or two of it, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import polars as pl
from deltalake.exceptions import DeltaError

from incremental_assets.days import ONE_DAY, DayRange
from incremental_assets.settings import local_path
from incremental_assets.sources.stored import FixedSource


def rows_by_day(
    fixed: FixedSource, day: str, cursor: str, span: DayRange
) -> Mapping[date | None, str] | None:
    """For each UTC date in the column `day`: how many rows, and the sum of their `cursor`.

    As text that changes whenever a row of the day comes, goes or changes its cursor. Row groups
    whose days all lie before `span` are skipped. None where it cannot be told: JSON and CSV, text
    for a timestamp, a Delta feature that polars does not know, an object store.
    """
    try:
        rows = _scanned(fixed)
        if rows is None:
            return {} if _is_empty(fixed) else None
        return _counted(rows, day, cursor, span)
    except (pl.exceptions.PolarsError, DeltaError, OSError, KeyError):
        return None


def highest(fixed: FixedSource, column: str) -> datetime | int | None:
    """The highest value of a column that holds instants or whole numbers.

    None where there is none, or where it cannot be told (as for `rows_by_day`). Parquet's own
    statistics tell it, where a file has them.
    """
    try:
        rows = _scanned(fixed)
        if rows is None:
            return None
        kind = rows.collect_schema()[column]
        if not (isinstance(kind, pl.Datetime) or kind.is_integer()):
            return None
        found: datetime | int | None = rows.select(pl.col(column).max()).collect().item()
    except (pl.exceptions.PolarsError, DeltaError, OSError, KeyError):
        return None
    return found


def _is_empty(fixed: FixedSource) -> bool:
    """Whether the source is a folder of Parquet files without one."""
    local = local_path(fixed.root) is not None
    return local and fixed.format == "parquet" and not fixed.files


def _scanned(fixed: FixedSource) -> pl.LazyFrame | None:
    """The rows, as they were fixed; None where polars cannot read them, or there is no file."""
    root = local_path(fixed.root)
    if root is None or fixed.format not in ("delta", "parquet"):
        return None
    if fixed.version is not None:
        return pl.scan_delta(str(root), version=fixed.version)
    paths = [str(root / file.path) for file in fixed.files]
    return pl.scan_parquet(paths, glob=False, hive_partitioning=True) if paths else None


def rows_in(counted: str) -> int:
    """The rows that such a text tells of a day; those of a day to come stand behind a comma."""
    return int(counted.partition(",")[0].partition(":")[0] or 0)


def _counted(
    rows: pl.LazyFrame, day: str, cursor: str, span: DayRange
) -> Mapping[date | None, str] | None:
    kinds = rows.collect_schema()
    at, number = _date(day, kinds[day]), _number(cursor, kinds[cursor])
    if at is None or number is None:
        return None
    # A day more on either side, because the bound is put to the column as it is.
    first: Any = pl.lit(span.first - ONE_DAY).cast(kinds[day])
    found = (
        rows.filter((pl.col(day) >= first) | pl.col(day).is_null())
        .group_by(at.alias("day"))
        .agg(pl.len().alias("rows"), number.sum().alias("sum"), number.null_count().alias("nulls"))
        .collect()
    )
    return {row["day"]: f"{row['rows']}:{row['sum']}:{row['nulls']}" for row in found.to_dicts()}


def _date(name: str, kind: pl.DataType) -> pl.Expr | None:
    if isinstance(kind, pl.Date):
        return pl.col(name)
    if not isinstance(kind, pl.Datetime):
        return None
    at = pl.col(name)
    if kind.time_zone not in (None, "UTC"):
        at = at.dt.convert_time_zone("UTC")
    return at.dt.date()


def _number(name: str, kind: pl.DataType) -> pl.Expr | None:
    if isinstance(kind, pl.Datetime):
        return pl.col(name).dt.epoch("us")
    if isinstance(kind, pl.Date):
        return pl.col(name).cast(pl.Int32).cast(pl.Int64)
    if kind.is_integer():
        return pl.col(name).cast(pl.Int128)
    return None
