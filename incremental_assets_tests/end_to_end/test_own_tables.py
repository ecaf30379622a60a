"""A package of somebody's own tables, over sources of four kinds, from the real command lines."""

from __future__ import annotations

import random
import time

import pytest
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables_of
from incremental_assets_tests.end_to_end.shop import Shop, kill_group
from incremental_assets_tests.feeds.test_change_log import envelope
from incremental_assets_tests.feeds.test_sequence import movements
from incremental_assets_tests.feeds.test_snapshots import copy
from incremental_assets_tests.feeds.test_timestamp import orders
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

PACKAGE = "incremental_assets_tests.end_to_end.corner_shop"


@pytest.fixture
def corner(here: Shop) -> Shop:
    return here.of(PACKAGE)


def order(number: int, now: int) -> tuple[str, str, str]:
    """Three orders a day; two of them are shipped on the day after."""
    made = number // 3
    if number % 3 < 2 and made < now:
        return f"o{number}", "shipped", f"{6 + made:02d} 11:00"
    return f"o{number}", "paid", f"{5 + made:02d} 10:00"


def deliver(lake: Lake, round_: int) -> None:
    """One day's news of every source; orders move to another day, a user and a product go."""
    day = f"2017-01-{5 + round_:02d}"
    clock = day[-2:]
    lake.put_delta("orders", orders(*(order(n, round_) for n in range(3 * round_ + 3))))
    first = 4 * round_ + 1
    numbers = [(first + n, f"{clock} 0{n}:00") for n in range(3)]
    late = [(first + 3, f"{max(5, 4 + round_):02d} 23:00")]
    lake.put_parquet("movements", f"{round_}.parquet", movements(*numbers, *late))
    lsn = 100 * (round_ + 1)
    row = {"id": round_, "name": f"U{round_}", "age": 30 + round_}
    events = [envelope("c", lsn, None, row), envelope("u", lsn + 5, None, {**row, "age": 1})]
    if round_:
        events.append(envelope("d", lsn + 9, {"id": round_ - 1}, None))
    lake.land("users", day, "1.jsonl", events)
    names = {f"p{n}": f"P{n}v{round_ - n % 2}" for n in range(round_, round_ + 4)}
    lake.land("products", day, "1.jsonl", copy(**names))


def contents(lake: Lake) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    for name in lake.tables:
        if not name.startswith("bronze"):
            frame = lake.frame(name)
            found[name] = lake.rows(name, *(c for c in frame.columns if not c.startswith("_")))
    return found


def test_tables_of_every_kind_are_loaded_and_then_brought_up_to_date_on_a_connect_server(
    corner: Shop, spark: SparkSession, server: str
) -> None:
    corner.over(server)
    lake = Lake(spark, corner.settings, *tables_of(PACKAGE))
    deliver(lake, 0)

    first = corner.ask("run")
    assert first.returncode == 0, first.stderr
    assert lake.rows("gold/daily_orders", "dt", "status", "orders") == [("2017-01-05", "paid", 3)]
    idle = corner.ask("run")
    assert (idle.returncode, idle.stdout.strip()) == (0, "Nothing is new or stale."), idle.stdout

    deliver(lake, 1)
    days = ("--partition-range", "2017-01-05...2017-01-06")
    due = corner.materialize("--select", "*", *days)

    assert due.returncode == 0, due.stderr
    assert lake.rows("gold/daily_orders", "dt", "status", "orders") == [
        ("2017-01-05", "paid", 1),
        ("2017-01-06", "paid", 3),
        ("2017-01-06", "shipped", 2),
    ]
    assert lake.rows("silver/users", "name", "is_current") == [("U0", False)] * 2 + [
        ("U1", False),
        ("U1", True),
    ]
    assert len(lake.rows("silver/movements", "id")) == 8
    assert [sku for (sku,) in lake.rows("silver/products", "sku")] == ["p1", "p2", "p3", "p4"]
    assert corner.ask("run").stdout.strip() == "Nothing is new or stale."


@thorough("feeds/test_interrupted.py: in the process of the tests")
@pytest.mark.parametrize("seed", [20170107])
def test_kills_at_random_moments_leave_the_tables_of_an_undisturbed_run(
    corner: Shop, spark: SparkSession, seed: int
) -> None:
    lake = Lake(spark, corner.settings, *tables_of(PACKAGE))
    whole = lake.another("undisturbed")
    moments, killed = random.Random(seed), 0
    for round_ in range(2):
        deliver(lake, round_)
        whole.load("2017-01-05...2017-01-08")
        whole.load_stale()
        process = corner.start("run")
        deadline = time.monotonic() + 120
        before = len(lake.lakehouse.ledger.view().tables)
        while len(lake.lakehouse.ledger.view().tables) == before and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            if round_:
                break
        time.sleep(moments.uniform(0, 4) + (5 if round_ else 0))
        if process.poll() is None:
            kill_group(process)
            killed += 1
    assert killed

    finished = corner.command("run")

    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = contents(lake)
    for name, rows in contents(whole).items():
        assert found[name] == rows, name


def test_a_package_that_cannot_be_found_is_reported_by_its_name(corner: Shop) -> None:
    done = corner.ask("run", INCREMENTAL_ASSETS_TABLES="no_such.package")

    assert done.returncode == 2
    assert "The package 'no_such.package'" in done.stderr
    assert "Traceback" not in done.stderr
