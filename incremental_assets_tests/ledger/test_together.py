"""A ledger and a table are compared by the numbers that either knows."""

from __future__ import annotations

import pytest

from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.together import LogStanding, require_together
from incremental_assets_tests.ledger.entries import SALES, append, entry

COMMITTED = entry(1, "committed", target_version=4)
NO_TABLE = LogStanding("t", is_there=False, last=None)
FORGETFUL = LogStanding("t", is_there=True, last=None)


def at(last: int, *, filled_on: bool = False) -> LogStanding:
    return LogStanding("t", is_there=True, last=last, filled_on=filled_on)


def compare(ledger: Ledger, *looks: LogStanding, meanwhile: tuple[Entry, ...] = ()) -> None:
    """Compare with a table that stands so; entries may come while it is looked at."""
    for standing in looks:

        def look(standing: LogStanding = standing) -> LogStanding:
            append(ledger, *meanwhile)
            return standing

        tail = ledger.tail(SALES)
        require_together(ledger, tail, look, "Do this.")


def test_what_fits(ledger: Ledger) -> None:
    compare(ledger, NO_TABLE, at(0), FORGETFUL, at(7, filled_on=True))
    append(ledger, entry(1), entry(1, "held"), entry(2), entry(2, "abandoned"))
    compare(ledger, NO_TABLE, at(0), at(1), at(2), FORGETFUL)
    append(ledger, entry(3), entry(3, "committed", target_version=4))
    compare(ledger, at(3), FORGETFUL)
    # one that published nothing, or whose commit was a fence; and what people said
    append(ledger, entry(4), entry(4, "committed"), entry(5), entry(5, "abandoned"))
    append(ledger, entry(6, "accepted"), entry(7, "committed", kind="rewind"), entry(8, "dropped"))
    compare(ledger, at(3), at(5), FORGETFUL)


@pytest.mark.parametrize(
    ("standing", "told"),
    [
        (at(2), "t holds batch 2, and the ledger .* knows none after 1: .*older than the table"),
        (at(2, filled_on=True), "t holds batch 2"),
        (at(0), "t holds no batch after 0, and .* batch 1 was published: .*older than the ledger"),
        (NO_TABLE, r"t is gone, and .* batch 1 was published.* Do this\."),
    ],
)
def test_what_does_not(ledger: Ledger, standing: LogStanding, told: str) -> None:
    append(ledger, entry(1), COMMITTED, entry(2, "accepted"), entry(3, "committed", kind="rewind"))

    with pytest.raises(LedgerError, match=told):
        compare(ledger, standing)


def test_a_ledger_that_knows_nothing_of_a_filled_table(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"t holds batch 1, and the ledger .* knows none after 0"):
        compare(ledger, at(1))


def test_what_another_run_does_between_the_two_looks_is_no_disagreement(ledger: Ledger) -> None:
    append(ledger, entry(1), COMMITTED)
    compare(ledger, at(2), meanwhile=(entry(2),))  # it claimed and published, and has yet to record

    append(ledger, entry(2, "committed", target_version=5), entry(3), entry(3, "held"))
    tail = ledger.tail(SALES)
    looks = [at(1), at(2)]  # it published after the first look, and recorded before the ledger's
    require_together(ledger, tail, lambda: looks.pop(0), "Do this.")
    assert looks == []
