"""A person at Dagster's pages, in a real browser: a bad day is found, repaired and seen to be good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables_of
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.browser import Page, chromium
from incremental_assets_tests.end_to_end.dagster_dev import Dev, until
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.scenarios.world import sale, sales

MART = "incremental_assets_tests.end_to_end.mart_shop"
LOCATION = "/locations/incremental_assets"
SALES, REPORT = "/assets/silver/sales", "/assets/reports/daily_sales"
LOADED = ("bronze/events", "silver/sales", "gold/sales_mart", "gold/daily_product_sales")
REPORTS = 2
BAD, GOOD, LAST = (f"2017-01-0{day}" for day in range(2, 5))
SENSOR = "new_in_events"
A_RUN = 300  # seconds


@pytest.fixture
def dev(here: Shop, server: str) -> Iterator[Dev]:
    """Not started yet; its runs find a Spark that is running already."""
    dev = Dev(here.over(server).of(MART), "-w", str(PROJECT_ROOT / "workspace.yaml"))
    try:
        yield dev
    finally:
        dev.kill()


def test_a_held_day_is_found_repaired_and_loaded_at_the_pages_of_dagster(
    here: Shop, dev: Dev, spark: SparkSession, tmp_path: Path
) -> None:
    world = here.world(spark)
    world.land("events", GOOD, "till.jsonl", sales(GOOD, GOOD, 10))
    world.land("events", LAST, "till.jsonl", sales(LAST, LAST, 10))
    assert here.ask("run", *LOADED).returncode == 0
    broken = [sale(f"broken-{n}", BAD, qty=-1) for n in range(5)]
    landed = world.land("events", BAD, "till.jsonl", [*sales(BAD, BAD, 10), *broken])
    dev.start()

    with chromium(dev.port) as page, here.instance() as instance:
        a_backfill_of_three_days_is_three_days(page, instance)
        the_held_day_is_red_and_says_why(page)
        page.picture(tmp_path / "held-day.png")
        landed.write_text("".join(json.dumps(row) + "\n" for row in sales(BAD, BAD, 15)))
        one_partition_is_materialized(page, REPORT)
        the_job_of_all_that_is_due_needs_nothing(page)
        until(lambda: ended(instance)[-3:] == ["FAILURE", "SUCCESS", "SUCCESS"], A_RUN)
        a_sensor_is_switched_on(page, instance)
        no_day_is_red(page)
        a_report_is_a_picture_and_a_page(page, Path(world.settings.lake))

    assert len(world.orders("gold/sales_mart")) == 35


def a_backfill_of_three_days_is_three_days(page: Page, instance: dg.DagsterInstance) -> None:
    page.open("/asset-groups")
    page.shows("bronze", "silver", "gold")
    page.press("Materialize all")
    page.press("Custom")
    page.fill_in("ex:", f"[{BAD}...{LAST}]")
    page.shows("3 partitions")
    page.press("Preview")
    page.shows("Backfill preview", "gold / sales_mart")
    assert page.text().count(f"{BAD}...{LAST}") == len(tables_of(MART)) + REPORTS
    page.press("OK")
    page.press("Launch backfill")
    until(lambda: ended(instance)[-1:] == ["FAILURE"], A_RUN)


def the_held_day_is_red_and_says_why(page: Page) -> None:
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (1)", "Materialized (2)")
    page.open(f"{SALES}?view=checks&checkDetail=quarantined_share")
    seen = page.shows("Latest execution", f"{BAD}: held, since batch 2: quarantined_share")
    assert "quarantined_share\nFailed" in seen
    assert "qty_at_least_0\nFailed" in seen
    assert seen.count("\nFailed\n") == 3  # both in the list of all checks, and this one alone
    assert "5 of 15 rows (33.33%) are in quarantine" in seen


def the_job_of_all_that_is_due_needs_nothing(page: Page) -> None:
    page.open(f"{LOCATION}/jobs/load_due")
    page.press("Launchpad")
    page.press("Launch Run")
    page.shows("load_due_days")


def no_day_is_red(page: Page) -> None:
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (0)", "Materialized (3)")
    page.open(f"{SALES}?view=checks")
    assert "Failed" not in page.shows("quarantined_share\nSucceeded")


def a_sensor_is_switched_on(page: Page, instance: dg.DagsterInstance) -> None:
    page.open(f"{LOCATION}/sensors/{SENSOR}")
    page.shows("load_days")
    assert not running_sensors(instance)
    page.switch_on()
    until(lambda: running_sensors(instance) == [SENSOR], A_RUN)


def running_sensors(instance: dg.DagsterInstance) -> list[str]:
    """The sensors that somebody switched on; what a running one loads, test_sensors.py says."""
    return [state.instigator_name for state in instance.all_instigator_state() if state.is_running]


def one_partition_is_materialized(page: Page, asset: str) -> None:
    page.open(f"{asset}?view=partitions")
    page.press("Materialize…")
    page.shows("Launch runs to materialize")
    page.press("Latest")
    page.press("Launch 1 run")
    page.shows("Launched run")


def a_report_is_a_picture_and_a_page(page: Page, lake: Path) -> None:
    page.open(f"{REPORT}?view=partitions&partition={LAST}")
    page.shows("revenue_by_day", "[Show Markdown]")
    page.press("[Show Markdown]")
    page.draws("revenue")
    page.open_file(lake / "reports" / "index.html")
    page.shows("Revenue by day", f"Revenue of {LAST}")


def ended(instance: dg.DagsterInstance) -> list[str]:
    """How the runs ended, oldest first; none while one has not ended."""
    runs = instance.get_runs()
    if not all(run.is_finished for run in runs):
        return []
    return [run.status.value for run in reversed(runs)]
