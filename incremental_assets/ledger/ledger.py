"""The ledger's Delta table, read and written without a JVM, by compare-and-set.

An append goes through the very `DeltaTable` object from which the decision was read and is never
retried by the writer: if anybody committed in between it fails, the ledger is read again and the
decision is made again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import groupby

import polars as pl
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from incremental_assets.errors import ConflictError, LedgerError
from incremental_assets.ledger.entry import FORMAT_VERSION, SCHEMA, Entry, from_row, to_frame
from incremental_assets.ledger.view import LedgerView, TableHistory
from incremental_assets.query import query
from incremental_assets.settings import local_path

TRIES = 60
COMPACT_AT_FILES = 50
_ONCE = CommitProperties(max_commit_retries=0)
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class Ledger:
    """The batches of all tables of a lake; a row per table, batch and day.

    Raises LedgerError where it cannot be read or written, or was written by a newer version.
    """

    def __init__(self, lake: str) -> None:
        self.path = f"{lake}/_ledger"
        self._cached: tuple[int, LedgerView] | None = None

    def view(self) -> LedgerView:
        """The ledger as it is now."""
        return self._read()[1]

    def transact(self, decide: Callable[[LedgerView], Sequence[Entry]]) -> LedgerView:
        """Append what `decide` makes of the ledger; give the view that it decided on.

        `decide` is called again whenever somebody else was faster, so it must have no effect of
        its own. It may raise. Raises ConflictError after a bounded number of tries.
        """
        for attempt in range(TRIES):
            table, view = self._read()
            entries = decide(view)
            if not entries:
                return view
            try:
                self._append(table, entries)
            except CommitFailedError:
                time.sleep(random.uniform(0.001, 0.02) * min(attempt + 1, 10))
                continue
            return view
        raise ConflictError(
            f"The ledger {self.path} was changed by others {TRIES} times in a row. Nothing was "
            "published; run again."
        )

    def _read(self) -> tuple[DeltaTable, LedgerView]:
        try:
            table = DeltaTable(self.path)
        except TableNotFoundError:
            table = self._create()
        except (DeltaError, OSError) as error:
            raise LedgerError(f"The ledger {self.path} cannot be read: {error}") from error
        version = table.version()
        if self._cached is None or self._cached[0] != version:
            self._cached = (version, _load(table))
        return table, self._cached[1]

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
                configuration={"delta.checkpointInterval": "50"},
            )
            return DeltaTable(self.path)
        except (DeltaError, OSError) as error:
            if DeltaTable.is_deltatable(self.path):  # another first run was faster
                return DeltaTable(self.path)
            raise LedgerError(
                f"The lake is not writable: {self.path} cannot be created ({error}). Set "
                "INCREMENTAL_ASSETS_LAKE to a place where this user may write."
            ) from error

    def _append(self, table: DeltaTable, entries: Sequence[Entry]) -> None:
        try:
            write_deltalake(
                table,
                to_frame(entries),
                mode="append",
                commit_properties=_ONCE,
                post_commithook_properties=_NO_HOOKS,
            )
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise LedgerError(f"The ledger {self.path} cannot be written: {error}") from error
        self._compact_on_the_way()

    def _compact_on_the_way(self) -> None:
        table = DeltaTable(self.path)
        if len(table.file_uris()) < COMPACT_AT_FILES:
            return
        try:
            table.optimize.compact(commit_properties=_ONCE)
        except DeltaError:
            return  # somebody appended meanwhile; the next append tries again


def _load(table: DeltaTable) -> LedgerView:
    try:
        frame = query(table)
    except (DeltaError, OSError) as error:
        raise LedgerError(f"The ledger {table.table_uri} cannot be read: {error}") from error
    missing = [name for name in SCHEMA if name not in frame.columns]
    newest = frame["format_version"].max() if "format_version" in frame.columns else None
    if missing or (isinstance(newest, int) and newest > FORMAT_VERSION):
        raise LedgerError(
            f"The ledger {table.table_uri} is of another version (format {newest!r}, without "
            f"{missing or 'nothing'}); this program knows format {FORMAT_VERSION}. Use the "
            "version of incremental_assets that wrote it, or a newer one."
        )
    frame = frame.cast(pl.Schema(SCHEMA)).sort("table", "batch", "day")
    entries = [from_row(row) for row in frame.iter_rows(named=True)]
    tables = {
        name: TableHistory(name, tuple(rows))
        for name, rows in groupby(entries, key=lambda entry: entry.table)
    }
    return LedgerView(table.version(), tables)
