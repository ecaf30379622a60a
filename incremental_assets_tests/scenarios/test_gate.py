"""Gates: what is bad is quarantined with its reasons, and a bad day is not published."""

from __future__ import annotations

from incremental_assets.orchestration.events import evaluations
from incremental_assets.orchestration.naming import ALONE
from incremental_assets_tests.scenarios.world import OF_SALES, World, sale, sales

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
    tight = World(world.lakehouse._spark(), strict, "bronze/events", "silver/sales")
    rows = [sale("late", "2017-01-04"), sale("on time", "2017-01-05")]
    tight.land("events", "2017-01-05", "a.jsonl", rows)

    tight.load("2017-01-05")
    tight.load_stale()

    assert tight.orders() == {"on time"}
    assert tight.quarantine() == [("2017-01-05", ("too_late",))]


def test_day_with_ten_percent_bad_rows_is_held_and_its_neighbours_are_not(world: World) -> None:
    world = world.of(*OF_SALES, "gold/daily_product_sales")
    world.land("events", "2017-01-04", "a.jsonl", sales("a", "2017-01-04", 20))
    bad = [sale(None, "2017-01-05") for _ in range(2)]
    path = world.land("events", "2017-01-05", "a.jsonl", [*sales("b", "2017-01-05", 18), *bad])
    world.land("events", "2017-01-06", "a.jsonl", sales("c", "2017-01-06", 20))

    results = world.load("2017-01-04...2017-01-06")

    held = results["silver/sales"].failed
    assert [str(day) for day in held] == ["2017-01-05"]
    assert "2 of 20 rows (10.00%)" in next(iter(held.values())).reason
    refused = next(iter(results["gold/sales_mart"].failed.values()))
    assert "silver/sales 2017-01-05 is held since batch 1: quarantined_share" in refused.reason
    for name in ("silver/sales", "gold/sales_mart", "gold/daily_product_sales"):
        assert "dt=2017-01-05" not in world.day_files(name)
        assert len(world.day_files(name)) == 2
    assert world.quarantine() == [("2017-01-05", ("order_id_not_null",))] * 2
    assert world.stale() == {}

    again = world.load("2017-01-05")
    assert again["silver/sales"].failed
    assert again["gold/sales_mart"].failed
    assert len(world.quarantine()) == 2

    world.land("events", "2017-01-05", path.name, sales("b", "2017-01-05", 20))
    repaired = world.load("2017-01-05")
    assert not any(result.failed for result in repaired.values())
    assert len(world.orders("gold/sales_mart")) == 60
    assert world.quarantine() == []


def test_landing_day_with_files_but_no_row_is_held_until_rows_come(world: World) -> None:
    world = world.of(*OF_SALES)
    zero_bytes, blank_lines, half = (f"2017-01-0{n}" for n in (4, 5, 6))
    world.land("events", zero_bytes, "a.jsonl", [])
    world.land("events", blank_lines, "a.jsonl", ["", "   "])
    world.land("events", half, "a.jsonl", sales("half", half, 3))
    world.land("events", half, "empty.jsonl", [])

    first = world.load(f"{zero_bytes}...{half}")

    held = {str(day): result.reason for day, result in first["bronze/events"].failed.items()}
    assert list(held) == [zero_bytes, blank_lines]
    assert all("rows_delivered: 0 rows in 1 files" in reason for reason in held.values())
    assert [str(day) for day in first["silver/sales"].failed] == [zero_bytes, blank_lines]
    # An empty file next to a full one is only a warning.
    check = first["bronze/events"].days.popitem()[1].checks["no_empty_files"]  # type: ignore[attr-defined]
    assert (check.passed, check.severity, check.value) == (False, "warn", 1)
    assert check.found == "1 of 2 files are empty: events/2017-01-06/empty.jsonl"

    for day in (zero_bytes, blank_lines):
        world.land("events", day, "a.jsonl", sales(day, day, 3))
    later = world.load(f"{zero_bytes}...{half}")
    assert not any(result.failed for result in later.values())
    assert len(world.orders("gold/sales_mart")) == 9

    for day in (zero_bytes, blank_lines, half):
        world.land("events", day, "a.jsonl", [])
    emptied = world.load(f"{zero_bytes}...{half}")
    assert not any(result.failed for result in emptied.values())
    assert world.orders("gold/sales_mart") == set()
    # That no row came is a warning now: Dagster fails a step that reports a blocking failure.
    table = world.tables["bronze/events"]
    found = list(evaluations(ALONE.key(table), table, emptied[table.name]))
    assert [e.partition for e in found if e.check_name == "rows_delivered" and not e.passed] == [
        zero_bytes,
        blank_lines,
        half,
    ]
    assert not any(each.blocking for each in found if not each.passed)
