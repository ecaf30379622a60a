"""Settling what an earlier run left: heal a batch that was published, fence one that was not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from incremental_assets.errors import ConflictError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.tail import TableTail

LOOKS = 20


class Target(Protocol):
    """What settling needs to know of the table that a batch was written to."""

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        """The outcome of a batch as its commit tells it; None if the table does not have it."""

    def fence(self, batch: int) -> bool:
        """Make the batch impossible; False if somebody committed first."""


def settle(
    ledger: Ledger, table: str, target: Target, now: datetime, say: Callable[[str], None]
) -> TableTail:
    """Give the last batch of a table its outcome if a run died before it could; the tail then.

    The batch's writer may still be alive: a batch is called abandoned only after a fence has made
    its commit impossible. Outcomes are final.
    """
    for _ in range(LOOKS):
        tail = ledger.tail(table)
        claims = tail.unsettled
        if not claims:
            return tail
        batch = claims[0].batch
        outcome = target.outcome(claims)
        if outcome is None:
            if not target.fence(batch):
                continue
            outcome = [replace(c, state="abandoned", recorded_at=now, files=()) for c in claims]
        state = outcome[0].state
        say(f"{table}: batch {batch}, which an earlier run left unfinished, is {state}")
        record(ledger, table, outcome)
    raise ConflictError(
        f"{table}: others kept writing while an unfinished batch was being settled. Nothing was "
        "published; run again."
    )


def record(ledger: Ledger, table: str, outcome: Sequence[Entry]) -> None:
    """Write the outcome of a batch, unless somebody has already settled it."""
    batch = outcome[0].batch

    def decide(tail: TableTail) -> Sequence[Entry]:
        return outcome if any(claim.batch == batch for claim in tail.unsettled) else []

    ledger.transact_on(table, decide)
