"""Whether a ledger and a table are consistent: of the same time, and of the same claims.

A ledger that is older than its table would take old commits for its own, and what an older table
lacks would never be loaded again. Neither can be repaired by guessing, so both are errors.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.tail import TableTail

CLAIM_NOTE = "token"
"""Where the note of a commit has the token of its claim."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of a table by its own log.

    `last` is the last batch in it, 0 without any; None where there is no table, or one that forgets
    transactions after some time. With `may_predate_ledger` a ledger that knows nothing of the table
    goes on with it.
    """

    path: str
    is_there: bool
    last: int | None
    may_predate_ledger: bool = False


def new_token() -> str:
    """A random token that a claim and its commit share, in addition to their number."""
    return secrets.token_hex(8)


def require_own_commit(claim: Entry, note: Mapping[str, Any], path: str, remedy: str) -> None:
    """Raise LedgerError if the commit with a claim's number, by its note, is another claim's."""
    if note.get(CLAIM_NOTE, "") == claim.token:
        return
    raise LedgerError(
        f"{claim.table}: batch {claim.batch} in the log of {path} is not the one that was claimed "
        f"at {claim.recorded_at:%Y-%m-%d %H:%M} UTC, so the ledger and the table are "
        f"inconsistent (was one of them restored?). Nothing was loaded. {remedy}"
    )


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """A table whose log and ledger are of different times.

    `published` is the last batch that the table lacks by the ledger; 0 where the ledger is older.
    `known` is the last batch of the ledger.
    """

    table: str
    path: str
    is_there: bool
    last: int
    known: int
    published: int = 0

    @property
    def summary(self) -> str:
        if not self.published:
            return f"holds batch {self.last}, and the ledger knows none after {self.known}"
        return f"{self._lacks}, and the ledger records that batch {self.published} was published"

    def message(self, ledger: str, remedy: str) -> str:
        """The whole message, for a load of this table."""
        if not self.published:
            return (
                f"{self.table}: {self.path} holds batch {self.last}, and the ledger {ledger} "
                f"knows none after {self.known}: the ledger is older than the table (was a backup "
                "of it restored?). Nothing was loaded, for what the table has would be loaded "
                f"again, or never. {remedy}"
            )
        return (
            f"{self.table}: {self.path} {self._lacks}, and the ledger {ledger} records that "
            f"batch {self.published} was published: the table is older than the ledger (was it "
            "removed, or a backup of it restored?). Nothing was loaded, for what the table lacks "
            f"would never be loaded again. {remedy}"
        )

    @property
    def _lacks(self) -> str:
        return f"holds no batch after {self.last}" if self.is_there else "is gone"


def require_consistent(
    ledger: Ledger, tail: TableTail, log_state: Callable[[], LogState], remedy: str
) -> None:
    """Raise LedgerError if the ledger, as of the tail, and the table are inconsistent."""
    found = inconsistency(ledger, tail, log_state)
    if found is not None:
        raise LedgerError(found.message(ledger.path, remedy))


def inconsistency(
    ledger: Ledger, tail: TableTail, log_state: Callable[[], LogState]
) -> Inconsistency | None:
    """How the ledger, as of the tail, and the table differ; None if they are consistent.

    Where there is no lock, another run may claim and publish in between: before anything is called
    inconsistent, it is read again. Of a consistent ledger only the tail is read.
    """
    table, found = tail.table, log_state()
    if found.may_predate_ledger and not tail.last_batch:
        return None
    if found.last is not None and found.last > tail.last_load:
        known = ledger.tail(table).last_load
        if found.last > known:
            return Inconsistency(table, found.path, found.is_there, found.last, known)
    missing = _missing(ledger, tail, found)
    if not missing or not _missing(ledger, tail, found := log_state()):
        return None
    last = found.last or 0
    return Inconsistency(table, found.path, found.is_there, last, tail.last_load, missing)


def _missing(ledger: Ledger, tail: TableTail, found: LogState) -> int:
    """The last batch that the table should have by the ledger, and has not; 0 if it has all."""
    if found.is_there and (found.last is None or found.last >= tail.last_load):
        return 0
    if not tail.last_load:  # reading on would create a ledger where there is none
        return 0
    return ledger.last_in_log(tail.table, found.last or 0)
