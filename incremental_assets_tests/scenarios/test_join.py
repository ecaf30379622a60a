"""The sales mart joins only what is new or changed, where that is cheaper than the whole day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.engine.table_load import TableSteps
from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.plan import merge_or_rebuild
from incremental_assets_tests.event_log import EventLog, jobs
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.scenarios.world import WITH_USERS, World, sale, sales
from incremental_assets_tests.thorough import thorough

MART, DAILY = "gold/sales_mart", "gold/daily_product_sales"


@pytest.fixture(autouse=True)
def merging_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_or_rebuild, "SMALL_DAY", 0)
    monkeypatch.setattr(merge_or_rebuild, "MERGED_SHARE", 1000)


def user(user_id: str, updated_at: str, income: str) -> dict[str, Any]:
    return {"user_id": user_id, "updated_at": updated_at, "income": income}


def incomes(world: World) -> dict[str, str | None]:
    return dict(world.rows(MART).select("order_id", "user_income").iter_rows())


def did(result: dict[str, TableLoadResult]) -> dict[str, tuple[str, int, int, int]]:
    """Mode, and rows read, inserted and updated of the mart, by day."""
    return {
        str(day): (e.mode, e.rows_read, e.rows_inserted, e.rows_updated)
        for day, loaded in result[MART].days.items()
        for e in loaded.entries
    }


DAYS = [f"2017-01-0{number}" for number in range(2, 7)]
ALL = f"{DAYS[0]}...{DAYS[-1]}"


def five_days(world: World) -> None:
    first = [user("u1", "2017-01-01", "low"), user("u2", "2017-01-01", "middle")]
    world.land("users", "2017-01-02", "u.jsonl", first)
    for day in DAYS:
        rows = sales(f"{day}-", day, 5)
        rows.append(sale(f"{day}-other", day, user_id="u2"))
        world.land("events", day, "e.jsonl", rows)
    world.load(ALL)


@pytest.fixture
def loaded(world: World, made_once: MadeOnce) -> World:
    return world.of(*WITH_USERS).as_after(five_days, made_once)


@thorough("scenarios/test_join.py, scenarios/test_late.py: what is late among other changes")
def test_a_late_sale_is_joined_alone(loaded: World, spark: SparkSession, event_log: Path) -> None:
    before = loaded.day_files(MART)
    loaded.land("events", "2017-01-05", "late.jsonl", [sale("late", "2017-01-04", user_id="u2")])
    loaded.load("2017-01-04...2017-01-05", "bronze/events", "silver/sales")
    log = EventLog(spark, event_log)

    result = loaded.load("2017-01-04...2017-01-05", MART)

    assert jobs(log.new()) == 3  # it looks the keys up, writes, and reconciles
    assert did(result) == {"2017-01-04": ("merge", 1, 1, 0)}
    assert incomes(loaded)["late"] == "middle"
    after = loaded.day_files(MART)
    assert before["dt=2017-01-04"] < after["dt=2017-01-04"]
    assert before["dt=2017-01-05"] == after["dt=2017-01-05"]


@thorough("scenarios/test_join.py: one other version")
def test_a_version_that_came_and_went_is_taken_back_on_the_days_that_looked_it_up(
    loaded: World,
) -> None:
    loaded.land("users", "2017-01-05", "wrong.jsonl", [user("u2", "2017-01-02", "wrong")])
    loaded.load("2017-01-05", "bronze/users", "silver/users")
    loaded.load("2017-01-06", MART)
    assert incomes(loaded)["2017-01-06-other"] == "wrong"

    # The other days have not read it, and all are merged together.
    loaded.land("users", "2017-01-05", "wrong.jsonl", [user("u9", "2017-01-02", "high")])
    loaded.load("2017-01-05", "bronze/users", "silver/users")
    loaded.land("events", "2017-01-06", "late.jsonl", [sale("late", "2017-01-04")])
    loaded.load("2017-01-04...2017-01-06", "bronze/events", "silver/sales")
    result = loaded.load(ALL, MART)

    assert did(result)["2017-01-06"] == ("merge", 1, 0, 1)
    assert incomes(loaded)["2017-01-06-other"] == "middle"


def land_changes(world: World) -> None:
    """A late sale, a corrected one, a user's version, a repaired file, and a further sale."""
    again = sale("2017-01-03-1", "2017-01-03", qty=9, user_id="u1", arrival_ts="2017-01-07")
    late = [sale("late", "2017-01-02", user_id="u2"), again, sale("now", "2017-01-06")]
    world.land("events", "2017-01-06", "late.jsonl", late)
    world.land("events", "2017-01-05", "e.jsonl", sales("2017-01-05-", "2017-01-05", 2))
    world.land("users", "2017-01-06", "u.jsonl", [user("u2", "2017-01-04", "high")])
    world.load(ALL, "bronze/events", "silver/sales", "bronze/users", "silver/users")


@pytest.fixture
def changed(
    loaded: World, monkeypatch: pytest.MonkeyPatch
) -> tuple[World, dict[str, TableLoadResult], dict[str, set[str]]]:
    """What a load of the mart did, and the files before it.

    Another run loads a sale between its plan and its claim, a row of the 6th is lost, and another
    engine optimizes the 2nd between its merge and its gate.
    """
    before = loaded.day_files(MART)
    land_changes(loaded)
    loaded.land("events", "2017-01-06", "later.jsonl", [sale("later", "2017-01-02")])
    claim = TableSteps.claim

    def claim_late(steps: TableSteps) -> None:
        if steps.table.name == MART:
            loaded.load("2017-01-02...2017-01-06", "bronze/events", "silver/sales")
        claim(steps)

    monkeypatch.setattr(TableSteps, "claim", claim_late)
    monkeypatch.setattr("incremental_assets.engine.joined._days_after", _disturbed(loaded))
    return loaded, loaded.load(ALL, MART), before


def test_what_is_late_corrected_or_of_another_user_version_is_joined_alone(
    changed: tuple[World, dict[str, TableLoadResult], dict[str, set[str]]],
) -> None:
    world, result, before = changed

    done, found, mart = did(result), incomes(world), world.rows(MART)

    assert done["2017-01-02"] == ("merge", 2, 2, 0)  # also the sale that came after the plan
    assert done["2017-01-03"] == ("merge", 1, 0, 1)
    assert done["2017-01-04"] == ("merge", 1, 0, 1)  # just the sale of that user
    assert done["2017-01-05"][0] == "rebuild"  # a file was repaired
    assert (found["late"], found["later"]) == ("middle", "low")
    assert mart.filter(order_id="2017-01-03-1").select("qty", "user_id").rows() == [(9, "u1")]
    assert (found["2017-01-03-other"], found["2017-01-04-other"]) == ("middle", "high")
    assert found["2017-01-04-1"] == "low"
    assert len(mart) == 8 + 6 + 6 + 2 + 6
    # A day of the mart that does not agree with its sales is held, and its files stay.
    assert [str(day) for day in result[MART].failed] == ["2017-01-06"]
    assert world.day_files(MART)["dt=2017-01-06"] == before["dt=2017-01-06"]
    assert "now" not in found


def _disturbed(world: World) -> Any:
    from incremental_assets.engine.joined import _days_after

    def after(*args: Any) -> Any:
        of_the_2nd = [("dt", "=", "2017-01-02")]
        DeltaTable(world.path(MART)).optimize.z_order(["order_id"], partition_filters=of_the_2nd)
        return _days_after(*args).where("dt != DATE'2017-01-06'")

    return after


@thorough("feeds/test_keys.py: an upstream whose old files are gone")
def test_users_whose_old_files_are_gone_are_looked_up_for_the_whole_day(loaded: World) -> None:
    loaded.land("users", "2017-01-06", "u.jsonl", [user("u2", "2017-01-06", "high")])
    loaded.load("2017-01-06", "bronze/users", "silver/users")
    users = DeltaTable(loaded.path("silver/users"))
    users.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    result = loaded.load("2017-01-06", MART)

    assert did(result) == {"2017-01-06": ("merge", 6, 0, 6)}
    assert incomes(loaded)["2017-01-06-other"] == "high"


@thorough("scenarios/test_order_free.py, scenarios/test_join.py: one order, and each change alone")
def test_days_that_are_merged_in_any_order_are_those_of_one_rebuild(loaded: World) -> None:
    late = [
        ("events", "2017-01-06", [sale("a", "2017-01-04"), sale("b", "2017-01-06", user_id="u3")]),
        ("users", "2017-01-06", [user("u3", "2017-01-03", "new"), user("u1", "2017-01-05", "up")]),
        ("events", "2017-01-07", [sale("a", "2017-01-04", qty=3, arrival_ts="2017-01-07")]),
        ("users", "2017-01-07", [user("u1", "2017-01-04", "between")]),
    ]
    for feed, day, rows in late:
        loaded.land(feed, day, f"{day}.jsonl", rows)
    for day in ("2017-01-07", "2017-01-06"):
        loaded.load(day)
        loaded.load_stale()
    loaded.load("2017-01-01...2017-01-07")

    whole = loaded.another("whole")
    whole.load("2017-01-01...2017-01-07")
    whole.load_stale()
    loaded.same_tables_as(whole)


@thorough("scenarios/test_interrupted.py: a batch that died after its commit")
def test_a_merge_that_died_after_its_commit_is_settled(
    loaded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = loaded.of(*WITH_USERS, DAILY)
    loaded.load(ALL, DAILY)
    loaded.land("events", "2017-01-05", "late.jsonl", [sale("late", "2017-01-04")])
    loaded.load("2017-01-04...2017-01-05", "bronze/events", "silver/sales")

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("incremental_assets.engine.table_load.record", dies)
        with pytest.raises(KeyboardInterrupt):
            loaded.load("2017-01-04", MART)
    version = loaded.version(MART)

    loaded.load("2017-01-04", MART)

    assert loaded.version(MART) == version
    assert "late" in incomes(loaded)
    assert MART not in loaded.stale()
    assert loaded.stale()[DAILY] == ["2017-01-04"]
