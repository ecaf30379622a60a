"""Commands that report or load what is new compare all tables with the ledger first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result
from deltalake import CommitProperties, Transaction, write_deltalake

from incremental_assets.cli import main
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, USERS, did

TABLES = (EVENTS, USERS, SALES)


@pytest.fixture
def command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Result]:
    """Runs a command on a lake whose three tables have a batch each, and their ledger knows it."""
    for table in TABLES:
        publish(settings, table, 1)
        record(settings, table, 1)
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    monkeypatch.setenv(f"{PREFIX}START_DATE", "2017-01-01")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return lambda *words: CliRunner().invoke(main, words)


def publish(settings: Settings, table: Table, batch: int) -> None:
    write_deltalake(
        f"{settings.lake}/{table.name}",
        pl.DataFrame({"id": [batch]}),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction(table.name, batch)]),
    )


def record(settings: Settings, table: Table, batch: int, *, only_claimed: bool = False) -> None:
    ledger = Ledger(ledger_path(settings.lake))
    claim = did(table, batch, 5, state="claimed")
    ledger.transact_on(table.name, lambda _: [claim])
    if not only_claimed:
        ledger.transact_on(
            table.name, lambda _: [replace(claim, state="committed", target_version=batch)]
        )


@pytest.mark.parametrize("words", [["run"], ["run", "--json"], ["plan"], ["stale"]])
def test_all_tables_that_disagree_are_refused_at_once_with_one_command(
    command: Callable[..., Result], settings: Settings, words: list[str]
) -> None:
    for table in (EVENTS, SALES):
        publish(settings, table, 2)
    shutil.rmtree(f"{settings.lake}/{USERS.name}")

    done = command(*words)

    assert done.exit_code == 1, done.exception
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert lines[1:4] == [
        "bronze/events holds batch 2, and the ledger knows none after 1",
        "silver/sales holds batch 2, and the ledger knows none after 1",
        "silver/users is gone, and the ledger records that batch 1 was published",
    ]
    assert "A table that is gone has no log: it starts empty, and the next run loads" in lines[4]
    assert lines[5:] == [
        "incremental-assets ledger rebuild bronze/events silver/sales silver/users"
    ]
    assert not done.stdout


def test_only_the_tables_that_were_asked_for_are_compared(
    command: Callable[..., Result], settings: Settings
) -> None:
    publish(settings, SALES, 2)

    assert command("stale", "silver/users").exit_code == 0
    assert command("stale", "silver/sales").exit_code == 1


def test_a_ledger_that_is_gone_is_refused_and_none_is_made(
    command: Callable[..., Result], settings: Settings
) -> None:
    shutil.rmtree(ledger_path(settings.lake))

    done = command("plan")

    assert done.exit_code == 1
    assert done.stderr.count("holds batch 1, and the ledger knows none after 0") == 3
    assert not Path(ledger_path(settings.lake)).exists()


@pytest.mark.parametrize("name", ["bronze/events", "silver/sales", "gold/sales_mart"])
def test_what_is_verified_and_what_it_is_made_of_must_be_of_one_time(
    command: Callable[..., Result], settings: Settings, name: str
) -> None:
    publish(settings, EVENTS, 2)

    done = command("verify", name)

    assert done.exit_code == 2, done.output  # nothing could be compared
    assert "bronze/events holds batch 2, and the ledger knows none after 1" in done.stderr
    assert done.stderr.endswith("incremental-assets ledger rebuild bronze/events\n")


@pytest.mark.parametrize("published", [True, False])
def test_a_killed_load_is_no_disagreement(
    command: Callable[..., Result], settings: Settings, *, published: bool
) -> None:
    record(settings, SALES, 2, only_claimed=True)
    if published:
        publish(settings, SALES, 2)

    for words in (["plan"], ["stale"]):
        done = command(*words)
        assert done.exit_code == 0, done.output


def test_a_lake_that_is_not_there_yet_is_no_disagreement(
    command: Callable[..., Result], settings: Settings
) -> None:
    shutil.rmtree(settings.lake)

    assert command("plan").exit_code == 0
    assert not Path(settings.lake).exists()
