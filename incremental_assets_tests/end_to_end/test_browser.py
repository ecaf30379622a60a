"""A person at Dagster's pages, in a real browser: a bad day is found, repaired and seen to be good.

The pictures of the documentation are taken on the way: `make pictures`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables_of
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end import browser
from incremental_assets_tests.end_to_end.browser import Page, chromium
from incremental_assets_tests.end_to_end.dagster_dev import Dev, until
from incremental_assets_tests.end_to_end.drawn_graph import arrows
from incremental_assets_tests.end_to_end.shop import SILVER_SALES, Shop
from incremental_assets_tests.scenarios.world import World

MART = "incremental_assets_tests.end_to_end.mart_shop"
REPORTS = ("reports / daily_sales", "reports / pipeline_health")
LOCATION = "/locations/incremental_assets"
SALES, REPORT = "/assets/silver/sales", "/assets/reports/daily_sales"
SENSOR = "new_in_events"
LAYERS = ("bronze", "silver", "gold")
OF_LAYERS = " or ".join(f"group:{layer}" for layer in LAYERS)
FIRST, BEFORE, BAD, NEW = (f"2017-01-0{day}" for day in (1, 6, 7, 8))
FOUND = "138 of 546 rows (25.27%) are in quarantine, at most 5.00% may be"
HELD = f"{BAD}: held, since batch 1: quarantined_share: {FOUND}"
# Two tills of a tenth of the households, which is enough to be seen; the catalogue is the largest
# feed, and only a picture shows names of products.
HOUSEHOLDS, PRODUCTS, ALL_PRODUCTS = "0.1", "0.02", "1"
A_RUN = 600  # seconds


@dataclass
class Runs:
    """The runs of an instance, each of which is waited for before the next one is asked for."""

    instance: dg.DagsterInstance
    _number: int = 0

    def next(self) -> str:
        """How the run ends that was asked for last."""
        self._number += 1
        until(lambda: len(self._ended()) == self._number, A_RUN)
        return self._ended()[-1]

    def _ended(self) -> list[str]:
        """How all of them ended, oldest first; none while one has not ended."""
        runs = self.instance.get_runs()
        if not all(run.is_finished for run in runs):
            return []
        return [run.status.value for run in reversed(runs)]


@pytest.fixture
def dev(here: Shop, server: str) -> Iterator[Dev]:
    """Not started yet; its runs find a Spark that is running already."""
    dev = Dev(here.over(server).of(MART), "-w", str(PROJECT_ROOT / "workspace.yaml"))
    try:
        yield dev
    finally:
        dev.kill()


def test_a_held_day_is_found_repaired_and_loaded_at_the_pages_of_dagster(
    here: Shop, dev: Dev, spark: SparkSession, pictures: Path | None
) -> None:
    world = here.world(spark)
    land(here, "events", FIRST, BAD, HOUSEHOLDS, "--broken-day", BAD)
    land(here, "users", FIRST, BAD, HOUSEHOLDS)
    products = ALL_PRODUCTS if pictures else PRODUCTS
    land(here, "products", FIRST, BAD, products)
    dev.start()

    with chromium(dev.port, pictures) as page, here.instance() as instance:
        runs = Runs(instance)
        the_graph_leads_from_what_is_read(page)
        a_backfill_of_the_week_fails_for_its_last_day(page, runs)
        the_held_day_is_red_and_its_checks_say_why(page)
        the_job_of_all_that_is_due_needs_nothing(page, runs)
        a_sensor_loads_what_lands_once_it_is_switched_on(page, runs, here)
        the_rule_is_red_still_and_so_is_the_graph(page)
        the_columns_say_what_they_mean_and_where_they_come_from(page)
        the_reports_name_what_is_held(page, runs, Path(world.settings.lake))
        land(here, "products", NEW, NEW, products)
        a_partition_of_a_table_is_materialized(page, runs, "bronze/products", NEW)
        assert here.ask("demo", "repair", BAD, "--sample", HOUSEHOLDS).returncode == 0
        assert runs.next() == "SUCCESS"  # the sensor is switched on still
        the_job_of_all_that_is_due_needs_nothing(page, runs)
        no_day_is_red(page)

    assert world.orders("gold/sales_mart") == sold(world)


def test_where_a_browser_is_needed_a_test_without_one_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browser, "PROGRAMS", ("no-such-browser",))
    monkeypatch.delenv(browser.NEEDED, raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"), chromium(1):
        pass

    monkeypatch.setenv(browser.NEEDED, "1")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"), chromium(1):
        pass


def land(shop: Shop, feed: str, first: str, last: str, sample: str, *more: str) -> None:
    words = ("--feed", feed, "--from", first, "--to", last, "--sample", sample)
    done = shop.ask("demo", "land", *words, *more)
    assert done.returncode == 0, done.stderr


def the_graph_leads_from_what_is_read(page: Page) -> None:
    open_graph(page, OF_LAYERS, width=2800, height=1900)
    page.shows("daily_product_sales", "sales_mart")
    declared = {(r.table.name, t.name) for t in tables_of(MART) for r in t.upstreams}
    assert arrows(*page.drawn()) == declared


def open_graph(page: Page, selection: str, *, width: int, height: int) -> None:
    """The graph of these assets, with what each layer holds."""
    layers = ",".join(f"global@global:{layer}" for layer in LAYERS)
    page.open(
        f"/asset-groups~{quote(selection, safe='')}?expanded={layers}", width=width, height=height
    )


def a_backfill_of_the_week_fails_for_its_last_day(page: Page, runs: Runs) -> None:
    page.open("/asset-groups~")
    page.shows(*LAYERS, "reports")
    page.press("Materialize all")
    page.press("Custom")
    page.fill_in("ex:", f"[{FIRST}...{BAD}]")
    page.shows("7 partitions")
    page.press("Preview")
    page.shows("Backfill preview", "gold / sales_mart")
    assert page.text().count(f"{FIRST}...{BAD}") == len(tables_of(MART)) + len(REPORTS)
    page.press("OK")
    page.press("Launch backfill")
    assert runs.next() == "FAILURE"


def the_held_day_is_red_and_its_checks_say_why(page: Page) -> None:
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (1)", "Materialized (6)")
    page.open(f"{SALES}?view=checks&checkDetail=values_readable", width=1280, height=760)
    seen = page.shows("Latest execution", f"{BAD}: 138 of 546 rows failed", "examples")
    assert "quarantined_share\nFailed" in seen
    assert "values_readable\nFailed" in seen
    page.picture("checks-row-rule", top=104, height=630)


def the_job_of_all_that_is_due_needs_nothing(page: Page, runs: Runs) -> None:
    page.open("/jobs")
    page.shows("load_days", "load_due", "verify")
    page.press("load_due")
    page.press("Launchpad")
    page.press("Launch Run")
    page.shows("load_due_days")
    assert runs.next() == "SUCCESS"


def a_sensor_loads_what_lands_once_it_is_switched_on(page: Page, runs: Runs, shop: Shop) -> None:
    page.open(f"{LOCATION}/sensors/{SENSOR}")
    page.shows("load_days", "Sensor has never run")
    land(shop, "events", NEW, NEW, HOUSEHOLDS)
    page.switch_on()
    assert runs.next() == "SUCCESS"
    assert NEW in runs.instance.get_materialized_partitions(SILVER_SALES)
    page.open("/runs")
    seen = page.shows(f"days: {NEW}", SENSOR)
    assert re.search(rf"days: {NEW}\n.*\nload_days\n{SENSOR}\nSuccess\n", seen)


def the_rule_is_red_still_and_so_is_the_graph(page: Page) -> None:
    page.open("/asset-groups~")
    page.press("Reload definitions")  # else its partitions end with the week
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (1)", "Materialized (7)")
    page.open(f"{SALES}?view=checks&checkDetail=quarantined_share", width=1300)
    assert "quarantined_share\nFailed" in page.shows("Latest execution", HELD)
    page.picture("held-day", left=534, top=104, height=480)
    page.open(f"{SALES}?view=checks&checkDetail=quarantined_share", width=1500)
    page.press("Execution history")
    page.shows(HELD, f"{NEW}: 1 of", f"{BAD}: {FOUND}", f"{BEFORE}: 0 of")
    page.picture("checks-day-rule", left=534, top=104, height=708)
    open_graph(page, OF_LAYERS, width=1940, height=1000)
    page.shows("100% filled", "87% filled (1 failed)", "8 / 10 Passed")
    page.picture("asset-graph", left=600, top=215, width=1275, height=605)


def the_columns_say_what_they_mean_and_where_they_come_from(page: Page) -> None:
    page.open(SALES, width=1300, height=1200)
    page.shows("one row per order_id, dt", "non-nullable", "qty is not below 0.", "Pieces.")
    page.picture("monitoring-columns", top=328, width=730, height=718)
    page.open("/assets/gold/daily_product_sales", width=1300)
    page.shows("From gold/sales_mart.total_price.", "Passing")
    page.picture("monitoring-column-lineage", top=352, width=730, height=450)


def the_reports_name_what_is_held(page: Page, runs: Runs, lake: Path) -> None:
    page.open(f"{LOCATION}/asset-groups/reports")
    page.press("Materialize all")
    page.shows("Launch runs to materialize 2 assets")
    page.press("All")
    page.shows("8 partitions", "cannot be materialized because upstream")
    page.press("Launch backfill")
    assert runs.next() == "SUCCESS"
    page.open(f"{REPORT}?view=partitions&partition={NEW}")
    page.shows("revenue_by_day", "[Show Markdown]")
    page.press("[Show Markdown]")
    page.draws("revenue")
    page.open_file(lake / "reports" / "index.html", width=1200, height=1750)
    page.shows(
        "Revenue by day",
        f"Revenue of {NEW}",
        f"Held: silver/sales {BAD}: quarantined_share: {FOUND}",
    )
    page.picture("report", left=0, height=1690)


def a_partition_of_a_table_is_materialized(page: Page, runs: Runs, name: str, day: str) -> None:
    page.open(f"/assets/{name}?view=partitions")
    page.press("Materialize…")
    page.shows(f"Launch runs to materialize {name.replace('/', ' / ')}")
    page.press("Custom")
    page.fill_in("ex:", day)
    page.shows("1 partition")
    page.press("Launch 1 run")
    page.shows("Launched run")
    assert runs.next() == "SUCCESS"


def no_day_is_red(page: Page) -> None:
    page.open(f"{SALES}?view=partitions")
    page.shows("Failed (0)", "Materialized (8)")
    page.open(f"{SALES}?view=checks&checkDetail=quarantined_share")
    page.shows("quarantined_share\nSucceeded", "Latest execution", "Passed")


def sold(world: World) -> set[str]:
    """The orders that have landed, but for those in quarantine."""
    files = (Path(world.settings.landing) / "events").rglob("*.jsonl")
    landed = orders(line for file in files for line in file.read_text().splitlines())
    return landed - orders(world.frame("quarantine/silver_sales")["row"])


def orders(lines: Iterable[str]) -> set[str]:
    """The orders of the lines that are JSON and name one."""
    found = set()
    for line in lines:
        try:
            found.add(json.loads(line)["order_id"])
        except ValueError:
            continue
    return found - {None}
