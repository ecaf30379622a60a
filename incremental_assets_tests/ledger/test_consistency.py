"""A ledger and a table are compared by the numbers that either knows."""

from __future__ import annotations

import pytest

from incremental_assets.errors import LedgerError
from incremental_assets.ledger.consistency import LogState, require_consistent
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets_tests.ledger.entries import SALES, append, entry

COMMITTED = entry(1, "committed", target_version=4)
NO_TABLE = LogState("t", is_there=False, last=None)
FORGETFUL = LogState("t", is_there=True, last=None)


def at(last: int, *, may_predate_ledger: bool = False) -> LogState:
    return LogState("t", is_there=True, last=last, may_predate_ledger=may_predate_ledger)


def compare(ledger: Ledger, *states: LogState, meanwhile: tuple[Entry, ...] = ()) -> None:
    """Compare with tables of these states; entries may be appended while one is read."""
    for state in states:

        def read(state: LogState = state) -> LogState:
            append(ledger, *meanwhile)
            return state

        tail = ledger.tail(SALES)
        require_consistent(ledger, tail, read, "Do this.")


def test_what_is_consistent(ledger: Ledger) -> None:
    compare(ledger, NO_TABLE, at(0), FORGETFUL, at(7, may_predate_ledger=True))
    append(ledger, entry(1), entry(1, "held"), entry(2), entry(2, "abandoned"))
    compare(ledger, NO_TABLE, at(0), at(1), at(2), FORGETFUL)
    append(ledger, entry(3), entry(3, "committed", target_version=4))
    compare(ledger, at(3), FORGETFUL)
    # one that published nothing, or whose commit was a fence; and manual decisions
    append(ledger, entry(4), entry(4, "committed"), entry(5), entry(5, "abandoned"))
    append(ledger, entry(6, "accepted"), entry(7, "committed", kind="rewind"), entry(8, "dropped"))
    compare(ledger, at(3), at(5), FORGETFUL)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (at(2), "t holds batch 2, and the ledger .* knows none after 1: .*older than the table"),
        (at(2, may_predate_ledger=True), "t holds batch 2"),
        (at(0), "t holds no batch after 0, and .* batch 1 was published: .*older than the ledger"),
        (NO_TABLE, r"t is gone, and .* batch 1 was published.* Do this\."),
    ],
)
def test_what_is_inconsistent(ledger: Ledger, state: LogState, message: str) -> None:
    append(ledger, entry(1), COMMITTED, entry(2, "accepted"), entry(3, "committed", kind="rewind"))

    with pytest.raises(LedgerError, match=message):
        compare(ledger, state)


def test_a_ledger_that_knows_nothing_of_a_filled_table(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"t holds batch 1, and the ledger .* knows none after 0"):
        compare(ledger, at(1))


def test_what_another_run_does_between_the_two_reads_is_no_inconsistency(ledger: Ledger) -> None:
    append(ledger, entry(1), COMMITTED)
    compare(ledger, at(2), meanwhile=(entry(2),))  # it claimed and published, and has yet to record

    append(ledger, entry(2, "committed", target_version=5), entry(3), entry(3, "held"))
    tail = ledger.tail(SALES)
    looks = [at(1), at(2)]  # it published after the first look, and recorded before the ledger's
    require_consistent(ledger, tail, lambda: looks.pop(0), "Do this.")
    assert looks == []
