"""Maintenance and loads at once: no load fails, no row changes, and nothing is stale by it."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from incremental_assets.delta import vacuum
from incremental_assets.delta.delta_table import active_paths
from incremental_assets.engine import joined
from incremental_assets.engine.table_load import TableSteps
from incremental_assets.errors import ConflictError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.lock import brief_lock, table_lock
from incremental_assets.maintenance import MaintenanceResult, steps
from incremental_assets.storage import files_below
from incremental_assets.testing import Killed
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.maintenance.conftest import EAGER, Maintained
from incremental_assets_tests.scenarios.world import World, sale, sales
from incremental_assets_tests.thorough import thorough

BRONZE, SALES, USERS, MART = "bronze/events", "silver/sales", "silver/users", "gold/sales_mart"
DAY, DAYS = "2017-01-05", "2017-01-04...2017-01-06"
MONTH = timedelta(days=30)
VACUUM = replace(EAGER, steps=("vacuum",))


def user(updated_at: str, income: str) -> dict[str, Any]:
    return {"user_id": "u1", "updated_at": updated_at, "income": income}


def land(world: World, number: int) -> None:
    """A delivery: new sales, one that is late, one that is corrected, and a bad one."""
    again = sale("d0-0", DAY, qty=number + 1, arrival_ts=f"2017-01-06T0{number}:00:00Z")
    late = sale(f"late{number}", "2017-01-04")
    rows = [*sales(f"d{number}-", DAY, 40), again, late, sale(None, DAY)]
    world.land("events", DAY, f"{number}.jsonl", rows)


def load(world: World) -> None:
    world.load(DAYS, BRONZE, SALES)


def two_deliveries(world: World) -> None:
    for number in range(2):
        land(world, number)
        load(world)


@pytest.fixture
def twice(kept: Maintained, made_once: MadeOnce) -> Maintained:
    """A lake whose days have two small files each."""
    kept.world.as_after(two_deliveries, made_once)
    return kept


def recorded(world: World) -> list[tuple[Any, ...]]:
    """What the ledger says of each batch, but for times, versions, and rows carried over."""
    view = world.lakehouse.ledger.view()
    return [
        (e.table, e.batch, e.day, e.state, e.kind, e.mode, e.windows, e.affects, *_counts(e))
        for name in sorted(view.tables)
        for e in view.table(name).entries
    ]


def _counts(e: Entry) -> tuple[Any, ...]:
    return [t.day for t in e.touched], e.rows_read, e.rows_inserted, e.rows_updated


def parquet(world: World, name: str) -> set[str]:
    return {f.path for f in files_below(world.path(name)) if f.path.endswith(".parquet")}


@thorough("maintenance/test_while_loads_go_on.py: one load after another")
def test_loads_and_maintenance_in_a_loop_end_as_loads_alone_do(twice: Maintained) -> None:
    world = twice.world
    over = threading.Event()
    reports: list[MaintenanceResult] = []

    def keep_on() -> None:
        while not over.is_set():
            reports.append(twice.report(later=MONTH))

    maintenance = threading.Thread(target=keep_on)
    maintenance.start()
    try:
        for number in range(2, 4):
            land(world, number)
            load(world)
    finally:
        over.set()
        maintenance.join()

    assert [report.failed for report in reports if report.failed] == []
    assert sum(len(each.days) for report in reports for each in report.tables) > 0
    alone = world.another("alone")
    load(alone)
    world.same_tables_as(alone)


def test_a_lake_that_is_maintained_after_each_load_says_and_holds_the_same(
    twice: Maintained,
) -> None:
    alone, world = twice.world, twice.world.another("maintained", own_landing=True)
    kept = replace(twice, world=world)
    for number in range(2):
        land(world, number)
        load(world)
        stale = world.stale()
        found = kept.run(later=number * MONTH)
        assert world.stale() == stale
        assert [each.failed for each in found.values() if each.failed] == []

    assert [str(day) for day in found[BRONZE].days] == [DAY]
    assert [str(day) for day in found[SALES].days] == ["2017-01-04", DAY]
    assert [str(day) for day in found["quarantine/silver_sales"].days] == [DAY]
    assert recorded(world) == recorded(alone)
    world.same_tables_as(alone)
    versions = world.versions()
    load(world)
    assert world.versions() == versions  # nothing is new by it
    again = kept.without_spark().run(later=MONTH)
    assert {each.days for each in again.values()} == {()}
    assert world.versions() == versions


def test_a_load_that_commits_between_writing_and_exchange_keeps_what_it_wrote(
    twice: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = twice.world
    land(world, 2)
    staged = steps.stage_compaction

    def slow(*args: Any) -> Any:
        written = staged(*args)
        if written.table_path.endswith(SALES):
            load(world)  # corrects d0-0 and so rewrites one of the files
        return written

    monkeypatch.setattr(steps, "stage_compaction", slow)
    found = twice.run()

    (why,) = found[SALES].skipped
    assert why.endswith("a load rewrote some of the files meanwhile")
    assert DAY in why
    assert DAY not in map(str, found[SALES].days)
    rows = {row["order_id"]: row["qty"] for row in world.rows(SALES).iter_rows(named=True)}
    assert rows["d0-0"] == 3
    assert len(rows) == 3 * 40 + 3
    staged_files = {f for f in parquet(world, SALES) if f.startswith("batch-000000")}
    assert staged_files <= active_paths(DeltaTable(world.path(SALES)))


def test_a_table_that_is_being_loaded_is_left_for_another_time(twice: Maintained) -> None:
    world = twice.world
    version = world.version(SALES)

    with table_lock(world.settings.lake, SALES, "a load", print):
        found = twice.run()

    assert found[SALES].days == ()
    assert "a load of silver/sales is in progress" in found[SALES].skipped[0]
    assert world.version(SALES) == version
    assert found[BRONZE].days
    assert [str(day) for day in twice.run()[SALES].days] == ["2017-01-04", DAY]


def test_a_load_that_has_fixed_its_versions_reads_them_however_late_it_is(
    kept: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = kept.world
    for number in range(2):
        land(world, number)
        world.load(DAYS, "bronze/events")
    before = parquet(world, BRONZE)
    claim = TableSteps.claim

    def claim_and_wait(steps: TableSteps) -> None:
        claim(steps)
        if steps.table.name == SALES:
            found = kept.run(later=MONTH)
            assert found[BRONZE].days
            assert found[BRONZE].removed == 0
            assert "batch 1 of silver/sales is unfinished" in found[BRONZE].skipped[0]

    monkeypatch.setattr(TableSteps, "claim", claim_and_wait)
    world.load(DAYS, SALES)
    monkeypatch.undo()

    assert len(world.orders()) == 2 * 40 + 2
    assert kept.run(later=MONTH)[BRONZE].removed >= len(before)
    assert not before & parquet(world, BRONZE)


@thorough("maintenance/test_while_loads_go_on.py: one load after another")
def test_versions_that_a_load_compares_with_are_whole_or_not_counted_on(
    kept: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = kept.world

    def land_user(hour: int, income: str) -> None:
        user = {"user_id": "u1", "updated_at": f"2017-01-05T0{hour}:00:00Z", "income": income}
        world.land("users", DAY, f"{hour}.jsonl", [user])
        world.load(DAYS, "bronze/users", USERS)

    def incomes() -> set[str]:
        world.load(DAYS, MART)
        return {r["user_income"] for r in world.rows(MART).to_dicts() if str(r["dt"]) == DAY}

    land(world, 0)
    load(world)
    land_user(1, "first")
    assert incomes() == {"first"}
    land_user(2, "second")
    compared, removed, old = [], [], parquet(world, USERS)
    ask, drop = joined.as_it_was_read, vacuum.drop

    def asked(*args: Any) -> Any:
        before = ask(*args)
        compared.append(before is not None)
        if before is not None:  # a maintenance that comes when the load has just looked
            removed.append(kept.run(VACUUM, MONTH)[USERS].removed)
        return before

    monkeypatch.setattr(joined, "as_it_was_read", asked)
    assert incomes() == {"second"}
    assert (compared, removed) == ([True], [0])
    assert old <= parquet(world, USERS)

    land_user(3, "third")

    def dropping(path: str, files: Any) -> None:
        if path.endswith(USERS):  # a load that comes when files are just about to go
            assert incomes() == {"third"}
        drop(path, files)

    monkeypatch.setattr(vacuum, "drop", dropping)
    removed.append(kept.run(VACUUM, MONTH)[USERS].removed)
    assert compared == [True, False]
    assert removed[-1] > 0


def test_a_maintenance_that_dies_before_the_commit_leaves_files_that_the_next_one_takes(
    twice: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, world = twice, twice.world
    rows, versions, before = world.rows(SALES), world.versions(), parquet(world, BRONZE)

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as broken, pytest.raises(Killed):
        broken.setattr(steps, "commit_compaction", die)
        broken.setattr(steps, "discard_uncommitted", die)
        kept.run()
    left = parquet(world, BRONZE) - before
    assert left
    assert world.versions() == versions

    again = kept.run()
    assert again[BRONZE].removed == 0  # it may be a maintenance that is alive
    assert world.rows(SALES).equals(rows)
    kept.run(later=MONTH)
    assert not left & parquet(world, BRONZE)
    assert parquet(world, BRONZE) == active_paths(DeltaTable(world.path(BRONZE)))


def test_one_maintenance_of_a_lake_at_a_time(kept: Maintained) -> None:
    land(kept.world, 0)
    kept.world.load(DAYS, "bronze/events")

    with (
        brief_lock(kept.world.settings.lake, "maintenance", "maintenance", 0),
        pytest.raises(ConflictError, match=r"Another maintenance of .* is in progress"),
    ):
        kept.run()
