"""A person at Dagster's pages, in a real browser: a bad day is found, repaired and seen to be good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.browser import Page, chromium
from incremental_assets_tests.end_to_end.dagster_dev import Dev, until
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.scenarios.world import TABLES, World, sale, sales

LOCATION = "/locations/incremental_assets"
SALES, REPORT = "/assets/silver/sales", "/assets/reports/daily_sales"
REPORTS = 2
GOOD, BAD, LAST, LATER = (f"2017-01-0{day}" for day in range(2, 6))
A_RUN = 300  # seconds


@pytest.fixture
def dev(shop: Shop, server: str) -> Iterator[Dev]:
    """Not started yet; its runs find a Spark that is running already."""
    shop.over(server)
    shop.env["INCREMENTAL_ASSETS_SENSOR_SECONDS"] = "2"
    dev = Dev(shop, "-w", str(PROJECT_ROOT / "workspace.yaml"))
    try:
        yield dev
    finally:
        dev.kill()


def test_a_held_day_is_found_repaired_and_loaded_at_the_pages_of_dagster(
    shop: Shop, dev: Dev, spark: SparkSession, tmp_path: Path
) -> None:
    world = shop.world(spark)
    world.land("events", GOOD, "till.jsonl", sales(GOOD, GOOD, 10))
    world.land("events", LAST, "till.jsonl", sales(LAST, LAST, 10))
    broken = [sale(f"broken-{n}", BAD, qty=-1) for n in range(5)]
    landed = world.land("events", BAD, "till.jsonl", [*sales(BAD, BAD, 10), *broken])
    dev.start()

    with chromium(dev.port) as page, shop.instance() as instance:
        a_backfill_of_three_days_is_three_days(page, instance)
        the_held_day_is_red_and_says_why(page)
        page.picture(tmp_path / "held-day.png")
        landed.write_text("".join(json.dumps(row) + "\n" for row in sales(BAD, BAD, 15)))
        the_job_of_all_that_is_due_needs_nothing(page, instance)
        no_day_is_red(page)
        a_sensor_that_is_switched_on_loads_what_lands(page, world, instance)
        one_partition_is_materialized(page, SALES)
        until(lambda: ended(instance)[3:] == ["SUCCESS"], A_RUN)
        one_partition_is_materialized(page, REPORT)
        until(lambda: ended(instance)[4:] == ["SUCCESS"], A_RUN)
        a_report_is_a_picture_and_a_page(page, Path(world.settings.lake))

    assert len(world.orders("gold/sales_mart")) == 45


def a_backfill_of_three_days_is_three_days(page: Page, instance: dg.DagsterInstance) -> None:
    page.open("/asset-groups")
    page.shows("bronze", "silver", "gold")
    page.press("Materialize all")
    page.press("Custom")
    page.fill_in("ex:", f"[{GOOD}...{LAST}]")
    page.shows("3 partitions")
    page.press("Preview")
    page.shows("Backfill preview", "gold / sales_mart")
    assert page.text().count(f"{GOOD}...{LAST}") == len(TABLES) + REPORTS
    page.press("OK")
    page.press("Launch backfill")
    until(lambda: ended(instance) == ["FAILURE"], A_RUN)


def the_held_day_is_red_and_says_why(page: Page) -> None:
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (1)", "Materialized (2)")
    page.open(f"{SALES}?view=checks&checkDetail=quarantined_share")
    seen = page.shows("Latest execution", f"{BAD}: held, since batch 1: quarantined_share")
    assert "quarantined_share\nFailed" in seen
    assert seen.count("\nFailed\n") == 2  # in the list of all checks, and of this one
    assert "5 of 15 rows (33.33%) are in quarantine" in seen


def the_job_of_all_that_is_due_needs_nothing(page: Page, instance: dg.DagsterInstance) -> None:
    page.open("/jobs")
    page.shows("load_due", "load_days", "accept", "restate", "retract")
    page.open(f"{LOCATION}/jobs/load_due")
    page.press("Launchpad")
    page.press("Launch Run")
    until(lambda: ended(instance) == ["FAILURE", "SUCCESS"], A_RUN)


def no_day_is_red(page: Page) -> None:
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (0)", "Materialized (3)")
    page.open(f"{SALES}?view=checks")
    assert "Failed" not in page.shows("quarantined_share\nSucceeded")


def a_sensor_that_is_switched_on_loads_what_lands(
    page: Page, world: World, instance: dg.DagsterInstance
) -> None:
    page.open(f"{LOCATION}/sensors/new_in_events")
    page.shows("load_days")
    page.switch_on()
    world.land("events", LATER, "till.jsonl", sales(LATER, LATER, 10))
    until(lambda: ended(instance) == ["FAILURE", "SUCCESS", "SUCCESS"], A_RUN)
    page.open("/runs")
    page.shows("new_in_events", "load_due", "Success", "Failure")


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
