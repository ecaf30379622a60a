"""Settling a batch that a dead run left: its outcome is read from the log, or it is rolled back.

The same for a table's days and for a loader's target; they differ in where their parts are stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from incremental_assets.delta.columns import TABLE
from incremental_assets.delta.delta_log import (
    Commit,
    find_commit,
    last_transaction,
    put_fence,
    transaction,
)
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.delta.side_table import (
    CONFLICTS,
    SIDE_COLUMNS,
    SIDE_ROWS,
    abandon_side_rows,
    cleanup,
    delete_side_rows,
    side_table_of,
)
from incremental_assets.delta.stage import discard_batch
from incremental_assets.engine.batch import BatchKind, quarantine_of
from incremental_assets.engine.outdated import outcomes_of, outdated_rows
from incremental_assets.engine.target import TargetTable
from incremental_assets.errors import LedgerError
from incremental_assets.ledger.consistency import LogState, require_own_commit
from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.consistent import A_MISSING_TABLE, log_state_of
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True)
class Settling(ABC):
    """Settles the batches of the load `name` by the log of the table at `path`.

    `remedy` is what to do where the ledger and the table are inconsistent.
    """

    name: str
    path: str
    quarantine: Quarantine
    log: Callable[[str], None]

    @property
    @abstractmethod
    def remedy(self) -> str: ...

    @abstractmethod
    def log_state(self) -> LogState:
        """The state of the table by its own log."""

    @abstractmethod
    def committed(self, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        """The outcome of a batch that was published, from its commit."""

    @property
    @abstractmethod
    def has_side_table(self) -> bool:
        """Whether a batch may write to a side table."""

    def roll_back(self, batch: int) -> None:
        """Take back what a fenced batch wrote, other than to the side table and staged files."""
        self.quarantine.abandon(batch, self.log)

    def abandoned(self, claim: Entry) -> Entry:
        """The outcome of an abandoned claim."""
        return replace(claim, state="abandoned", files=())

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        """The outcome of a batch; None if the table does not have it."""
        batch = claims[0].batch
        if open_table(self.path) is None:
            return None
        commit = find_commit(self.path, self.name, batch)
        if commit is None:
            return None
        if commit.note.get("fence"):
            self._abandon(batch)
            return [self.abandoned(claim) for claim in claims]
        require_own_commit(claims[0], commit.note, self.path, self.remedy)
        entries = self.committed(claims, commit)
        return [replace(e, why=f"{e.why} (settled)".strip()) for e in entries]

    def fence(self, batch: int) -> bool:
        """Make the batch impossible; False if its writer committed first."""
        if open_table(self.path) is not None and not put_fence(self.path, self.name, batch):
            self._require_in_log(batch)
            return False
        self._abandon(batch)
        return True

    def _require_in_log(self, batch: int) -> None:
        """Raise LedgerError if the table has had a batch whose commit is not in its log."""
        had = transaction(self.path, self.name) >= batch
        if had and find_commit(self.path, self.name, batch) is None:
            raise LedgerError(
                f"{self.name}: batch {batch} has no outcome in the ledger, and its commit is no "
                f"longer in the log of {self.path}: the log was cut, or the ledger is older. "
                f"Nothing was loaded. {self.remedy}"
            )

    def _abandon(self, batch: int) -> None:
        self.roll_back(batch)
        side, own = side_table_of(self.path), {TABLE: self.name}
        columns = SIDE_COLUMNS if self.has_side_table else ()
        for app in (SIDE_ROWS, CONFLICTS):
            abandon_side_rows(side, f"{app} {self.name}", batch, own, columns)
        with cleanup(f"{self.name}: files that batch {batch} had staged", self.log):
            if open_table(self.path) is not None:
                discard_batch(self.path, self.name, batch)


@dataclass(frozen=True)
class TableSettling(Settling):
    """Settles the batches of a table of the lake; `settled` are the days that got an outcome."""

    settings: Settings
    table: Table
    kind: BatchKind[Any]
    settled: set[date] = field(default_factory=set)

    @classmethod
    def of(
        cls, settings: Settings, table: Table, kind: BatchKind[Any], log: Callable[[str], None]
    ) -> TableSettling:
        """The settling of a table."""
        path, quarantine = f"{settings.lake}/{table.name}", quarantine_of(settings, table)
        return cls(table.name, path, quarantine, log, settings, table, kind)

    @property
    def remedy(self) -> str:
        return (
            "Restore the ledger and the table as they were at one time; or "
            f"`incremental-assets ledger rebuild {self.table.name}` rebuilds the ledger from "
            f"what the table's log has. {A_MISSING_TABLE}"
        )

    @property
    def has_side_table(self) -> bool:
        return self.table.has_side_table

    def log_state(self) -> LogState:
        return log_state_of(self.settings, self.table)

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        self.settled.update(claim.day for claim in claims)
        return super().outcome(claims)

    def committed(self, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        entries = self.kind.settled(self.table, claims, commit)
        supersede(self.settings, self.table, entries)
        return entries

    def remove_outdated(self, view: LedgerView) -> None:
        """Remove what batches left that did not end: rows in quarantine, and unpacked archives."""
        if self.settled:
            outcomes = outcomes_of(view.table(self.name), self.settled)
            self.quarantine.remove_outdated(outdated_rows(outcomes, self.settled), self.log)
            if self.table.input is not None:
                with cleanup(f"{self.name}: unpacked archives", self.log):
                    self.table.input.remove_leftovers(self.settings.lake, self.name)


@dataclass(frozen=True)
class TargetSettling(Settling):
    """Settles the batches of a loader's target."""

    target: TargetTable

    @classmethod
    def of(cls, target: TargetTable, log: Callable[[str], None]) -> TargetSettling:
        """The settling of a target."""
        return cls(target.name, target.path, target.state.quarantine, log, target)

    @property
    def remedy(self) -> str:
        restore = "Restore the target and the watermarks as they were at one time"
        if self.target.snapshot:
            return (
                f"{restore}, with the snapshot; or load into an empty target_path, with an empty "
                "snapshot_path and watermark_path."
            )
        return (
            f"{restore}; or load with another watermark_path: everything is then read again, and "
            "merged where there is a primary_key (without one, name start_from)."
        )

    @property
    def has_side_table(self) -> bool:
        return self.target.write.by_key

    def log_state(self) -> LogState:
        """The state of the log; a target that the ledger does not know is loaded further."""
        is_there, last = last_transaction(self.path, self.name)
        return LogState(self.path, is_there, last, may_predate_ledger=True)

    def abandoned(self, claim: Entry) -> Entry:
        return replace(claim, state="abandoned", high=claim.low)

    def committed(self, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        days = commit.note.get("touched", {}).items()
        touched = tuple(Touched(date.fromisoformat(day), rows) for day, rows in days)
        return [
            replace(
                claim,
                **commit.note.get("metrics", {}),
                state="committed",
                touched=touched,
                target_version=commit.version,
            )
            for claim in claims
        ]

    def roll_back(self, batch: int) -> None:
        super().roll_back(batch)
        self.target.changes.roll_back(self.name, self.target.snapshot, batch)


def supersede(settings: Settings, table: Table, entries: Sequence[Entry]) -> None:
    """Delete from a side table the rows of earlier batches, of the days that were rebuilt."""
    rebuilt = [e.day for e in entries if e.mode == "rebuild" and e.state == "committed"]
    if table.is_typed and rebuilt:
        path = side_table_of(f"{settings.lake}/{table.name}")
        delete_side_rows(path, f"dt IN ({sql_days(rebuilt)}) AND _batch < {entries[0].batch}")
