"""Whether a ledger and a table belong together: of the same time, and of the same claims.

A ledger that is older than its table would take old commits for its own, and what an older table
lacks would never be loaded again. Neither can be healed by guessing, so both are told.
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

CLAIMED_AS = "token"


@dataclass(frozen=True, slots=True)
class LogStanding:
    """Where a table stands by its own log.

    `last` is the last batch in it, 0 without any; None where there is no table, or one that was
    told to forget numbers. `filled_on` is a table that may be filled on by a ledger that knows
    nothing of it.
    """

    path: str
    is_there: bool
    last: int | None
    filled_on: bool = False


def new_token() -> str:
    """What a claim and its commit are told by, beside their number."""
    return secrets.token_hex(8)


def require_own(claim: Entry, note: Mapping[str, Any], path: str, remedy: str) -> None:
    """Raise LedgerError if the commit with a claim's number, by its note, is of another claim."""
    if note.get(CLAIMED_AS, "") == claim.token:
        return
    raise LedgerError(
        f"{claim.table}: batch {claim.batch} in the log of {path} is another's than the one that "
        f"was claimed at {claim.recorded_at:%Y-%m-%d %H:%M} UTC, so the ledger and the table do "
        f"not belong together (was one of them restored?). Nothing was loaded. {remedy}"
    )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A table whose log and ledger are of different times.

    `published` is the last batch that the table lacks by the ledger; 0 where the ledger is older,
    and then `known` is the last one that it knows.
    """

    table: str
    path: str
    is_there: bool
    last: int
    known: int
    published: int = 0

    @property
    def in_brief(self) -> str:
        if not self.published:
            return f"holds batch {self.last}, and the ledger knows none after {self.known}"
        return f"{self._lacks}, and the ledger says that batch {self.published} was published"

    def told(self, ledger: str, remedy: str) -> str:
        """In full, by whoever loads just this table."""
        if not self.published:
            return (
                f"{self.table}: {self.path} holds batch {self.last}, and the ledger {ledger} "
                f"knows none after {self.known}: the ledger is older than the table (was a copy of "
                "it put in its place?). Nothing was loaded, for what the table has would be loaded "
                f"again, or never. {remedy}"
            )
        return (
            f"{self.table}: {self.path} {self._lacks}, and the ledger {ledger} says that batch "
            f"{self.published} was published: the table is older than the ledger (was it removed, "
            "or a copy of it put in its place?). Nothing was loaded, for what the table lacks "
            f"would never be loaded again. {remedy}"
        )

    @property
    def _lacks(self) -> str:
        return f"holds no batch after {self.last}" if self.is_there else "is gone"


def require_together(
    ledger: Ledger, tail: TableTail, look: Callable[[], LogStanding], remedy: str
) -> None:
    """Raise LedgerError if the ledger, as of the tail, and the table disagree."""
    found = disagreement(ledger, tail, look)
    if found is not None:
        raise LedgerError(found.told(ledger.path, remedy))


def disagreement(
    ledger: Ledger, tail: TableTail, look: Callable[[], LogStanding]
) -> Disagreement | None:
    """In what the ledger, as of the tail, and the table that `look` looks at disagree, if at all.

    Where there is no lock, another run may claim and publish in between: what seems to disagree is
    looked at again. Of a ledger that agrees nothing is read but the tail.
    """
    table, found = tail.table, look()
    if found.filled_on and not tail.last_batch:
        return None
    if found.last is not None and found.last > tail.last_load:
        known = ledger.tail(table).last_load
        if found.last > known:
            return Disagreement(table, found.path, found.is_there, found.last, known)
    missing = _missing(ledger, tail, found)
    if not missing or not _missing(ledger, tail, found := look()):
        return None
    last = found.last or 0
    return Disagreement(table, found.path, found.is_there, last, tail.last_load, missing)


def _missing(ledger: Ledger, tail: TableTail, found: LogStanding) -> int:
    """The last batch that the table should have by the ledger, and has not; 0 if it has all."""
    if found.is_there and (found.last is None or found.last >= tail.last_load):
        return 0
    if not tail.last_load:  # asked no further: where there is no ledger, that would make one
        return 0
    return ledger.last_in_log(tail.table, found.last or 0)
