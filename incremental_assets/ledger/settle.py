"""Settling what an earlier run left: heal a batch that was published, fence one that was not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Protocol

from incremental_assets.errors import ConflictError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.tail import TableTail
from incremental_assets.ledger.together import LogStanding, require_together

LOOKS = 20


class Target(Protocol):
    """What settling needs to know of the table that a batch was written to.

    `remedy` says what to do where it and the ledger do not belong together.
    """

    @property
    def remedy(self) -> str: ...

    def standing(self) -> LogStanding:
        """Where the table stands by its own log."""

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        """The outcome of a batch as its commit tells it; None if the table does not have it."""

    def fence(self, batch: int) -> bool:
        """Make the batch impossible; False if somebody committed first."""


def settle(
    ledger: Ledger, table: str, target: Target, now: datetime, say: Callable[[str], None]
) -> TableTail:
    """Give the last batch of a table its outcome if a run died before it could; the tail then.

    The batch's writer may still be alive: a batch is called abandoned only after a fence has made
    its commit impossible. Outcomes are final. Raises LedgerError if the ledger and the table do not
    belong together, and ConflictError if others keep writing.
    """
    for _ in range(LOOKS):
        tail = ledger.tail(table)
        claims = tail.unsettled
        if not claims:
            require_together(ledger, tail, target.standing, target.remedy)
            return tail
        batch = claims[0].batch
        outcome = target.outcome(claims)
        if outcome is None:
            if not target.fence(batch):
                continue
            outcome = [replace(c, state="abandoned", recorded_at=now, files=()) for c in claims]
        state = outcome[0].state
        say(f"{table}: batch {batch}, which an earlier run left unfinished, is {state}")
        _written(ledger, table, outcome)  # if not, somebody else has settled it
    raise ConflictError(
        f"{table}: others kept writing while an unfinished batch was being settled. Nothing was "
        "published; run again."
    )


def record(ledger: Ledger, table: str, outcome: Sequence[Entry]) -> None:
    """Write the outcome of a batch, which its load has claimed.

    It may be there already, told by another run from the table's log. Raises ConflictError if what
    the ledger says of the batch is something else.
    """
    if _written(ledger, table, outcome):
        return
    batch = outcome[0].batch
    found = [e for e in ledger.entries_of(table, batch) if e.state != "claimed"]
    if sorted(map(_said, found)) == sorted(map(_said, outcome)):
        return
    if not found:
        raise ConflictError(
            f"{table}: batch {batch} is not in the ledger {ledger.path} any more, or later ones "
            "have an outcome and it has none; was an older copy of the ledger put in its place? "
            "What the batch did cannot be recorded. Run again."
        )
    raise ConflictError(
        f"{table}: batch {batch} was {found[0].state} by another run, before this one could record "
        f"that it is {outcome[0].state}. The ledger was left as it is; run again."
    )


def _said(entry: Entry) -> tuple[date, str, str]:
    return entry.day, entry.state, entry.token


def say_in_ledger(
    ledger: Ledger, table: str, last_batch: int, entries: Sequence[Entry], done: str
) -> None:
    """Write down what a person said of a table, having looked at it as of its last batch.

    Raises ConflictError if a load has claimed a batch since: what it does may be something else
    than what the person saw.
    """

    def decide(tail: TableTail) -> Sequence[Entry]:
        if tail.last_batch != last_batch or tail.unsettled:
            raise ConflictError(
                f"{table}: another run claimed batch {tail.last_batch} meanwhile. Nothing was "
                f"{done}; try again when it is done."
            )
        return entries

    ledger.transact_on(table, decide)


def _written(ledger: Ledger, table: str, outcome: Sequence[Entry]) -> bool:
    """Write the outcome if the batch has none yet; whether it was written."""
    batch = outcome[0].batch
    written = False

    def decide(tail: TableTail) -> Sequence[Entry]:
        nonlocal written
        written = any(claim.batch == batch for claim in tail.unsettled)
        return outcome if written else []

    ledger.transact_on(table, decide)
    return written
