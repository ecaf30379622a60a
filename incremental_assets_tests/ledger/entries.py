"""Entries, and short ways to write them, for the tests of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from deltalake import DeltaTable

from incremental_assets.ledger import compaction
from incremental_assets.ledger.entry import Entry, State, to_frame
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.snapshot import LedgerSnapshot
from incremental_assets.ledger.view import LedgerView

SALES, USERS = "silver/sales", "silver/users"
DAY = date(2017, 1, 2)
NOON = datetime(2017, 1, 3, 12, tzinfo=UTC)


def entry(batch: int, state: State = "claimed", table: str = SALES, **facts: Any) -> Entry:
    defaults: dict[str, Any] = {
        "day": DAY,
        "kind": "advance",
        "mode": "merge",
        "detector": "batches",
        "recorded_at": NOON,
    }
    return Entry(table=table, batch=batch, state=state, **(defaults | facts))


def next_number(claimed: list[int], table: str = SALES) -> Callable[[LedgerView], Sequence[Entry]]:
    """A decision that claims the number after the last one, and notes which it was."""

    def decide(view: LedgerView) -> Sequence[Entry]:
        claimed[:] = [view.table(table).last_batch + 1]
        return [entry(claimed[0], table=table)]

    return decide


def claim(ledger: Ledger, table: str = SALES) -> int:
    claimed: list[int] = []
    ledger.transact(next_number(claimed, table))
    return claimed[0]


def append(ledger: Ledger, *entries: Entry) -> None:
    """Each in a commit, and so a file, of its own."""
    for one in entries:
        ledger.transact_on(one.table, lambda _, one=one: [one])  # type: ignore[misc]


def numbers(ledger: Ledger, table: str = SALES) -> list[int]:
    return [e.batch for e in ledger.view().table(table).entries]


def files(ledger: Ledger) -> int:
    return len(DeltaTable(ledger.path).file_uris())


def compact(ledger: Ledger) -> None:
    """Compact all files of each table, as the ledger does by itself once there are many."""
    table = DeltaTable(ledger.path)
    snapshot = LedgerSnapshot(ledger.path, table, {})
    compaction.compact(snapshot, table, snapshot.files)


def without_statistics(ledger: Ledger) -> None:
    """Make the ledger's table so that its log tells no bounds of files that are appended."""
    DeltaTable.create(
        ledger.path,
        schema=to_frame([]).to_arrow().schema,
        partition_by=["table"],
        configuration={"delta.dataSkippingNumIndexedCols": "0"},
    )
