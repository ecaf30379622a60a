"""The real command lines, with their exit status: several in a process of their own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.shop import (
    OF_THE_TILL,
    SILVER_SALES,
    TILL,
    Shop,
    log_without_a_jvm,
    over,
)
from incremental_assets_tests.scenarios.world import sale, sales
from incremental_assets_tests.thorough import thorough

EVERYTHING = ("--select", "*")
GOLD, DAILY = "gold/latest_user_events", "gold/daily_product_sales"
WITHOUT_DAGSTER = """
import sys
sys.modules["dagster"] = None  # so importing it fails
from incremental_assets.__main__ import start
start()
"""


def materialized(shop: Shop, key: dg.AssetKey) -> set[str]:
    with shop.instance() as instance:
        return set(instance.get_materialized_partitions(key))


def checks(shop: Shop, name: str) -> dict[str, bool]:
    """Partition → whether the check last passed, of a check of silver/sales."""
    with shop.instance() as instance:
        history = instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(SILVER_SALES, name), limit=100
        )
    found: dict[str, bool] = {}
    for record in history:  # newest first
        if record.partition is not None:
            found.setdefault(record.partition, record.status.value == "SUCCEEDED")
    return found


def of_as_many_users(prefix: str, day: str, number: int) -> list[dict[str, object]]:
    """Sales of a day, each of a user of its own: gold has a row of each."""
    return [sale(f"{prefix}{n}", day, user_id=f"{prefix}{n}") for n in range(number)]


def test_range_with_a_held_day_publishes_the_others_and_goes_through_once_repaired(
    till: Shop, spark: SparkSession, server: str
) -> None:
    shop = till
    world = shop.world(spark, *OF_THE_TILL)
    world.land("events", "2017-01-04", "a.jsonl", of_as_many_users("a", "2017-01-04", 20))
    broken = [sale(None, "2017-01-05"), sale(None, "2017-01-05")]
    bad = [*of_as_many_users("b", "2017-01-05", 18), *broken]
    world.land("events", "2017-01-05", "a.jsonl", bad)

    days = ("--partition-range", "2017-01-04...2017-01-05")
    held = shop.materialize(*EVERYTHING, *days, **over(server))

    assert held.returncode != 0
    assert "silver/sales: 2017-01-05 not published. 2017-01-05: quarantined_share: 2 of 20" in (
        held.stderr
    )
    assert "gate accept silver/sales 2017-01-05 --reason …`, and run it again. Until then " in (
        held.stderr
    )
    assert materialized(shop, SILVER_SALES) == {"2017-01-04"}
    assert checks(shop, "quarantined_share") == {"2017-01-04": True, "2017-01-05": False}
    assert world.orders() == {f"a{i}" for i in range(20)}
    assert world.orders(GOLD) == set()

    listed = shop.ask("quarantine", "list", "silver/sales", "--json")
    (only,) = json.loads(listed.stdout)
    assert (only["day"], only["reason"], only["rows"]) == ("2017-01-05", "order_id_not_null", 2)
    shown = shop.ask("quarantine", "show", "silver/sales", "--days", "2017-01-05", COLUMNS="300")
    assert "2 rows of silver/sales" in shown.stdout
    assert '"order_id":null' in shown.stdout
    other = shop.ask("quarantine", "list", "silver/sales", "--rule", "qty_not_null")
    assert other.stdout.strip() == "In quarantine: nothing."
    assert other.stderr == (
        "- There is no row with the reason 'qty_not_null'; did you mean order_id_not_null?\n"
    )
    unknown = shop.ask("quarantine", "show", "silver/sale")
    assert (unknown.returncode, unknown.stderr.startswith("Error: There is no table")) == (2, True)

    what_the_ledger_tells(shop)
    due, skipped = run_as_planned(shop)
    assert due.returncode == 3  # by what is held since before it
    assert "quarantined_share: 2 of 20 rows" in due.stderr
    assert "accept it: `incremental-assets gate accept silver/sales 2017-01-05" in due.stderr
    assert json.loads(due.stdout)["held"][0]["table"] == "silver/sales"
    assert {name for name, day in skipped if day == "2017-01-05"} == {"silver/sales", GOLD}
    assert len(world.orders(GOLD)) == 20

    accept = ("gate", "accept", "silver/sales", "2017-01-05", "--reason")
    accepted = shop.ask(*accept, "two tills were broken", "--json")
    assert json.loads(accepted.stdout) == {
        "table": "silver/sales",
        "days": ["2017-01-05"],
        "batch": 1,
        "rules": ["quarantined_share"],
    }
    twice = shop.ask(*accept, "again")
    assert (twice.returncode, "(two tills were broken); run it" in twice.stderr) == (1, True)
    let_through, skipped = run_as_planned(shop)
    assert (let_through.returncode, skipped) == (0, set()), let_through.stderr
    assert len(world.orders(GOLD)) == 38

    world.land("events", "2017-01-05", "a.jsonl", of_as_many_users("b", "2017-01-05", 20))
    repaired = shop.ask("run")
    assert repaired.returncode == 0, repaired.stderr
    assert checks(shop, "quarantined_share")["2017-01-05"]
    assert len(world.orders(GOLD)) == 40


def test_a_run_without_dagster_imports_none_of_it(
    till: Shop, spark: SparkSession, server: str
) -> None:
    world = till.world(spark, *OF_THE_TILL)
    world.land("events", "2017-01-04", "a.jsonl", [sale("a", "2017-01-04")])

    done = till.python(WITHOUT_DAGSTER, "run", "--no-dagster", **over(server))

    assert done.returncode == 0, done.stderr
    assert world.orders(GOLD) == {"a"}
    assert till.ask("run", "--no-dagster").stdout == "Nothing is new or stale.\n"
    assert [path.name for path in till.home.iterdir()] == ["dagster.yaml"]


def run_as_planned(
    shop: Shop,
) -> tuple[subprocess.CompletedProcess[str], set[tuple[str, str]]]:
    """Plan, then run; the run, and the tables and days that the plan skipped."""
    listed = shop.ask("plan", "--json")
    assert listed.returncode == 0, listed.stderr
    done = shop.ask("run", "--json")

    def rows_of(rows: list[dict[str, object]]) -> set[tuple[object, ...]]:
        return {(r["table"], r["day"], r["batch"], r["mode"]) for r in rows}

    rows = json.loads(listed.stdout)
    ran = json.loads(done.stdout)
    assert rows_of(ran["loaded"]) == rows_of([row for row in rows if row["run"]])
    assert len(ran["runs"]) == max(row["run"] or 0 for row in rows)
    return done, {(row["table"], row["day"]) for row in rows if row["mode"] == "skip"}


def what_the_ledger_tells(shop: Shop) -> None:
    """The 4th is published in silver and not yet built upon; the 5th is held."""

    def shown(*words: str) -> list[dict[str, object]]:
        done = shop.ask(*words, "--json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found

    stale = {(row["table"], row["day"]): row["why"] for row in shown("stale")}
    assert stale == {(GOLD, "2017-01-04"): "first load of this day (silver/sales batch 1)"}
    newest, *_ = shown("batches", "silver/sales", "--day", "2017-01-05")
    assert (newest["batch"], newest["state"], newest["read"]) == (1, "held", 20)
    assert "quarantined_share: 2 of 20 rows" in str(newest["why"])
    (sales,) = shown("watermarks", "show", "silver/sales")
    assert (sales["batch"], sales["last_day"], sales["held_days"]) == (1, "2017-01-04", 1)
    assert sales["watermark"] == "bronze/events batch 1"
    (events,) = shown("watermarks", "show", "bronze/events")
    assert events["watermark"] == "landing day 2017-01-05"
    said = shop.ask("stale").stdout
    assert "silver/sales 2017-01-05 is held since batch 1: quarantined_share: 2 of 20 rows" in said
    assert f"--reason …`, and run it again. Until then {GOLD} waits." in said
    (window,) = shown("watermarks", "history", "silver/sales")
    assert (window["upstream"], window["low"], window["high"]) == ("bronze/events", "0", "1")
    for words in (("stale",), ("batches", "--limit", "3"), ("watermarks", "show")):
        assert "silver/sales" in shop.ask(*words, COLUMNS="250").stdout, words
    unknown = shop.ask("batches", "silver/sale")
    assert (unknown.returncode, unknown.stderr.startswith("Error: There is no table")) == (2, True)


def test_run_with_nothing_new_starts_no_jvm_and_one_with_something_new_needs_it(
    shop: Shop, spark: SparkSession, tmp_path: Path
) -> None:
    world = shop.of(TILL).world(spark, *OF_THE_TILL)
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 3))
    world.load("2017-01-05")
    java_home, calls = log_without_a_jvm(tmp_path)
    no_java = {"JAVA_HOME": str(java_home), "PATH": f"{java_home}/bin"}

    idle = shop.ask("run", **no_java)
    planned = shop.ask("plan", **no_java)
    also_idle = shop.materialize(*EVERYTHING, "--partition", "2017-01-05", **no_java)
    assert shop.ask("stale", **no_java).stdout.strip() == "Stale: nothing."

    assert (idle.returncode, also_idle.returncode) == (0, 0), also_idle.stderr
    assert "Nothing is new or stale." in idle.stdout
    assert (planned.returncode, planned.stdout.strip()) == (0, "Nothing is new or stale.")
    assert not calls.exists()

    world.land("events", "2017-01-06", "a.jsonl", sales("b", "2017-01-06", 3))
    assert "1 run of " in shop.ask("plan", **no_java).stdout
    assert not calls.exists()
    missing = shop.ask("run", **no_java)
    assert missing.returncode == 1
    assert "Install Java 17 or 21" in missing.stderr
    assert calls.exists()
    assert world.lakehouse.ledger.view().table("bronze/events").unsettled


@thorough("orchestration/test_metadata.py: in the process of the tests")
def test_reversed_range_is_an_error_with_the_remedy(shop: Shop) -> None:
    done = shop.materialize(*EVERYTHING, "--partition-range", "2017-01-05...2017-01-04")

    assert done.returncode != 0
    assert "did you mean 2017-01-04...2017-01-05?" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 1, "does not exist. Set INCREMENTAL_ASSETS_LANDING"),
        (("silver/sale",), 2, "There is no table 'silver/sale'; did you mean silver/sales?"),
        (("--days", "2017-01-05...2017-01-04"), 2, "did you mean 2017-01-04...2017-01-05?"),
        (("--days", "2016-01-05"), 2, "2016-01-05 is outside the partitions 2017-01-01..."),
    ],
)
def test_what_cannot_be_planned_cannot_be_run_and_both_say_why_and_leave_no_trace(
    shop: Shop, words: tuple[str, ...], status: int, message: str
) -> None:
    Path(shop.settings.landing).rmdir()
    before = sorted(shop.home.parent.rglob("*"))

    planned = shop.ask("plan", *words)
    assert sorted(shop.home.parent.rglob("*")) == before
    done = shop.ask("run", *words)

    assert (planned.returncode, done.returncode) == (status, status)
    assert planned.stderr == done.stderr
    assert message in done.stderr
    assert not Path(shop.settings.lake).exists()


def test_a_first_day_in_the_future_is_named_and_not_counted_back_from(shop: Shop) -> None:
    done = shop.ask("run", INCREMENTAL_ASSETS_START_DATE="2999-01-01")

    assert done.returncode == 2
    assert "The first partition, 2999-01-01, is in the future." in done.stderr


def test_a_plan_of_a_fresh_project_leaves_no_trace(shop: Shop) -> None:
    folder = Path(shop.settings.landing) / "events" / "2017-01-05"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text(f"{json.dumps(sale('a', '2017-01-05'))}\n")
    before = sorted(shop.home.parent.rglob("*"))

    done = shop.ask("plan", "bronze/events", "silver/sales", "--json")

    assert sorted(shop.home.parent.rglob("*")) == before
    rows = [(row["table"], row["day"], row["mode"]) for row in json.loads(done.stdout)]
    assert rows == [
        ("bronze/events", "2017-01-05", "append"),
        ("silver/sales", "2017-01-05", "append"),
    ]


def test_lake_that_cannot_be_written_is_an_error_with_the_remedy(
    till: Shop, tmp_path: Path, spark: SparkSession
) -> None:
    till.world(spark).land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 3))
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file where the lake should be")

    done = till.ask("run", "bronze/events", INCREMENTAL_ASSETS_LAKE=str(in_the_way / "lake"))

    assert done.returncode == 1
    assert "lake is not writable" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("INCREMENTAL_ASSETS_START_DATE", "first of May", "expected a day such as 2017-01-01"),
        ("INCREMENTAL_ASSETS_LATENESS_DAYS", "a week", "expected a whole number of days"),
    ],
)
def test_bad_setting_is_named(shop: Shop, name: str, value: str, message: str) -> None:
    done = shop.ask("run", **{name: value})

    assert done.returncode != 0
    assert name in done.stderr
    assert message in done.stderr


@thorough("delta/test_read.py, end_to_end/test_command_line.py: paths with signs in the process")
def test_paths_may_hold_spaces_and_signs(here: Shop, spark: SparkSession, tmp_path: Path) -> None:
    shop = here
    folder = tmp_path / "my shop's 100% {new} lake #1"
    folder.mkdir()
    landing = f"{folder}/[landing]*"
    settings = shop.settings.replace(lake=f"{folder}/lake", landing=landing)
    odd = Shop(folder, settings)
    rows = [*sales("a", "2017-01-05", 20), sale(None, "2017-01-05")]
    odd.world(spark).land("events", "2017-01-05", "a file.jsonl", rows)

    done = odd.ask("run", "bronze/events", "silver/sales", "gold/sales_mart", DAILY)

    assert done.returncode == 0, done.stderr
    assert "p1" in odd.ask("demo", "show").stdout
