"""A batch that its run left behind is settled: committed if published, else fenced and abandoned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from incremental_assets.errors import ConflictError
from incremental_assets.ledger.consistency import LogState
from incremental_assets.ledger.entry import Entry, FileEntry, State
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.settle import TRIES, record, settle

SALES = "silver/sales"
CLAIMED_AT = datetime(2017, 1, 3, 12, tzinfo=UTC)
NOW = datetime(2017, 1, 4, 12, tzinfo=UTC)


def claim(day: int, batch: int = 1) -> Entry:
    return Entry(
        table=SALES,
        batch=batch,
        day=date(2017, 1, day),
        state="claimed",
        kind="advance",
        mode="merge",
        detector="batches",
        recorded_at=CLAIMED_AT,
        files=(FileEntry("a", 1, "tag", ""),),
    )


@dataclass
class Known:
    """A table whose log holds so many batches."""

    last: int = 0
    remedy: str = "Do this."

    def log_state(self) -> LogState:
        return LogState("lake/silver/sales", is_there=True, last=self.last)


@dataclass
class Published(Known):
    """A table that has the batch's commit; `others` is what became of its later days."""

    others: State = "committed"
    asked: list[int] = field(default_factory=list)

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        self.asked.append(claims[0].batch)
        first, *others = [replace(c, state="committed", rows_read=5) for c in claims]
        return [first, *(replace(other, state=self.others) for other in others)]

    def fence(self, batch: int) -> bool:
        raise AssertionError("a published batch must not be fenced")


@dataclass
class NeverWritten(Known):
    """A table without the batch's commit; its fence is put at the `succeeds`-th attempt."""

    succeeds: int = 1
    fenced: list[int] = field(default_factory=list)

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        return None

    def fence(self, batch: int) -> bool:
        self.fenced.append(batch)
        return len(self.fenced) == self.succeeds


@dataclass
class WrittenMeanwhile(Known):
    """A table to which the writer, still alive, commits just before the fence."""

    committed: bool = False

    def outcome(self, claims: Sequence[Entry]) -> Sequence[Entry] | None:
        return [replace(c, state="committed") for c in claims] if self.committed else None

    def fence(self, batch: int) -> bool:
        self.committed = True
        return False


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "_ledger"))


@pytest.fixture
def logged() -> list[str]:
    return []


def states(ledger: Ledger) -> list[State]:
    return [e.state for e in ledger.view().table(SALES).outcomes]


def test_where_nothing_was_left_behind_the_table_is_not_asked(
    ledger: Ledger, logged: list[str]
) -> None:
    table = Published()

    settle(ledger, SALES, table, NOW, logged.append)
    view = ledger.view()

    assert view.table(SALES).entries == ()
    assert (table.asked, logged) == ([], [])


def test_a_published_batch_is_settled_and_then_left_alone(
    ledger: Ledger, logged: list[str]
) -> None:
    table = Published()
    ledger.transact(lambda _: [claim(1), claim(2)])

    settle(ledger, SALES, table, NOW, logged.append)
    view = ledger.view()
    settle(ledger, SALES, table, NOW, logged.append)

    outcomes = view.table(SALES).outcomes
    assert [(e.state, e.day.day, e.rows_read) for e in outcomes] == [
        ("committed", 1, 5),
        ("committed", 2, 5),
    ]
    assert table.asked == [1]
    assert logged == ["silver/sales: batch 1, which an earlier run left unfinished, is committed"]


def test_a_settled_batch_is_published_when_it_is_settled_and_was_judged_when_it_was_claimed(
    ledger: Ledger, logged: list[str]
) -> None:
    ledger.transact(lambda _: [claim(1), claim(2)])

    settle(ledger, SALES, Published(others="held"), NOW, logged.append)

    outcomes = ledger.view().table(SALES).outcomes
    assert [(e.state, e.recorded_at) for e in outcomes] == [
        ("committed", NOW),
        ("held", CLAIMED_AT),
    ]


def test_a_batch_that_was_never_written_is_fenced_and_then_abandoned(
    ledger: Ledger, logged: list[str]
) -> None:
    table = NeverWritten()
    ledger.transact(lambda _: [claim(1)])

    settle(ledger, SALES, table, NOW, logged.append)
    view = ledger.view()

    (outcome,) = view.table(SALES).outcomes
    assert (outcome.state, outcome.recorded_at, outcome.files) == ("abandoned", NOW, ())
    assert table.fenced == [1]
    assert logged == ["silver/sales: batch 1, which an earlier run left unfinished, is abandoned"]


def test_a_batch_is_not_abandoned_before_its_fence_is_put(
    ledger: Ledger, logged: list[str]
) -> None:
    table = NeverWritten(succeeds=3)
    ledger.transact(lambda _: [claim(1)])

    settle(ledger, SALES, table, NOW, logged.append)

    assert table.fenced == [1, 1, 1]
    assert states(ledger) == ["abandoned"]


def test_a_fence_that_lost_the_race_finds_the_writers_commit(
    ledger: Ledger, logged: list[str]
) -> None:
    ledger.transact(lambda _: [claim(1)])

    settle(ledger, SALES, WrittenMeanwhile(), NOW, logged.append)

    assert states(ledger) == ["committed"]


def test_settling_gives_up_where_others_never_stop_writing(
    ledger: Ledger, logged: list[str]
) -> None:
    table = NeverWritten(succeeds=0)
    ledger.transact(lambda _: [claim(1)])

    with pytest.raises(ConflictError, match=r"silver/sales: others kept writing.*run again"):
        settle(ledger, SALES, table, NOW, logged.append)

    assert len(table.fenced) == TRIES
    assert states(ledger) == []


def test_another_runs_outcome_stands(ledger: Ledger, tmp_path: Path, logged: list[str]) -> None:
    other = Ledger(str(tmp_path / "_ledger"))
    ledger.transact(lambda _: [claim(1)])

    class SettledMeanwhile(NeverWritten):
        def fence(self, batch: int) -> bool:
            other.transact(lambda _: [replace(claim(1), state="committed")])
            return True

    settle(ledger, SALES, SettledMeanwhile(), NOW, logged.append)

    assert states(ledger) == ["committed"]


def test_another_tables_claim_is_none_of_its_business(ledger: Ledger, logged: list[str]) -> None:
    ledger.transact(lambda _: [replace(claim(1), table="silver/users")])

    settle(ledger, SALES, Published(), NOW, logged.append)

    assert len(ledger.view().table("silver/users").unsettled) == 1


def accepted(batch: int) -> Entry:
    """A word of a person, which has a number of its own and no claim."""
    return replace(claim(5, batch), state="accepted")


def test_a_claim_before_a_manual_decision_is_settled(ledger: Ledger, logged: list[str]) -> None:
    ledger.transact(lambda _: [claim(1)])
    ledger.transact(lambda _: [accepted(2)])
    assert [e.batch for e in ledger.tail(SALES).unsettled] == [1]
    assert ledger.tail(SALES).last_batch == 2

    settle(ledger, SALES, Published(), NOW, logged.append)

    history = ledger.view().table(SALES)
    assert [(e.batch, e.state) for e in history.outcomes] == [(1, "committed"), (2, "accepted")]
    assert (history.unsettled, ledger.tail(SALES).unsettled) == ((), ())


def test_an_outcome_is_recorded_whatever_was_decided_since_the_claim(ledger: Ledger) -> None:
    ledger.transact(lambda _: [claim(1)])
    ledger.transact(lambda _: [accepted(2)])

    record(ledger, SALES, [replace(claim(1), state="committed")])

    assert states(ledger) == ["committed", "accepted"]


def test_an_outcome_that_another_run_took_from_the_log_is_recorded_once(ledger: Ledger) -> None:
    outcome = [replace(claim(day), state="committed", rows_read=5) for day in (1, 2)]
    ledger.transact(lambda _: [claim(1), claim(2)])
    record(ledger, SALES, [replace(one, why="(settled)") for one in outcome])
    ledger.transact(lambda _: [accepted(2)])

    record(ledger, SALES, outcome)

    assert states(ledger) == ["committed", "committed", "accepted"]


def test_an_outcome_that_cannot_be_recorded_is_an_error(ledger: Ledger) -> None:
    ledger.transact(lambda _: [claim(1)])
    record(ledger, SALES, [replace(claim(1), state="abandoned")])

    with pytest.raises(ConflictError, match=r"silver/sales: batch 1 was abandoned by another run"):
        record(ledger, SALES, [replace(claim(1), state="held")])
    with pytest.raises(ConflictError, match=r"silver/sales: batch 7 is not in the ledger"):
        record(ledger, SALES, [replace(claim(1, 7), state="held")])

    assert states(ledger) == ["abandoned"]
