"""What a load of each kind of source costs, counted in Spark jobs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from incremental_assets.changes import ChangeLog
from incremental_assets.quality.rules import (
    at_least,
    between,
    distinct_count,
    fail,
    fresh,
    matches,
    not_null,
    null_share,
    one_of,
    quarantine,
    row_count,
    satisfies,
    usual_row_count,
    warn,
)
from incremental_assets.writes import Merge
from incremental_assets_tests.event_log import EventLog, jobs, records_read
from incremental_assets_tests.feeds import test_change_log as log
from incremental_assets_tests.feeds import test_rules as rules
from incremental_assets_tests.feeds import test_sequence as sequence
from incremental_assets_tests.feeds import test_snapshots as copies
from incremental_assets_tests.feeds import test_timestamp as timestamp
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake

# Of a day's load that finds something new, after a first one. A Delta table is read by Delta's own
# reader, which looks into its log first; a sequence reads its numbers for the gaps; a copy is looked
# through for keys that are there twice, counted, and compared.
LATER = {
    "orders": (4, 3),
    "movements": (5,),
    "users, merged and kept": (1, 5, 5),
    "products": (4, 4),
}


def later(counted: EventLog, lake: Lake, day: str) -> tuple[int, ...]:
    found = []
    for name in lake.tables:
        lake.load(day, name)
        found.append(jobs(counted.new()))
    return tuple(found)


def test_a_load_of_each_kind_takes_this_many_jobs(
    lake: Lakes, spark: SparkSession, event_log: Path
) -> None:
    counted, found = EventLog(spark, event_log), {}

    orders = lake.copy_of(timestamp.two_days)
    orders.put_delta("orders", timestamp.orders(*timestamp.FIRST[1:], ("a", "sent", "06 12:00")))
    counted.new()
    found["orders"] = later(counted, orders, "2017-01-06")

    stock = lake(sequence.tables()[0])
    stock.put_parquet("movements", "1.parquet", sequence.movements(*sequence.FIRST))
    stock.load("2017-01-05...2017-01-06")
    stock.put_parquet("movements", "2.parquet", sequence.movements((5, "06 23:00")))
    counted.new()
    found["movements"] = later(counted, stock, "2017-01-06")

    users = lake(*log.both_ways(ChangeLog()))
    users.land("users", "2017-01-05", "1.jsonl", [log.event("INSERT", 1, 1, name="A")])
    users.load("2017-01-05")
    changed = [log.event("UPDATE", 3, 1, name="B"), log.event("DELETE", 4, 2)]
    users.land("users", "2017-01-06", "1.jsonl", changed)
    counted.new()
    found["users, merged and kept"] = later(counted, users, "2017-01-06")

    shop = lake(*copies.tables(Merge()))
    shop.land("products", "2017-01-05", "1.jsonl", copies.copy(a="A", b="B", c="C"))
    shop.load("2017-01-05")
    shop.land("products", "2017-01-06", "1.jsonl", copies.copy(a="A", b="B2"))
    counted.new()
    found["products"] = later(counted, shop, "2017-01-06")

    assert found == LATER


def test_more_rules_take_no_more_jobs(lake: Lakes, spark: SparkSession, event_log: Path) -> None:
    counted, found = EventLog(spark, event_log), []
    few = quarantine(not_null("seat"))
    many = (
        *few,
        *quarantine(one_of("train", ("t1", "t2")), matches("seat", "[0-9]+")),
        *fail(at_least("version", 0), null_share("seat", 0.5), distinct_count("train", 1)),
        *warn(between("version", 0, 9), satisfies("r", "seat != id"), row_count(1)),
        *warn(fresh("at", timedelta(days=90)), usual_row_count(0.9)),
    )
    for name, chosen in (("few", few), ("many", many)):
        trains = lake(rules.landed("bookings"), rules.bookings(*chosen)).another(name)
        trains.land(
            "bookings", rules.DAY, "1.jsonl", [rules.booking("a", "1"), rules.booking("b", "2")]
        )
        trains.load(rules.DAY, "bronze/bookings")
        counted.new()
        trains.load(rules.DAY, "silver/bookings")
        found.append(jobs(counted.new()))

    assert found[0] == found[1]


def test_a_day_of_a_stored_source_is_read_once_and_without_the_other_days(
    lake: Lakes, spark: SparkSession, event_log: Path
) -> None:
    shop = lake(*timestamp.tables())
    for day in ("05", "06", "07"):
        rows = [(f"{day}-{n}", "paid", f"{day} 10:{n % 60:02d}") for n in range(100)]
        shop.put_parquet("orders", f"{day}.parquet", timestamp.orders(*rows))
    counted = EventLog(spark, event_log)

    shop.load("2017-01-06", "bronze/orders")

    # Once from the file, and twice from what was kept of it: to be judged, and to be written.
    assert 300 <= records_read(counted.new()) < 310
