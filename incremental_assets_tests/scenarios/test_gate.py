"""Gates: what is bad is quarantined with its reasons, and a bad day is not published."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import SparkSession

from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.orchestration.events import evaluations
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.settings import Settings
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.scenarios.world import OF_SALES, World, sale, sales

Loaded = dict[str, TableLoadResult]

BAD = {
    "order_id is null": (sale(None, "2017-01-05"), ("order_id_not_null",)),
    "order_id is blank": (sale("  ", "2017-01-05"), ("order_id_not_null",)),
    "order_id is missing": (
        {k: v for k, v in sale("x", "2017-01-05").items() if k != "order_id"},
        ("order_id_not_null",),
    ),
    "order_id is an object": (sale({"a": 1}, "2017-01-05"), ("order_id_unreadable",)),  # type: ignore[arg-type]
    "qty is a word": (sale("x", "2017-01-05", qty="two"), ("qty_unreadable",)),
    "qty is a fraction": (sale("x", "2017-01-05", qty=2.5), ("qty_unreadable",)),
    "qty is negative": (sale("x", "2017-01-05", qty=-1), ("qty_at_least_0",)),
    "qty is null": (sale("x", "2017-01-05", qty=None), ("qty_not_null",)),
    "unit_price is negative": (
        sale("x", "2017-01-05", unit_price=-0.01),
        ("unit_price_at_least_0",),
    ),
    "several at once": (
        sale(None, "2017-01-05", qty="two", unit_price=-1),
        ("order_id_not_null", "qty_unreadable", "unit_price_at_least_0"),
    ),
    "event_ts is no time": (sale("x", "2017-01-05", event_ts="soon"), ("event_ts_unreadable",)),
    "event_ts is null": (sale("x", "2017-01-05", event_ts=None), ("event_ts_not_null",)),
    "arrival_ts is no time": (
        sale("x", "2017-01-05", arrival_ts="soon"),
        ("arrival_ts_unreadable",),
    ),
    "in the future": (sale("x", "2017-01-07"), ("too_early",)),
    "before the first partition": (sale("x", "2016-12-31"), ("before_start",)),
    "a line cut in half": ('{"order_id": "x", "qty"', ("line_unreadable",)),
    "not JSON at all": ("order_id,qty", ("line_unreadable",)),
    "a field twice": ('{"order_id": "x", "order_id": "y"}', ("line_unreadable",)),
}


def test_each_bad_row_is_quarantined_with_all_its_reasons_and_the_share_is_of_the_day_so_far(
    world: World,
) -> None:
    world = world.of("bronze/events", "silver/sales")
    good = {f"good{i}" for i in range(500)}
    expected = [("2017-01-05", tuple(sorted(why))) for _, why in BAD.values()]
    rows = [*sales("good", "2017-01-05", 500), *(row for row, _ in BAD.values())]
    world.land("events", "2017-01-05", "a.jsonl", rows)
    # Rows later than the lateness do not count to the share of their landing day.
    late = [sale(f"late{i}", "2017-01-02") for i in range(10)]
    world.land("events", "2017-01-10", "a.jsonl", [*late, sale("last", "2017-01-03")])
    expected += [("2017-01-10", ("too_late",))] * 10

    results = world.load("2017-01-05...2017-01-10")
    world.load_stale()

    def quarantined() -> list[tuple[str, tuple[str, ...]]]:
        return sorted((day, tuple(sorted(why))) for day, why in world.quarantine())

    assert not results["silver/sales"].failed
    assert quarantined() == sorted(expected)
    assert world.orders() == good | {"last"}

    # Of all rows of the day so far, not of a late slice.
    world.land("events", "2017-01-06", "a.jsonl", [sale("x", "2017-01-05", qty=-1)])
    world.load("2017-01-06")
    world.load_stale()
    assert world.lakehouse.ledger.view().table("silver/sales").held == {}
    assert quarantined() == sorted([*expected, ("2017-01-05", ("qty_at_least_0",))])


def test_lateness_of_no_days_lets_no_late_row_in(world: World) -> None:
    strict = world.settings.replace(lateness_days=0)
    tight = World(world.lakehouse.spark(), strict, "bronze/events", "silver/sales")
    rows = [sale("late", "2017-01-04"), sale("on time", "2017-01-05")]
    tight.land("events", "2017-01-05", "a.jsonl", rows)

    tight.load("2017-01-05")
    tight.load_stale()

    assert tight.orders() == {"on time"}
    assert tight.quarantine() == [("2017-01-05", ("too_late",))]


GOOD, BAD_DAY, LAST, ZERO_BYTES, BLANK_LINES = (f"2017-01-0{n}" for n in (4, 5, 6, 7, 8))
WEEK = f"{GOOD}...{BLANK_LINES}"


def land_and_load(world: World) -> Loaded:
    """Five days: one with a tenth of bad rows, two without a row, and one with an empty file."""
    bad = [sale(None, BAD_DAY) for _ in range(2)]
    world.land("events", GOOD, "a.jsonl", sales("a", GOOD, 20))
    world.land("events", BAD_DAY, "a.jsonl", [*sales("b", BAD_DAY, 18), *bad])
    world.land("events", LAST, "a.jsonl", sales("c", LAST, 20))
    world.land("events", LAST, "empty.jsonl", [])
    world.land("events", ZERO_BYTES, "a.jsonl", [])
    world.land("events", BLANK_LINES, "a.jsonl", ["", "   "])
    return world.load(WEEK)


@pytest.fixture
def week(world: World, spark: SparkSession, made_once: MadeOnce) -> tuple[World, Loaded]:
    def make(own: Settings) -> Loaded:
        return land_and_load(World(spark, own, *OF_SALES))

    loaded = made_once.copied(land_and_load, world.settings, make)
    return world.of(*OF_SALES), loaded


def test_day_with_ten_percent_bad_rows_is_held_and_its_neighbours_are_not(
    week: tuple[World, Loaded],
) -> None:
    world, loaded = week

    held = loaded["silver/sales"].failed[date(2017, 1, 5)].reason
    refused = loaded["gold/sales_mart"].failed[date(2017, 1, 5)].reason

    assert "2 of 20 rows (10.00%)" in held
    assert "silver/sales 2017-01-05 is held since batch 1: quarantined_share" in refused
    for name in ("silver/sales", "gold/sales_mart"):
        assert world.day_files(name).keys() == {f"dt={GOOD}", f"dt={LAST}"}
    assert world.quarantine() == [(BAD_DAY, ("order_id_not_null",))] * 2
    assert world.stale() == {}


def test_landing_day_with_files_but_no_row_is_held(week: tuple[World, Loaded]) -> None:
    _, loaded = week

    held = {str(day): result.reason for day, result in loaded["bronze/events"].failed.items()}

    assert list(held) == [ZERO_BYTES, BLANK_LINES]
    assert all("rows_delivered: 0 rows in 1 file" in reason for reason in held.values())
    assert [str(day) for day in loaded["silver/sales"].failed] == [BAD_DAY, *held]
    # An empty file next to a full one is only a warning.
    check = loaded["bronze/events"].days[date(2017, 1, 6)].checks["no_empty_files"]
    assert (check.passed, check.severity, check.value) == (False, "warn", 1)
    assert check.found == "1 of 2 files is empty: events/2017-01-06/empty.jsonl"


def test_held_days_are_held_again_until_they_are_repaired_and_may_be_emptied_later(
    week: tuple[World, Loaded],
) -> None:
    world, _ = week
    again = world.load(BAD_DAY)
    assert again["silver/sales"].failed
    assert again["gold/sales_mart"].failed
    assert len(world.quarantine()) == 2

    for day in (BAD_DAY, ZERO_BYTES, BLANK_LINES):
        world.land("events", day, "a.jsonl", sales(day, day, 20))
    repaired = world.load(WEEK)
    assert not any(result.failed for result in repaired.values())
    assert len(world.orders("gold/sales_mart")) == 100
    assert world.quarantine() == []

    for day in (GOOD, LAST, BLANK_LINES):
        world.land("events", day, "a.jsonl", [])
    emptied = world.load(WEEK)
    assert not any(result.failed for result in emptied.values())
    assert len(world.orders("gold/sales_mart")) == 40
    # That no row came is a warning now: Dagster fails a step that reports a blocking failure.
    table = world.tables["bronze/events"]
    found = list(evaluations(ALONE.key(table), table, emptied[table.name]))
    assert [e.partition for e in found if e.check_name == "rows_delivered" and not e.passed] == [
        GOOD,
        LAST,
        BLANK_LINES,
    ]
    assert not any(each.blocking for each in found if not each.passed)
