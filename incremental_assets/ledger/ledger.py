"""The ledger's Delta table, read and written without a JVM, by compare-and-set.

An append goes through the very `DeltaTable` object from which the decision was read and is never
retried by the writer: if anybody committed in between it fails, the ledger is read again and the
decision is made again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime
from itertools import groupby
from typing import TypeVar

import polars as pl
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from incremental_assets.delta_protocol.commit import NO_HOOKS, ONCE, write_due_checkpoint
from incremental_assets.errors import ConflictError, LakeError, LedgerError
from incremental_assets.ledger import maintenance
from incremental_assets.ledger.compaction import replace_tables
from incremental_assets.ledger.day_index import DayIndex, index_at
from incremental_assets.ledger.entry import SCHEMA, Entry, to_frame
from incremental_assets.ledger.indexed_history import IndexedHistory
from incremental_assets.ledger.lazy_mapping import LazyMapping
from incremental_assets.ledger.maintenance import compact_if_due, configuration
from incremental_assets.ledger.reader import TableReader
from incremental_assets.ledger.snapshot import LedgerFile, LedgerSnapshot
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.tail import (
    TableTail,
    day_watermark,
    entries_of,
    last_in_log,
    tail_of,
)
from incremental_assets.ledger.view import LedgerView
from incremental_assets.locations import local_path
from incremental_assets.retries import retried
from incremental_assets.storage import copy_file, files_below

TRIES = 60
PAUSE_SECONDS = 0.02
# Far below the retention of the log (see `maintenance`): without the log since the decision, a
# commit would take the number of a version that there was already.
DECIDE_WITHIN_SECONDS = 60.0
_T = TypeVar("_T")


def ledger_path(lake: str) -> str:
    """The path of a lake's ledger."""
    return f"{lake}/_ledger"


def no_lake(lake: str) -> LakeError:
    """The error for a path without a ledger."""
    return LakeError(
        f"There is no lake at {lake}: it has no ledger. Set INCREMENTAL_ASSETS_LAKE to where the "
        "tables are, or load something first by `incremental-assets run`. If the tables are there "
        "and their ledger was lost, `incremental-assets ledger rebuild` rebuilds it."
    )


class Ledger:
    """The batches of all tables of a lake; a row per table, batch and day.

    Its table is created when it is first read. Every method raises LedgerError where it cannot be
    read or written, was written by a newer version, or is something else.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._frames: dict[str, pl.DataFrame] = {}
        self._entries: dict[str, tuple[Entry, ...]] = {}
        self._index: DayIndex | None = None
        self._cached: LedgerView | None = None
        self._viewing = threading.Lock()

    def view(self) -> LedgerView:
        """The ledger as it is now. Files are read as they are needed (see `indexed_history`).

        May be called by several threads at once.
        """
        with self._viewing:
            return self._view_of(self.snapshot())

    def view_if_any(self) -> LedgerView:
        """The same, without creating a ledger: an empty view where there is none."""
        table = self._open_if_any()
        return LedgerView(None) if table is None else self._view_of(self._snapshot_of(table))

    def tail(self, table: str) -> TableTail:
        """The tail of a table now. Costs the same however long the history is."""
        return self.tails([table])[table]

    def tails(self, tables: Iterable[str]) -> dict[str, TableTail]:
        """The tails of tables, all at one moment; creates no ledger."""
        opened = self._open_if_any()
        if opened is None:
            return {table: TableTail(table) for table in tables}
        snapshot = self._snapshot_of(opened)
        return {table: tail_of(snapshot, table) for table in tables}

    def entries_of(self, table: str, batch: int) -> tuple[Entry, ...]:
        """The claims and outcomes of one batch of a table, by day."""
        return entries_of(self.snapshot(), table, batch)

    def last_in_log(self, table: str, above: int) -> int:
        """The last batch above a number that, by the ledger, is in the table's log; 0 without."""
        return last_in_log(self.snapshot(), table, above)

    def watermark(self, table: str, upstream: str, day: date) -> int:
        """How far a table has read an upstream for a day; 0 if that was never published."""
        return day_watermark(self.snapshot(), table, upstream, day)

    def transact(self, decide: Callable[[LedgerView], Sequence[Entry]]) -> LedgerView:
        """Append what `decide` makes of the ledger; give the view that it decided on.

        `decide` is called again whenever another process was faster, so it must have no effect of
        its own. It may raise. Raises ConflictError after a bounded number of tries.
        """
        return self._compare_and_set(self._view_of, decide)

    def transact_on(self, table: str, decide: Callable[[TableTail], Sequence[Entry]]) -> TableTail:
        """The same, deciding on the tail of one table: no history is read.

        Entries of other tables may be appended with it, but nothing is decided on them.
        """
        return self._compare_and_set(lambda snapshot: tail_of(snapshot, table), decide)

    def snapshot(self) -> LedgerSnapshot:
        """The ledger's files as they are now."""
        return self._snapshot_of(self._open())

    def compact(self) -> tuple[int, int]:
        """Compact the small files of each table now; how many files there were, and are."""
        table = self._open()
        before = self._snapshot_of(table)
        compact_if_due(before, table, at_files=2)
        return len(before.files), len(self.snapshot().files)

    def replace_tables(
        self, names: Collection[str], decide: Callable[[LedgerView], Sequence[Entry]]
    ) -> None:
        """Replace all entries of some tables by what `decide` makes of the ledger.

        Raises ConflictError, and changes nothing, if another process wrote meanwhile.
        """
        table = self._open()
        snapshot = self._snapshot_of(table)
        entries = decide(self._view_of(snapshot))
        try:
            replace_tables(snapshot, table, names, entries)
        except CommitFailedError as error:
            raise ConflictError(
                f"The ledger {self.path} was changed by another run meanwhile. Nothing was "
                "replaced; run again when nothing is being loaded."
            ) from error
        except (DeltaError, OSError) as error:
            raise LedgerError(f"The ledger {self.path} cannot be written: {error}") from error

    def back_up(self, now: datetime) -> str:
        """Copy its folder; the path of the backup, "" where there is no ledger."""
        files = files_below(self.path)
        if not files:
            return ""
        backup = f"{self.path}_before_{now:%Y%m%dT%H%M%S}"
        for file in files:
            copy_file(f"{self.path}/{file.path}", f"{backup}/{file.path}")
        return backup

    def _compare_and_set(
        self, read: Callable[[LedgerSnapshot], _T], decide: Callable[[_T], Sequence[Entry]]
    ) -> _T:
        def attempt() -> _T:
            opened = time.time()
            table = self._open()
            seen = read(self._snapshot_of(table))
            entries = decide(seen)
            if not entries:
                return seen
            if abs(time.time() - opened) > DECIDE_WITHIN_SECONDS:
                raise CommitFailedError("This process, or its machine, was suspended.")
            self._append(table, entries)
            compact_if_due(self._snapshot_of(table), table)
            return seen

        try:
            return retried(attempt, on=CommitFailedError, tries=TRIES, pause_seconds=PAUSE_SECONDS)
        except CommitFailedError as error:
            raise ConflictError(
                f"The ledger {self.path} was changed by others {TRIES} times in a row. Nothing was "
                "published; run again."
            ) from error

    def _open(self) -> DeltaTable:
        table = self._open_if_any()
        return self._create() if table is None else table

    def _open_if_any(self) -> DeltaTable | None:
        try:
            return DeltaTable(self.path)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise LedgerError(f"The ledger {self.path} cannot be read: {error}") from error

    def _create(self) -> DeltaTable:
        path = local_path(self.path)
        try:
            if path is not None:
                path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self.path,
                schema=to_frame([]).to_arrow().schema,
                mode="ignore",
                partition_by=["table"],
                name="incremental_assets ledger",
                configuration=configuration(self.path),
            )
            return DeltaTable(self.path)
        except (DeltaError, OSError) as error:
            if DeltaTable.is_deltatable(self.path):  # another first run was faster
                return DeltaTable(self.path)
            raise LedgerError(
                f"The lake is not writable: {self.path} cannot be created ({error}). Set "
                "INCREMENTAL_ASSETS_LAKE to a folder where this user may write."
            ) from error

    def _append(self, table: DeltaTable, entries: Sequence[Entry]) -> None:
        known = {field.name for field in table.schema().fields}
        try:
            write_deltalake(
                table,
                to_frame(entries),
                mode="append",
                schema_mode=None if known >= set(SCHEMA) else "merge",
                commit_properties=ONCE,
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise LedgerError(f"The ledger {self.path} cannot be written: {error}") from error
        write_due_checkpoint(table, self.path, table.version(), cut=False)

    def _snapshot_of(self, table: DeltaTable) -> LedgerSnapshot:
        snapshot = LedgerSnapshot(self.path, table, self._frames)
        self._frames = snapshot.frames
        return snapshot

    def _view_of(self, snapshot: LedgerSnapshot) -> LedgerView:
        cached = self._cached
        if cached is not None and cached.version == snapshot.version:
            return cached
        # Read now: a later compaction replaces the small files, and they do not stay.
        snapshot.rows([file for file in snapshot.files if file.size < maintenance.SMALL_BYTES])
        self._index = index = index_at(snapshot, self._index)
        entries = {f.path: self._entries[f.path] for f in snapshot.files if f.path in self._entries}
        self._entries = entries
        files = {
            name: tuple(some)
            for name, some in groupby(sorted(snapshot.files, key=_table), key=_table)
        }

        def history(name: str) -> TableHistory:
            reader = TableReader(name, snapshot, files[name], index.table(name), entries)
            return IndexedHistory(reader)

        self._cached = LedgerView(snapshot.version, LazyMapping(files, history))
        return self._cached


def _table(file: LedgerFile) -> str:
    return file.table
