"""Settling an unfinished batch: record it if it was published, else fence and abandon it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Protocol

from incremental_assets.errors import ConflictError
from incremental_assets.ledger.consistency import LogState, require_consistent
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.tail import TableTail

TRIES = 20


class TableLog(Protocol):
    """The log of the table that a batch was written to, as far as settling needs it.

    `remedy` is what to do where the table and the ledger are inconsistent.
    """

    @property
    def remedy(self) -> str: ...

    def log_state(self) -> LogState:
        """The state of the table by its own log."""

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        """The outcome of a batch by its commit; None if the table does not have it."""

    def fence(self, batch: int) -> bool:
        """Make a commit of the batch impossible; False if its writer committed first."""


def settle(
    ledger: Ledger, table: str, table_log: TableLog, now: datetime, log: Callable[[str], None]
) -> TableTail:
    """Give the last batch of a table its outcome if a run died before it could; the tail then.

    The batch's writer may still be alive: a batch is called abandoned only after a fence has made
    its commit impossible. Outcomes are final. Raises LedgerError if the ledger and the table are
    inconsistent, and ConflictError if others keep writing.
    """
    for _ in range(TRIES):
        tail = ledger.tail(table)
        claims = tail.unsettled
        if not claims:
            require_consistent(ledger, tail, table_log.log_state, table_log.remedy)
            return tail
        batch = claims[0].batch
        outcome = table_log.outcome(claims)
        if outcome is None:
            if not table_log.fence(batch):
                continue
            outcome = [replace(c, state="abandoned", recorded_at=now, files=()) for c in claims]
        # Published when it is known to be: what was judged since the claim did not read it. A held
        # day was judged soon after its claim.
        outcome = [replace(e, recorded_at=now) if e.state == "committed" else e for e in outcome]
        state = outcome[0].state
        log(f"{table}: batch {batch}, which an earlier run left unfinished, is {state}")
        _written(ledger, table, outcome)  # if not, another process has settled it
    raise ConflictError(
        f"{table}: others kept writing while an unfinished batch was being settled. Nothing was "
        "published; run again."
    )


def record(ledger: Ledger, table: str, outcome: Sequence[Entry]) -> None:
    """Write the outcome of a batch, which its load has claimed.

    Another run may have recorded it already, by the table's log. Raises ConflictError if the ledger
    has another outcome of the batch.
    """
    if _written(ledger, table, outcome):
        return
    batch = outcome[0].batch
    found = [e for e in ledger.entries_of(table, batch) if e.state != "claimed"]
    if sorted(map(_compared, found)) == sorted(map(_compared, outcome)):
        return
    if not found:
        raise ConflictError(
            f"{table}: batch {batch} is not in the ledger {ledger.path} any more, or later ones "
            "have an outcome and it has none; was an older backup of the ledger restored? "
            "What the batch did cannot be recorded. Run again."
        )
    raise ConflictError(
        f"{table}: batch {batch} was {found[0].state} by another run, before this one could record "
        f"that it is {outcome[0].state}. The ledger was left as it is; run again."
    )


def _compared(entry: Entry) -> tuple[date, str, str]:
    return entry.day, entry.state, entry.token


def record_decision(
    ledger: Ledger, table: str, last_batch: int, entries: Sequence[Entry], done: str
) -> None:
    """Record a manual decision on a table, which was made as of its last batch.

    Raises ConflictError if a load has claimed a batch since: the decision may not fit any more.
    """

    def decide(tail: TableTail) -> Sequence[Entry]:
        if tail.last_batch != last_batch or tail.unsettled:
            raise ConflictError(
                f"{table}: another run claimed batch {tail.last_batch} meanwhile. Nothing was "
                f"{done}; run again when that run is over."
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
