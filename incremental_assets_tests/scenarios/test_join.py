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
from incremental_assets_tests.scenarios.world import (
    OF_SALES,
    WITH_USERS,
    World,
    sale,
    sales,
)

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


def two_days(world: World) -> None:
    first = [user("u1", "2017-01-01", "low"), user("u2", "2017-01-01", "middle")]
    world.land("users", "2017-01-02", "u.jsonl", first)
    for day in ("2017-01-04", "2017-01-05"):
        rows = sales(f"{day}-", day, 5)
        rows.append(sale(f"{day}-other", day, user_id="u2"))
        world.land("events", day, "e.jsonl", rows)
    world.load("2017-01-01...2017-01-05")


@pytest.fixture
def loaded(world: World, made_once: MadeOnce) -> World:
    return world.of(*WITH_USERS, DAILY).as_after(two_days, made_once)


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


def test_a_corrected_sale_takes_the_place_of_its_row(loaded: World) -> None:
    again = sale("2017-01-04-1", "2017-01-04", qty=9, user_id="u2", arrival_ts="2017-01-06")
    loaded.land("events", "2017-01-05", "again.jsonl", [again])

    result = loaded.load("2017-01-04...2017-01-05", *OF_SALES)

    assert did(result) == {"2017-01-04": ("merge", 1, 0, 1)}
    mart = loaded.rows(MART)
    assert len(mart) == 12
    row = mart.filter(mart["order_id"] == "2017-01-04-1")
    assert (row["qty"][0], row["user_income"][0]) == (9, "middle")


def test_a_sale_that_comes_after_the_plan_is_merged_with_the_others(
    loaded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.land("events", "2017-01-05", "late.jsonl", [sale("late", "2017-01-04")])
    loaded.load("2017-01-04...2017-01-05", "bronze/events", "silver/sales")
    loaded.land("events", "2017-01-05", "later.jsonl", [sale("later", "2017-01-04")])
    claim = TableSteps.claim

    def claim_late(steps: TableSteps) -> None:
        if steps.table.name == MART:  # another run is quicker than this one
            loaded.load("2017-01-04...2017-01-05", "bronze/events", "silver/sales")
        claim(steps)

    monkeypatch.setattr(TableSteps, "claim", claim_late)

    assert did(loaded.load("2017-01-04", MART)) == {"2017-01-04": ("merge", 2, 2, 0)}
    assert {"late", "later"} <= incomes(loaded).keys()


def test_a_late_user_version_joins_just_the_sales_of_that_user(loaded: World) -> None:
    loaded.land("users", "2017-01-05", "u.jsonl", [user("u2", "2017-01-05", "high")])
    loaded.load("2017-01-05", "bronze/users", "silver/users")
    assert loaded.stale() == {MART: ["2017-01-05"]}

    result = loaded.load("2017-01-05", MART)

    assert did(result) == {"2017-01-05": ("merge", 1, 0, 1)}
    found = incomes(loaded)
    assert (found["2017-01-04-other"], found["2017-01-05-other"]) == ("middle", "high")
    assert found["2017-01-05-1"] == "low"


def test_users_whose_old_files_are_gone_are_looked_up_for_the_whole_day(loaded: World) -> None:
    loaded.land("users", "2017-01-05", "u.jsonl", [user("u2", "2017-01-05", "high")])
    loaded.load("2017-01-05", "bronze/users", "silver/users")
    users = DeltaTable(loaded.path("silver/users"))
    users.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    result = loaded.load("2017-01-05", MART)

    assert did(result) == {"2017-01-05": ("merge", 6, 0, 6)}
    assert incomes(loaded)["2017-01-05-other"] == "high"


def test_a_repaired_file_rebuilds_its_days(loaded: World) -> None:
    loaded.land("events", "2017-01-05", "e.jsonl", sales("2017-01-05-", "2017-01-05", 2))

    result = loaded.load("2017-01-05", *OF_SALES)

    assert did(result)["2017-01-05"][0] == "rebuild"
    assert len(loaded.rows(MART)) == 6 + 2


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


def test_a_mart_that_does_not_agree_with_its_day_is_held_and_its_files_stay(
    loaded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = loaded.day_files(MART)
    loaded.land("events", "2017-01-05", "late.jsonl", [sale("late", "2017-01-04")])
    loaded.land("events", "2017-01-05", "now.jsonl", [sale("now", "2017-01-05")])
    loaded.load("2017-01-04...2017-01-05", "bronze/events", "silver/sales")
    whole = "incremental_assets.engine.joined._days_after"
    monkeypatch.setattr(whole, _without("2017-01-04"))

    result = loaded.load("2017-01-04...2017-01-05", MART)

    assert [str(day) for day in result[MART].failed] == ["2017-01-04"]
    after = loaded.day_files(MART)
    assert after["dt=2017-01-04"] == before["dt=2017-01-04"]
    assert "now" in incomes(loaded)
    assert "late" not in incomes(loaded)


def _without(day: str) -> Any:
    from incremental_assets.engine.joined import _days_after

    return lambda *args: _days_after(*args).where(f"dt != DATE'{day}'")


def test_a_merge_that_died_after_its_commit_is_settled(
    loaded: World, monkeypatch: pytest.MonkeyPatch
) -> None:
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
