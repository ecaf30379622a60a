"""An inconsistent ledger and table are reported before anything is claimed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from incremental_assets.delta.delta_log import find_commit
from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import Entry
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import booking, bookings, landed
from incremental_assets_tests.feeds.world import Lake

BRONZE, SILVER = "bronze/bookings", "silver/bookings"
DAYS = ("2017-01-05", "2017-01-06", "2017-01-07")
LEDGER = "_ledger"


def land(lake: Lake, day: str) -> None:
    lake.land("bookings", day, "1.jsonl", [booking(day, "1", at=f"{day}T10:00")])


def two_batches(lake: Lakes) -> Lake:
    """Two days are loaded, each by a batch; `_copy` has everything as it was between them."""
    made = lake(landed("bookings"), bookings())
    land(made, DAYS[0])
    made.load(DAYS[0])
    for name in (LEDGER, BRONZE, SILVER):
        shutil.copytree(made.path(name), made.path(f"_copy/{name}"))
    land(made, DAYS[1])
    made.load(DAYS[1])
    return made


def shop(lake: Lakes, *restored: str) -> Lake:
    """Two days are loaded; what is named is put back as it was between them."""
    found = lake.copy_of(two_batches)
    for name in restored:
        shutil.rmtree(found.path(name))
        shutil.copytree(found.path(f"_copy/{name}"), found.path(name))
    land(found, DAYS[2])
    return found  # as another process has it


def days_in(lake: Lake, name: str = SILVER) -> list[str]:
    if name == BRONZE:
        return [day for day, _ in lake.bronze(name, "id")]
    return [id_ for (id_,) in lake.rows(name, "id")]


def entries(lake: Lake, name: str) -> tuple[Entry, ...]:
    return lake.lakehouse.ledger.view().table(name).entries


def test_a_ledger_that_is_older_than_its_tables_is_reported_and_nothing_is_claimed(
    lake: Lakes,
) -> None:
    found = shop(lake, LEDGER)

    for name in (BRONZE, SILVER):
        before, rows = entries(found, name), days_in(found, name)
        for days in (DAYS[0], f"{DAYS[0]}...{DAYS[2]}"):
            with pytest.raises(LedgerError) as raised:
                found.load(days, name)
            assert f"{found.path(name)} holds batch 2" in str(raised.value)
            assert f"{found.path(LEDGER)} knows none after 1" in str(raised.value)
            assert f"`incremental-assets ledger rebuild {name}`" in str(raised.value)
        assert (entries(found, name), days_in(found, name)) == (before, rows)


def test_a_commit_of_another_claim_is_not_taken_for_the_claims_own(lake: Lakes) -> None:
    """What a program that compares nothing, and was killed, leaves in an older ledger."""
    found = shop(lake, LEDGER)
    claim = replace(entries(found, BRONZE)[0], batch=2, token="another")
    assert claim.state == "claimed"
    found.lakehouse.ledger.transact(lambda _: [claim])

    with pytest.raises(LedgerError, match=r"batch 2 .* is not the one") as raised:
        found.load(DAYS[2], BRONZE)

    assert f"`incremental-assets ledger rebuild {BRONZE}`" in str(raised.value)
    assert entries(found, BRONZE)[-1] == claim


def test_claim_and_commit_carry_the_same_token(lake: Lakes) -> None:
    found = shop(lake)

    for name in (BRONZE, SILVER):
        tokens = {entry.batch: entry.token for entry in entries(found, name)}
        assert len(set(tokens.values())) == 2
        for batch, token in tokens.items():
            commit = find_commit(found.path(name), name, batch)
            assert commit is not None
            assert commit.note["token"] == token
            assert len(token) == 16


def gone(lake: Lake, name: str) -> str:
    shutil.rmtree(lake.path(name))
    return f"{lake.path(name)} is gone"


def older(lake: Lake, name: str) -> str:
    shutil.rmtree(lake.path(name))
    shutil.copytree(lake.path(f"_copy/{name}"), lake.path(name))
    return f"{lake.path(name)} holds no batch after 1"


@pytest.mark.parametrize("break_it", [gone, older])
def test_a_table_that_lacks_what_the_ledger_says_is_reported_and_not_started_again(
    lake: Lakes, break_it: Callable[[Lake, str], str]
) -> None:
    found = shop(lake)
    for name in (BRONZE, SILVER):
        message = break_it(found, name)
        for days in (DAYS[1], f"{DAYS[0]}...{DAYS[2]}"):
            with pytest.raises(LedgerError) as raised:
                found.load(days, name)
            assert message in str(raised.value)
            assert f"the ledger {found.path(LEDGER)} records that batch 2 was" in str(raised.value)
            assert f"`incremental-assets ledger rebuild {name}`" in str(raised.value)
        assert Path(found.path(name)).exists() == (break_it is older)


def test_what_an_upstream_lacks_is_not_taken_for_read(lake: Lakes) -> None:
    found = shop(lake)
    found.load(DAYS[2], BRONZE)
    shutil.copytree(found.path(BRONZE), found.path("_whole"))
    older(found, BRONZE)
    before = entries(found, SILVER)

    with pytest.raises(LedgerError) as raised:
        found.load(DAYS[2], SILVER)

    assert f"{BRONZE} holds no batch after 1, and the ledger records that batch 3" in str(
        raised.value
    )
    assert f"incremental-assets ledger rebuild {BRONZE}" in str(raised.value)
    assert entries(found, SILVER) == before
    shutil.rmtree(found.path(BRONZE))
    shutil.move(found.path("_whole"), found.path(BRONZE))
    found.load(DAYS[2], SILVER)
    assert days_in(found) == list(DAYS)


def test_what_changes_a_table_next_to_its_batches_is_no_reason_to_refuse(lake: Lakes) -> None:
    found = shop(lake)
    path = found.path(SILVER)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    DeltaTable(path).restore(DeltaTable(path).version() - 1)
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    DeltaTable(path).create_checkpoint()

    found.load(DAYS[2])
    assert days_in(found) == list(DAYS)

    properties = {"delta.setTransactionRetentionDuration": "interval 0 seconds"}
    DeltaTable(path).alter.set_table_properties(properties)
    land(found, "2017-01-08")
    found.load("2017-01-08")
    assert days_in(found) == [*DAYS, "2017-01-08"]


def test_a_table_that_nothing_was_published_to_may_be_removed(lake: Lakes) -> None:
    found = lake(landed("bookings"))
    land(found, DAYS[0])
    with pytest.MonkeyPatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr("incremental_assets.engine.table_load.publish", _die)
        found.load(DAYS[0])
    shutil.rmtree(found.path(BRONZE))

    found.load(DAYS[0])

    assert [(e.batch, e.state) for e in entries(found, BRONZE) if e.state != "claimed"] == [
        (1, "abandoned"),
        (2, "committed"),
    ]
    assert days_in(found, BRONZE) == [DAYS[0]]


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_claims_of_a_program_that_knew_no_tokens_are_settled_as_before(lake: Lakes) -> None:
    found = lake(landed("bookings"))
    land(found, DAYS[0])
    with pytest.MonkeyPatch.context() as older_program, pytest.raises(KeyboardInterrupt):
        older_program.setattr("incremental_assets.engine.table_load.new_token", lambda: "")
        older_program.setattr("incremental_assets.engine.table_load.record", _die)
        found.load(DAYS[0])
    commit = find_commit(found.path(BRONZE), BRONZE, 1)
    assert commit is not None
    assert "token" not in json.dumps(commit.note)

    found.load(DAYS[0])

    assert [e.state for e in entries(found, BRONZE)] == ["claimed", "committed"]
    assert days_in(found, BRONZE) == [DAYS[0]]
