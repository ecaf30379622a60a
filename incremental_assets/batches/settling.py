"""Settling a batch: its outcome told from the log, and what it left beside the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from incremental_assets.batches.batch import BatchKind, quarantine_path
from incremental_assets.batches.changes import supersede_beside
from incremental_assets.batches.superseded import outcomes_of, tidy
from incremental_assets.intake.intake import TABLE
from incremental_assets.lake import quarantine
from incremental_assets.lake.beside import abandon_beside, tolerated
from incremental_assets.lake.delta_log import find_commit, open_table, put_fence
from incremental_assets.lake.stage import discard_batch
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.together import LogStanding, require_own
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.together import A_TABLE_THAT_IS_GONE, log_standing
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True)
class Target:
    """The settling side of a table: what its log says of a batch.

    `settled` are the days that were given an outcome, whose quarantine is to be tidied.
    """

    settings: Settings
    table: Table
    kind: BatchKind
    say: Callable[[str], None] = lambda _: None
    settled: set[date] = field(default_factory=set)

    @property
    def path(self) -> str:
        return f"{self.settings.lake}/{self.table.name}"

    @property
    def remedy(self) -> str:
        return (
            "Restore the ledger and the table as they were at one time; or "
            f"`incremental-assets ledger rebuild {self.table.name}` makes the ledger anew from "
            f"what the table's log says. {A_TABLE_THAT_IS_GONE}"
        )

    def standing(self) -> LogStanding:
        return log_standing(self.settings, self.table)

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        batch = claims[0].batch
        self.settled.update(claim.day for claim in claims)
        if open_table(self.path) is None:
            return None
        commit = find_commit(self.path, self.table.name, batch)
        if commit is None:
            return None
        if commit.note.get("fence"):
            self._abandon(batch)
            return [replace(c, state="abandoned", files=()) for c in claims]
        require_own(claims[0], commit.note, self.path, self.remedy)
        entries = self.kind.settled(self.table, claims, commit)
        supersede(self.settings, self.table, entries)
        return [replace(e, why=f"{e.why} (healed)") for e in entries]

    def fence(self, batch: int) -> bool:
        if open_table(self.path) is not None and not put_fence(self.path, self.table.name, batch):
            return False
        self._abandon(batch)
        return True

    def tidy(self, view: LedgerView) -> None:
        """Take away what the outcomes on record say does not count any more."""
        path, name = quarantine_path(self.settings, self.table), self.table.name
        if self.settled:
            outcomes = outcomes_of(view.table(name), self.settled)
            tidy(path, name, outcomes, self.settled, self.say)

    def _abandon(self, batch: int) -> None:
        aside = quarantine_path(self.settings, self.table)
        quarantine.fence(aside, self.table.name, batch)
        for name in ("beside", "ties of"):
            app = f"{name} {self.table.name}"
            abandon_beside(f"{self.path}/_beside", app, batch, {TABLE: self.table.name})
        with tolerated(f"{self.table.name}: files that batch {batch} had staged", self.say):
            if open_table(self.path) is not None:
                discard_batch(self.path, self.table.name, batch)
            quarantine.discard(aside, self.table.name, batch)


def supersede(settings: Settings, table: Table, entries: Sequence[Entry]) -> None:
    """Drop from beside the table what it does not show of days that these outcomes rebuilt."""
    rebuilt = [e.day for e in entries if e.mode == "rebuild" and e.state == "committed"]
    if table.is_typed:
        supersede_beside(table, settings.lake, entries[0].batch, rebuilt)
