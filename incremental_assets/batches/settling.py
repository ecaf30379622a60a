"""Settling a batch: its outcome told from the log, and what it left beside the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from incremental_assets.batches.batch import BatchKind, quarantine_path
from incremental_assets.batches.changes import supersede_beside
from incremental_assets.batches.set_aside import judged_again
from incremental_assets.lake import quarantine
from incremental_assets.lake.beside import abandon_beside
from incremental_assets.lake.delta_log import find_commit, put_fence
from incremental_assets.lake.stage import discard_batch
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True)
class Target:
    """The settling side of a table: what its log says of a batch."""

    settings: Settings
    table: Table
    kind: BatchKind

    @property
    def path(self) -> str:
        return f"{self.settings.lake}/{self.table.name}"

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        batch = claims[0].batch
        commit = find_commit(self.path, self.table.name, batch)
        if commit is None:
            return None
        if commit.note.get("fence"):
            self._abandon(batch)
            return [replace(c, state="abandoned", files=()) for c in claims]
        entries = self.kind.settled(self.table, claims, commit)
        view = Ledger(ledger_path(self.settings.lake)).view()
        supersede(self.settings, self.table, view, entries)
        return [replace(e, why=f"{e.why} (healed)") for e in entries]

    def fence(self, batch: int) -> bool:
        if not put_fence(self.path, self.table.name, batch):
            return False
        self._abandon(batch)
        return True

    def _abandon(self, batch: int) -> None:
        quarantine.abandon(quarantine_path(self.settings, self.table), self.table.name, batch)
        for name in ("beside", "ties of"):
            abandon_beside(f"{self.path}/_beside", f"{name} {self.table.name}", batch)
        discard_batch(self.path, self.table.name, batch)


def supersede(settings: Settings, table: Table, view: LedgerView, entries: Sequence[Entry]) -> None:
    """Drop from beside the table what these outcomes say anew.

    Of a day that was rebuilt, that is also what the table does not show of it.
    """
    replaced = judged_again(view.table(table.name), entries)
    if replaced:
        quarantine.supersede(quarantine_path(settings, table), entries[0].batch, replaced)
    rebuilt = [e.day for e in entries if e.mode == "rebuild" and e.state == "committed"]
    if table.is_typed:
        supersede_beside(table, settings.lake, entries[0].batch, rebuilt)
