"""How much a table holds, by partition: from its log alone, no data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class Contents:
    """Files, their bytes, and their rows; None where a file has no row count."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0

    def __add__(self, other: Contents) -> Contents:
        known = self.rows is not None and other.rows is not None
        rows = (self.rows or 0) + (other.rows or 0) if known else None
        return Contents(self.files + other.files, self.bytes + other.bytes, rows)


@dataclass(frozen=True, slots=True)
class TableContents:
    """What a table holds in all, and by the day of its first partition column."""

    days: Mapping[date | None, Contents] = field(default_factory=dict)

    @property
    def whole(self) -> Contents:
        return reduce(Contents.__add__, self.days.values(), Contents())

    def day(self, day: date) -> Contents:
        return self.days.get(day, Contents())


def contents_of(table: DeltaTable) -> TableContents:
    """What is in the table as it was opened, which has a first partition column of days.

    Rows that a deletion vector hides still count; the project's own tables have none.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    day = f"partition.{table.metadata().partition_columns[0]}"
    if day not in files.column_names:  # there are no files
        return TableContents()
    rows = files["num_records"] if "num_records" in files.column_names else None
    few = pa.table(
        {
            "day": files[day],
            "bytes": files["size_bytes"],
            "rows": rows if rows is not None else pa.nulls(len(files), pa.int64()),
        }
    )
    found = few.group_by("day").aggregate(
        [
            ("bytes", "sum"),
            ("rows", "sum"),
            ("rows", "count", pc.CountOptions(mode="only_null")),
            ("bytes", "count"),
        ]
    )
    parts = zip(*(found[name].to_pylist() for name in found.column_names), strict=True)
    named = (dict(zip(found.column_names, part, strict=True)) for part in parts)
    return TableContents({p["day"]: _contents(p) for p in named})


def _contents(part: Mapping[str, int]) -> Contents:
    return Contents(
        part["bytes_count"],
        part["bytes_sum"],
        None if part["rows_count"] else part["rows_sum"],
    )
