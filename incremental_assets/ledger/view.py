"""The ledger at one moment: the history of each table, with batches that are expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.table_history import TableHistory


@dataclass(frozen=True)
class LedgerView:
    """The ledger at one moment; `ahead` are tables with expected batches."""

    version: int | None
    tables: Mapping[str, TableHistory] = field(default_factory=dict)
    ahead: Mapping[str, TableHistory] = field(default_factory=dict)

    def table(self, name: str) -> TableHistory:
        """The history of a table, empty if it was never loaded."""
        return self.ahead.get(name) or self.tables.get(name) or TableHistory(name)

    def followed_by(self, table: str, outcomes: Sequence[Entry]) -> LedgerView:
        """The ledger after one more batch of a table, which is expected."""
        after = self.table(table).followed_by(outcomes)
        return LedgerView(self.version, self.tables, {**self.ahead, table: after})
