"""Which files of a stored source may hold rows of a day, without a JVM and without a row read."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.sources.path_columns import folder_values
from incremental_assets.sources.source import DaySpan, FixedSource
from incremental_assets.sources.source_file import SourceFile

_WRAP = 2**128
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DELTA_DAYS = ("date", "timestamp", "timestamp_ntz", "timestampNtz")


def files_by_day(
    fixed: FixedSource, column: str, days: Collection[date], last: date
) -> Mapping[date, str] | None:
    """For each of `days` that may have rows: how many files may hold them, and which.

    As text that changes whenever a file with rows of the day comes, goes or is rewritten. A day is
    a UTC date in `column`; rows without one and of days after `last` count to `last`. Taken from
    the statistics in a Delta log and in the footers of Parquet files; a file without them may hold
    rows of any day. None where it cannot be taken at all: JSON and CSV, text for a timestamp, and
    Parquet files in an object store.
    """
    asked = sorted(days)
    try:
        files = fixed.day_spans(column)
    except (DeltaError, pa.ArrowException, OSError):
        return None
    if files is None:
        return None
    # A file is entered at the first of its days and left after the last one.
    counts, digests = [0] * (len(asked) + 1), [0] * (len(asked) + 1)
    for file in files:
        for begin, end in _ranges_of(file, asked, last):
            counts[begin] += 1
            counts[end] -= 1
            digests[begin] += file.digest
            digests[end] -= file.digest
    found: dict[date, str] = {}
    count = digest = 0
    for day, more, other in zip(asked, counts, digests, strict=False):
        count, digest = count + more, digest + other
        if count:
            found[day] = f"{count}:{digest % _WRAP:032x}"
    return found


@dataclass(frozen=True, slots=True)
class FileSpan:
    """A file, by a number of its own, and the days that it may hold rows of.

    Without a `first` or `last` it may hold rows of any day; `dayless` are its rows without a day,
    as far as is known.
    """

    digest: int
    first: date | None
    last: date | None
    dayless: Literal["none", "some", "all"]

    @classmethod
    def of(cls, file: tuple[Any, ...], low: Any, high: Any, dayless: str) -> FileSpan:
        digest = hashlib.blake2b(repr(file).encode(), digest_size=16).digest()
        known: Literal["none", "some", "all"] = dayless  # type: ignore[assignment]
        return cls(int.from_bytes(digest), _utc_date(low), _utc_date(high), known)


def _ranges_of(file: DaySpan, asked: Sequence[date], last: date) -> list[tuple[int, int]]:
    """The ranges of `asked`, from begin up to end, of whose days the file may hold rows."""
    low = 0 if file.first is None else bisect_left(asked, file.first)
    high = len(asked) if file.last is None else bisect_right(asked, file.last)
    ranges = [(low, high)] if low < high and file.dayless != "all" else []
    at = bisect_left(asked, last)
    is_asked = at < len(asked) and asked[at] == last
    to_come = file.last is None or file.last > last
    if is_asked and (file.dayless != "none" or to_come) and not (ranges and low <= at < high):
        ranges.append((at, at + 1))
    return ranges


def delta_spans(root: str, version: int, column: str) -> list[FileSpan] | None:
    """The days of the files of a Delta table's version, by its log; None for no column of days."""
    table = DeltaTable(root, version=version)
    kind = next((f.type for f in table.schema().fields if f.name == column), None)
    if getattr(kind, "type", None) not in _DELTA_DAYS:
        return None
    files = pa.table(table.get_add_actions(flatten=True))
    columns = {name: files[name].to_pylist() for name in files.column_names}
    nothing: list[Any] = [None] * files.num_rows
    same = (columns[name] for name in ("path", "size_bytes", "modification_time"))
    spans = []
    for at, file in enumerate(zip(*same, strict=True)):
        if f"partition.{column}" in columns:
            day = columns[f"partition.{column}"][at]
            spans.append(FileSpan.of(file, day, day, "all" if day is None else "none"))
            continue
        low, high, nulls, rows = (
            columns.get(name, nothing)[at]
            for name in (f"min.{column}", f"max.{column}", f"null_count.{column}", "num_records")
        )
        spans.append(FileSpan.of(file, low, high, _dayless(nulls, rows)))
    return spans


def parquet_spans(root: Path, files: Sequence[SourceFile], column: str) -> list[FileSpan]:
    """The days of Parquet files, by their folders or footers."""
    return list(_parquet_spans(root, files, column))


def _parquet_spans(root: Path, files: Sequence[SourceFile], column: str) -> Iterator[FileSpan]:
    named = folder_values([file.path for file in files]).get(column)
    for file in files:
        identity = (file.path, file.size, file.tag or file.modified)
        if named is not None:
            day = _named_day(named.get(file.path) or "")
            yield FileSpan.of(identity, day, day, "none" if day else "some")
        else:
            yield _in_footer(pq.read_metadata(root / file.path), column, identity)


def _named_day(text: str) -> date | None:
    """The day that a folder is named after, if it is one."""
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:  # 2017-02-30
        return None


def _in_footer(footer: pq.FileMetaData, column: str, file: tuple[Any, ...]) -> FileSpan:
    """The days by the statistics of a file's row groups."""
    paths = [footer.schema.column(n).path for n in range(footer.num_columns)]
    unknown = FileSpan.of(file, None, None, "some")
    if column not in paths:
        return unknown
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    chunks = [group.column(paths.index(column)) for group in groups]
    if not all(chunk.is_stats_set and chunk.statistics.has_null_count for chunk in chunks):
        return unknown
    nulls = sum(chunk.statistics.null_count for chunk in chunks)
    dated = [chunk for chunk in chunks if chunk.statistics.null_count < chunk.num_values]
    if not all(chunk.statistics.has_min_max for chunk in dated):
        return unknown
    try:
        lows = [chunk.statistics.min for chunk in dated]
        highs = [chunk.statistics.max for chunk in dated]
    except (OverflowError, ValueError):  # years that Python does not know
        return unknown
    dayless = _dayless(nulls, footer.num_rows)
    return FileSpan.of(file, min(lows, default=None), max(highs, default=None), dayless)


def _dayless(nulls: int | None, rows: int | None) -> str:
    if nulls is None:
        return "some"
    return "none" if nulls == 0 else "all" if nulls == rows else "some"


def _utc_date(value: Any) -> date | None:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).date()
    return value if isinstance(value, date) else None
