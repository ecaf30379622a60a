"""The ledger's table: claims by compare-and-set, final outcomes, and what cannot be."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from incremental_assets.errors import ConflictError, LedgerError
from incremental_assets.ledger.entry import (
    Entry,
    FileEntry,
    Touched,
    Window,
)
from incremental_assets.ledger.ledger import TRIES, Ledger, ledger_path
from incremental_assets.ledger.settle import record
from incremental_assets.ledger.view import LedgerView
from incremental_assets_tests.ledger.entries import DAY, SALES, USERS, claim, entry, numbers


def test_the_ledger_of_a_new_lake_is_empty(ledger: Ledger) -> None:
    view = ledger.view()

    assert view.tables == {}
    assert view.table(SALES).entries == ()


def test_claims_of_a_table_are_numbered_from_one(ledger: Ledger) -> None:

    assert [claim(ledger), claim(ledger), claim(ledger)] == [1, 2, 3]
    assert numbers(ledger) == [1, 2, 3]


def test_each_table_has_numbers_of_its_own(ledger: Ledger) -> None:

    assert [claim(ledger), claim(ledger, USERS), claim(ledger)] == [1, 1, 2]


def test_an_entry_comes_back_as_it_was_written(ledger: Ledger) -> None:
    written = replace(
        entry(7, "held"),
        windows=(Window("bronze/events", 3, 5), Window(USERS, 0, 0)),
        files=(FileEntry("events/2017-01-02/ä b.jsonl", 2**40, "tag", "1"),),
        touched=(Touched(date(2017, 1, 1), 5), Touched(DAY, 0)),
        affects=(DAY,),
        rows_read=2**40,
        rows_quarantined=3,
        seconds=1.25,
        target_version=0,
        held_by="quarantined_share: 3 of 5",
        why='a "quoted" reason\nof two lines',
        low="2017-01-01T00:00:00.000000Z",
        high="2017-01-02T00:00:00.123456Z",
        position='{"keys": ["ä", 1]}',
    )

    ledger.transact(lambda _: [written])

    assert Ledger(ledger.path).view().table(SALES).entries == (written,)


def test_that_every_day_is_affected_is_kept_apart_from_none(ledger: Ledger) -> None:
    every, none = replace(entry(1), affects=None), replace(entry(2), affects=())

    ledger.transact(lambda _: [every, none])

    assert [e.affects for e in Ledger(ledger.path).view().table(SALES).entries] == [
        None,
        (),
    ]


def test_deciding_for_nothing_writes_nothing(ledger: Ledger) -> None:
    before = ledger.view().version

    ledger.transact(lambda _: [])

    assert ledger.view().version == before


def test_a_decision_that_raises_writes_nothing(ledger: Ledger, other: Ledger) -> None:
    claim(ledger)

    def refuse(view: LedgerView) -> Sequence[Entry]:
        raise ConflictError(f"batch {view.table(SALES).last_batch} is another's")

    with pytest.raises(ConflictError, match="batch 1 is another's"):
        ledger.transact(refuse)

    assert numbers(ledger) == [1]


def test_who_was_overtaken_decides_again_on_what_is_there_now(
    ledger: Ledger, other: Ledger
) -> None:
    seen: list[int] = []

    def decide(view: LedgerView) -> Sequence[Entry]:
        seen.append(view.table(SALES).last_batch)
        if len(seen) == 1:
            claim(other)
        return [entry(seen[-1] + 1)]

    ledger.transact(decide)

    assert seen == [0, 1]
    assert numbers(ledger) == [1, 2]


def test_who_is_overtaken_for_ever_gives_up_and_says_so(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.ledger.ledger.TRIES", 3)
    decided: list[int] = []

    def too_slow(view: LedgerView) -> Sequence[Entry]:
        decided.append(view.table(SALES).last_batch)
        claim(other)
        return [entry(99)]

    with pytest.raises(ConflictError, match=r"changed by others 3 times in a row.*run again"):
        ledger.transact(too_slow)

    assert decided == [0, 1, 2]
    assert numbers(other) == [1, 2, 3]
    assert TRIES > 3


def test_racing_claims_never_get_the_same_number(ledger: Ledger) -> None:
    ledger.view()
    start = threading.Barrier(4)
    won: list[int] = []

    def claim_five() -> None:
        mine = Ledger(ledger.path)
        start.wait()
        won.extend(claim(mine) for _ in range(5))

    racers = [threading.Thread(target=claim_five) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert sorted(won) == list(range(1, 21))
    assert numbers(Ledger(ledger.path)) == list(range(1, 21))


def test_an_outcome_is_final(ledger: Ledger) -> None:
    claim(ledger)

    record(ledger, SALES, [entry(1, "abandoned")])
    with pytest.raises(ConflictError, match="batch 1 was abandoned by another run"):
        record(Ledger(ledger.path), SALES, [entry(1, "committed")])

    assert [e.state for e in ledger.view().table(SALES).outcomes] == ["abandoned"]


def test_a_lake_that_cannot_be_created_names_the_path_and_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("in the way")
    lake = str(file / "lake")

    with pytest.raises(LedgerError) as raised:
        Ledger(ledger_path(lake)).view()

    assert f"The lake is not writable: {lake}/_ledger cannot be created" in str(raised.value)
    assert "Set INCREMENTAL_ASSETS_LAKE to a folder where this user may write" in str(raised.value)


def test_a_ledger_whose_log_is_broken_cannot_be_read_and_says_where(ledger: Ledger) -> None:
    claim(ledger)
    (Path(ledger.path) / "_delta_log" / f"{1:020d}.json").write_text("{broken")

    with pytest.raises(LedgerError, match="_ledger cannot be read"):
        Ledger(ledger.path).view()
