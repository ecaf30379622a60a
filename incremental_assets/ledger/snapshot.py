"""One version of the ledger: its files as the Delta log describes them, and rows out of them.

Each file is in the partition of one table. The log has the bounds of a few columns per file,
so a question about the newest batches reads the newest files only.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any
from urllib.parse import unquote

import polars as pl
import polars.selectors as cs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import ADDED_LATER, FORMAT_VERSION, SCHEMA, State
from incremental_assets.locations import local_path
from incremental_assets.storage import open_file

# Stored per file in the log; every further column would make each commit and checkpoint longer.
STATISTICS = ("batch", "day", "state", "kind", "high", "format_version")
_CLASSIC = ("table_name", "watermark_value")
_UNBOUNDED = 2**63
_EMPTY = pl.Schema(SCHEMA).to_frame()


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A file of the ledger; `path` is relative to it, `low` and `high` are its rows' bounds.

    A column without bounds, as another program may have written it, can hold anything.
    """

    table: str
    path: str
    size: int
    low: Mapping[str, Any]
    high: Mapping[str, Any]

    @property
    def last_batch(self) -> int:
        """No row has a greater number."""
        last = self.high.get("batch")
        return _UNBOUNDED if last is None else int(last)

    @property
    def first_batch(self) -> int:
        """No row has a smaller number."""
        return int(self.low.get("batch") or 0)

    def may_hold(self, state: State) -> bool:
        return self._may_be("state", state)

    def may_be_of(self, batch: int) -> bool:
        return self._may_be("batch", batch)

    def may_concern(self, day: date) -> bool:
        return self._may_be("day", day)

    @property
    def may_have_watermark(self) -> bool:
        """Whether an entry may have a watermark, or be a rewind, which may remove it."""
        return self.high.get("high") != "" or self._may_be("kind", "rewind")

    def _may_be(self, column: str, value: Any) -> bool:
        low, high = self.low.get(column), self.high.get(column)
        return low is None or high is None or bool(low <= value <= high)


class LedgerSnapshot:
    """The files of one version of the ledger, and their rows.

    `frames` are the rows of files that were read before, by path: a file never changes.
    """

    def __init__(self, root: str, table: DeltaTable, frames: Mapping[str, pl.DataFrame]) -> None:
        _check_columns(root, table)
        self.root = root
        self.version: int = table.version()
        self.files = tuple(_files(table))
        self.frames = {f.path: frames[f.path] for f in self.files if f.path in frames}
        newest = max((f.high.get("format_version") or 0 for f in self.files), default=0)
        if newest > FORMAT_VERSION:
            raise _another_version(root, f"format {newest}")

    def of(self, table: str) -> list[LedgerFile]:
        return [file for file in self.files if file.table == table]

    def rows(self, files: Sequence[LedgerFile]) -> list[pl.DataFrame]:
        """Every row of each file in the ledger's schema; they are cached."""
        unread = [file for file in files if file.path not in self.frames]
        self.frames |= zip((f.path for f in unread), self._read(unread, list(SCHEMA)), strict=True)
        return [self.frames[file.path] for file in files]

    def columns(self, files: Sequence[LedgerFile], columns: Sequence[str]) -> list[pl.DataFrame]:
        """Some columns of every row of each file."""
        read = self._read([f for f in files if f.path not in self.frames], columns)
        fresh = iter(read)
        return [
            self.frames[f.path].select(columns) if f.path in self.frames else next(fresh)
            for f in files
        ]

    def newest(
        self,
        files: Iterable[LedgerFile],
        wanted: pl.Expr,
        columns: Sequence[str] | None = None,
    ) -> pl.DataFrame:
        """The wanted rows of each table's newest batch that has any; of all tables in `files`.

        Files are read from the newest back, twice as many each time, until none that is left can
        hold a row of the batch found or of a later one: a compaction may have mixed their order.
        """
        left = {
            table: sorted(some, key=lambda file: file.last_batch)
            for table, some in groupby(sorted(files, key=_table), key=_table)
        }
        found: dict[str, pl.DataFrame] = {}
        many = 1
        while left:
            taken = [file for queue in left.values() for file in _take(queue, many)]
            frames = self.rows(taken) if columns is None else self.columns(taken, columns)
            for file, frame in zip(taken, frames, strict=True):
                rows = frame.filter(wanted)
                known = found.get(file.table)
                found[file.table] = rows if known is None else pl.concat([known, rows])
            left = {
                t: queue for t, queue in left.items() if queue and not _settled(found[t], queue)
            }
            many *= 2
        newest = [rows.filter(pl.col("batch") == pl.col("batch").max()) for rows in found.values()]
        return pl.concat(newest) if newest else _EMPTY.select(columns or list(SCHEMA))

    def _read(self, files: Sequence[LedgerFile], columns: Sequence[str]) -> list[pl.DataFrame]:
        try:
            read = pl.collect_all([self._scan(file, columns) for file in files])
            return [_shaped(rows, file, columns) for file, rows in zip(files, read, strict=True)]
        except (pl.exceptions.PolarsError, OSError) as error:
            raise LedgerError(f"The ledger {self.root} cannot be read: {error}") from error

    def _scan(self, file: LedgerFile, columns: Sequence[str]) -> pl.LazyFrame:
        path = f"{self.root}/{file.path}"
        local = local_path(path)
        source = local if local is not None else io.BytesIO(open_file(path).read())
        rows = pl.scan_parquet(source, glob=False, hive_partitioning=False)
        return rows.select(cs.by_name(*columns, require_all=False))


def _shaped(rows: pl.DataFrame, file: LedgerFile, columns: Sequence[str]) -> pl.DataFrame:
    """The rows of a file with the ledger's columns and types, whichever version wrote it."""
    added = [pl.lit(file.table).alias("table")] if "table" in columns else []
    for name in ADDED_LATER:
        if name in columns:
            text = pl.col(name).fill_null("") if name in rows.columns else pl.lit("")
            added.append(text.alias(name))
    rows = rows.with_columns(added).select(columns)
    schema = pl.Schema((name, SCHEMA[name]) for name in columns)
    return rows if rows.schema == schema else rows.cast(schema)


def _take(queue: list[LedgerFile], many: int) -> list[LedgerFile]:
    """Take the newest files off a queue: so many, and those that end with the last one's batch."""
    taken = [queue.pop() for _ in range(min(many, len(queue)))]
    while queue and queue[-1].last_batch == taken[-1].last_batch:
        taken.append(queue.pop())
    return taken


def _settled(found: pl.DataFrame, queue: Sequence[LedgerFile]) -> bool:
    last = found["batch"].max()
    return isinstance(last, int) and last > queue[-1].last_batch


def _table(file: LedgerFile) -> str:
    return file.table


def _files(table: DeltaTable) -> Iterable[LedgerFile]:
    """The files by the log; a path in it is encoded as a URI is."""
    for row in pl.DataFrame(table.get_add_actions(flatten=True)).iter_rows(named=True):
        yield LedgerFile(
            row["partition.table"],
            unquote(row["path"]),
            row["size_bytes"],
            {name: row.get(f"min.{name}") for name in STATISTICS},
            {name: row.get(f"max.{name}") for name in STATISTICS},
        )


def _check_columns(root: str, table: DeltaTable) -> None:
    try:
        there = [field.name for field in table.schema().fields]
    except DeltaError as error:
        raise LedgerError(f"The ledger {root} cannot be read: {error}") from error
    if set(_CLASSIC) <= set(there):
        raise LedgerError(
            f"{root} holds a plain watermark table (columns {', '.join(there)}), one row per "
            "table, and not a ledger of batches. It was left as it is. Choose another path for "
            "the ledger; `watermark_rows` gives the same columns from it."
        )
    missing = [name for name in SCHEMA if name not in there and name not in ADDED_LATER]
    if missing:
        raise _another_version(root, f"without {missing}")


def _another_version(root: str, found: str) -> LedgerError:
    return LedgerError(
        f"The ledger {root} is of another version ({found}); this program knows format "
        f"{FORMAT_VERSION}. Use the version of incremental_assets that wrote it, or a newer one."
    )
