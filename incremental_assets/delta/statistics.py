"""The statistics of a data file, as Delta keeps them, from the footer of its Parquet file.

Delta's protocol, "Per-file statistics": `numRecords`, and per column `minValues`, `maxValues` and
`nullCount`. Readers do not prune by a column that is left out, so what has no exact bound is left
out: text of more than 32 characters, floating point, nested columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

LONGEST_TEXT = 32
MOST_COLUMNS = 32
_MILLISECOND = timedelta(milliseconds=1)


def file_statistics(footer: pq.FileMetaData) -> tuple[int, str]:
    """The number of rows, and Delta's JSON of the statistics."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(min(footer.num_columns, MOST_COLUMNS)):
        name = footer.schema.column(index).path
        found = [footer.row_group(g).column(index).statistics for g in range(footer.num_row_groups)]
        if "." in name or not found or any(s is None for s in found):
            continue
        if all(s.has_null_count for s in found):
            nulls[name] = sum(s.null_count for s in found)
        bounded = [s for s in found if s.has_min_max]
        if len(bounded) == sum(1 for s in found if s.num_values) and bounded:
            try:
                low = _json_value(min(s.min for s in bounded), up=False)
                high = _json_value(max(s.max for s in bounded), up=True)
            except (OverflowError, ValueError):
                continue  # an instant that Python cannot represent: beyond the year 9999
            if low is not None and high is not None:
                lows[name], highs[name] = low, high
    parts: Mapping[str, Any] = {
        "numRecords": footer.num_rows,
        "minValues": lows,
        "maxValues": highs,
        "nullCount": nulls,
    }
    return footer.num_rows, json.dumps(parts, separators=(",", ":"))


def _json_value(value: Any, *, up: bool) -> Any:  # noqa: PLR0911 - a case per type
    """A bound as JSON; None where there is no exact or, for an instant, safe one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else None
    if isinstance(value, datetime):
        # In milliseconds, as Delta's readers expect it; the upper bound is rounded up.
        instant = value if value.tzinfo else value.replace(tzinfo=UTC)
        rest = timedelta(microseconds=instant.microsecond % 1000)
        rounded = instant - rest + (_MILLISECOND if up and rest else timedelta(0))
        utc = rounded.astimezone(UTC).replace(tzinfo=None)
        return utc.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else None
    return None
