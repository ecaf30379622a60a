"""What the tests of verifying ask of a lake, and how they spoil one."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from incremental_assets.verifying import Compared, Verified

Counts = tuple[int, int, int]


def found_by_day(compared: Compared) -> dict[str, Counts]:
    """Missing, extra and different rows of the days that have any."""
    return {
        str(day.day): (day.missing, day.extra, day.different)
        for day in compared.days
        if day.differences
    }


def days_of(verified: Verified) -> list[str]:
    return [str(day.day) for day in verified.rows.days]


def left_out(verified: Verified) -> dict[str, str]:
    return {str(day): why for day, why in verified.left_out.items()}


def remove(path: str, where: str) -> None:
    assert DeltaTable(path).delete(where)["num_deleted_rows"] > 0


def change(path: str, where: str, **values: str) -> None:
    assert DeltaTable(path).update(values, predicate=where)["num_updated_rows"] > 0


def double(path: str, where: str) -> None:
    """Write rows of a table into it once more."""
    table = DeltaTable(path)
    rows = table.to_pyarrow_dataset().to_table().to_pylist()
    column, _, value = where.partition("=")
    again = [row for row in rows if str(row[column]) == value]
    assert again
    arrow = pa.Table.from_pylist(again, schema=table.to_pyarrow_dataset().schema)
    write_deltalake(table, arrow, mode="append")


def lose_lines(spark: SparkSession, path: str, where: str) -> None:
    """Remove rows of a table with VARIANT, which only Spark can write."""
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {where}")


def everything_in(lake: str) -> dict[str, tuple[int, int]]:
    """Each file below a lake with its size and the moment of its last change; no locks."""
    return {
        str(Path(folder) / name): (stat.st_size, stat.st_mtime_ns)
        for folder, _, names in os.walk(lake)
        for name in names
        if "_locks" not in folder
        for stat in [(Path(folder) / name).stat()]
    }


def day(number: int) -> date:
    return date(2017, 1, number)
