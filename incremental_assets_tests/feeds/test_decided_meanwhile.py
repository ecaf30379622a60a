"""Manual decisions while a load of the same table is under way, where no lock keeps them apart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from threading import Event, Thread
from typing import Any

import pytest

from incremental_assets.engine.table_load import TableSteps
from incremental_assets.errors import ConflictError
from incremental_assets.operations.accept import accept
from incremental_assets.operations.quarantined import QuarantineFilter, drop
from incremental_assets.operations.rewind import TableRewind
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_accept import RULES
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed
from incremental_assets_tests.feeds.world import Lake

THE_DAY, NEXT, SILVER = date(2017, 1, 5), "2017-01-06", "silver/bookings"
DECISIONS: dict[str, Callable[[Lake], object]] = {
    "accepted": lambda lake: accept(lake.lakehouse, lake.tables[SILVER], THE_DAY, "seen"),
    "dropped": lambda lake: drop(lake.lakehouse, lake.tables[SILVER], QuarantineFilter(), "seen"),
    "rewound": lambda lake: TableRewind(lake.lakehouse, lake.tables[SILVER]).record(0, "seen"),
}


@pytest.fixture
def without_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an object store."""
    monkeypatch.setattr("incremental_assets.ledger.lock.local_path", lambda _: None)


def station(lake: Lakes) -> Lake:
    """A published day, a held day, and a day that is to be loaded."""
    found = lake(landed("bookings"), bookings(*RULES))
    found.land("bookings", "2017-01-04", "1.jsonl", [booking("z", "1", at="2017-01-04T10:00")])
    rows = [booking("a", "1"), booking("b", "2", "t2"), booking("c", "3", "nowhere")]
    found.land("bookings", DAY, "1.jsonl", rows)
    found.load(f"2017-01-04...{DAY}")
    found.land("bookings", NEXT, "1.jsonl", [booking("d", "4", at=f"{NEXT}T10:00")])
    found.load(NEXT, "bronze/bookings")
    return found


class Between:
    """A load of the next day that claims when it is asked to, and ends when it may."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.claimed, self.go_on = Event(), Event()
        self.error: list[BaseException] = []
        self._lake = lake
        claim = TableSteps.claim

        def claimed(*args: Any) -> Any:
            batch = claim(*args)
            self.claimed.set()
            assert self.go_on.wait(60)
            return batch

        monkeypatch.setattr(TableSteps, "claim", claimed)
        self._thread = Thread(target=self._load)

    def begin(self) -> None:
        self._thread.start()
        assert self.claimed.wait(60)

    def end(self) -> None:
        self.go_on.set()
        self._thread.join(60)

    def _load(self) -> None:
        try:
            self._lake.with_tables(*self._lake.tables.values()).load(NEXT, SILVER)
        except BaseException as error:
            self.error.append(error)


@pytest.mark.parametrize("decided", DECISIONS)
def test_a_load_that_claims_before_a_manual_decision_is_recorded_and_the_decision_is_refused(
    lake: Lakes, decided: str, without_lock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = lake.copy_of(station)
    ledger = shop.lakehouse.ledger
    load = Between(shop, monkeypatch)
    transact_on = ledger.transact_on

    def late(*args: Any) -> Any:
        load.begin()
        return transact_on(*args)

    monkeypatch.setattr(ledger, "transact_on", late)
    try:
        with pytest.raises(
            ConflictError, match=rf"claimed batch 2 meanwhile.*Nothing was {decided}"
        ):
            DECISIONS[decided](shop)
    finally:
        load.end()

    assert load.error == []
    history = ledger.view().table(SILVER)
    assert [(e.batch, e.state) for e in history.outcomes][-1] == (2, "committed")
    assert history.unsettled == ()
    assert shop.rows(SILVER, "id") == [("d",), ("z",)]
    assert shop.reasons(SILVER) == [("train_one_of",)]


def test_a_load_that_planned_before_a_manual_decision_is_reported(
    lake: Lakes, without_lock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = lake.copy_of(station)
    claim = TableSteps.claim

    def late(*args: Any) -> Any:
        monkeypatch.setattr(TableSteps, "claim", claim)
        DECISIONS["accepted"](shop.with_tables(*shop.tables.values()))
        return claim(*args)

    monkeypatch.setattr(TableSteps, "claim", late)
    with pytest.raises(ConflictError, match="claimed batch 2 meanwhile"):
        shop.load(NEXT, SILVER)

    shop.load(f"{DAY}...{NEXT}", SILVER)
    assert shop.rows(SILVER, "id") == [("a",), ("b",), ("d",), ("z",)]
