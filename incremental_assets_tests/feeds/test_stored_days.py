"""Which days of a stored source are pending: each whose rows changed, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.changes import ChangeLog, Sequence, Timestamp
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.plan import pending_days
from incremental_assets.plan.inspector import INSPECTOR, Fingerprints, Inspector
from incremental_assets.quality.rules import fail, row_count
from incremental_assets.sources.source import FixedSource
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.event_log import EventLog, records_read
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_sequence import movements
from incremental_assets_tests.feeds.test_timestamp import FIRST, orders
from incremental_assets_tests.feeds.world import Lake, at, states
from incremental_assets_tests.thorough import thorough


def bronze(changes: Any, day: str | None = None) -> Table:
    return Table(
        name="bronze/orders",
        description="Orders as the shop's table has them.",
        reads=(Stored("orders", day=day),),
        changes=changes,
        write=Append(),
    )


def landed(shop: Lake, *fields: str) -> list[tuple[Any, ...]]:
    return [row[1:] for row in shop.bronze("bronze/orders", *fields)]


def put(shop: Lake, kind: str, rows: pl.DataFrame) -> None:
    if kind == "delta":
        shop.put_delta("orders", rows)
    elif kind == "parquet":
        shop.put_parquet("orders", "all.parquet", rows)
    else:
        place = shop.source("orders")
        place.mkdir(exist_ok=True)
        text = pl.col("updated_at").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        rows.with_columns(text).write_ndjson(place / "all.jsonl")


IN_FILES = thorough(
    "feeds/test_stored_days.py, sources/test_stored_days.py: in Delta, and its rows"
)


@pytest.mark.parametrize(
    "kind",
    [
        "delta",
        pytest.param("json", marks=IN_FILES),
        pytest.param("parquet", marks=IN_FILES),
    ],
)
def test_a_row_that_changes_and_keeps_its_timestamp_is_loaded(lake: Lakes, kind: str) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    put(shop, kind, orders(*FIRST))
    shop.load("2017-01-05...2017-01-06")

    put(shop, kind, orders(*FIRST[:2], ("c", "void", "06 09:00")))

    assert "2017-01-06" in shop.pending_days("bronze/orders")
    if kind != "json":
        assert shop.pending_days("bronze/orders") == ["2017-01-06"]
    shop.load("2017-01-06", "bronze/orders")
    assert sorted(landed(shop, "order_id", "status"))[-2:] == [("c", "paid"), ("c", "void")]


def test_a_row_that_changes_on_a_source_with_dates_for_a_cursor_is_loaded(lake: Lakes) -> None:
    def dated(*rows: tuple[str, str, int]) -> pl.DataFrame:
        days = [date(2017, 1, row[2]) for row in rows]
        return pl.DataFrame({"id": [r[0] for r in rows], "s": [r[1] for r in rows], "on": days})

    shop = lake(bronze(Timestamp("on")))
    shop.put_parquet("orders", "all.parquet", dated(("a", "paid", 5), ("b", "paid", 6)))
    shop.load("2017-01-05...2017-01-06")

    shop.put_parquet("orders", "all.parquet", dated(("a", "void", 5), ("b", "paid", 6)))
    shop.load("2017-01-05...2017-01-06")

    assert sorted(landed(shop, "id", "s")) == [("a", "paid"), ("a", "void"), ("b", "paid")]


def test_late_rows_that_come_where_others_left_are_loaded(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at", lookback=timedelta(days=1))))
    shop.put_parquet(
        "orders", "all.parquet", orders(("a", "paid", "05 09:00"), ("b", "paid", "05 11:00"))
    )
    shop.load("2017-01-05")

    # As many rows as before, with the same sum of timestamps.
    shop.put_parquet(
        "orders", "all.parquet", orders(("c", "paid", "05 10:00"), ("d", "paid", "05 10:00"))
    )
    shop.load("2017-01-05")

    assert sorted(landed(shop, "order_id")) == [("a",), ("b",), ("c",), ("d",)]


def test_a_change_below_the_watermark_that_is_not_read_is_reported(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    shop.put_parquet("orders", "all.parquet", orders(*FIRST))
    shop.load("2017-01-05")

    shop.put_parquet("orders", "all.parquet", orders(("a", "void", "05 10:00"), *FIRST[1:]))
    shop.load("2017-01-05")

    assert ("a", "void") not in landed(shop, "order_id", "status")
    (message,) = [line for line in shop.logged if "below the watermark" in line]
    assert "2017-01-05" in message
    assert "lookback=timedelta(days=1)" in message


def test_a_source_that_is_rewritten_with_the_same_rows_has_nothing_pending(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    shop.put_parquet("orders", "all.parquet", orders(*FIRST))
    shop.load("2017-01-05...2017-01-06")

    turned = orders(*FIRST[::-1]).select("amount", "updated_at", "status", "order_id")
    shop.put_parquet("orders", "all.parquet", turned.with_columns(note=pl.lit(None, pl.String)))

    assert shop.pending_days("bronze/orders") == []


@thorough(
    "feeds/test_stored_days.py, loaders/test_ahead_of_the_clock.py: across midnight, a target"
)
def test_a_row_ahead_of_the_clock_is_loaded_when_its_time_has_come(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    shop.put_parquet(
        "orders", "all.parquet", orders(("a", "paid", "10 11:00"), ("y", "paid", "10 12:10"))
    )
    shop.load("2017-01-10")
    shop.put_parquet(
        "orders",
        "all.parquet",
        orders(("a", "paid", "10 11:00"), ("w", "paid", "10 12:01"), ("y", "paid", "10 12:10")),
    )
    shop.load("2017-01-10")
    assert landed(shop, "order_id") == [("a",), ("w",)]
    assert shop.reasons("bronze/orders") == [("updated_at_in_future",)]

    shop.now = datetime(2017, 1, 10, 12, 4, tzinfo=UTC)
    assert pending(shop) == []
    assert states(shop.load("2017-01-10"), "bronze/orders") == ["idle"]

    shop.now = datetime(2017, 1, 10, 12, 5, tzinfo=UTC)
    assert pending(shop) == ["2017-01-10"]
    shop.load("2017-01-10")

    assert landed(shop, "order_id") == [("a",), ("w",), ("y",)]
    assert pending(shop) == []


def test_a_row_that_is_ahead_across_midnight_is_loaded_on_its_own_day(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    shop.put_parquet("orders", "all.parquet", orders(("y", "paid", "11 00:10")))
    shop.now = datetime(2017, 1, 10, 23, 58, tzinfo=UTC)
    shop.load("2017-01-10")
    shop.now = datetime(2017, 1, 11, 0, 1, tzinfo=UTC)
    shop.load("2017-01-11")
    assert landed(shop, "order_id") == []

    shop.now = datetime(2017, 1, 11, 0, 6, tzinfo=UTC)
    assert pending(shop) == ["2017-01-11"]
    shop.load("2017-01-11")

    assert shop.bronze("bronze/orders", "order_id") == [("2017-01-11", "y")]


def test_what_a_held_batch_put_into_quarantine_is_there_when_its_day_is_published(
    lake: Lakes,
) -> None:
    table = bronze(Timestamp("updated_at", nulls="quarantine"))
    shop = lake(replace(table, rules=fail(row_count(3))))
    few = [("a", "paid", "10 09:00"), ("x", "paid", None)]
    shop.put_parquet("orders", "all.parquet", orders(*few))
    assert states(shop.load("2017-01-10"), "bronze/orders") == ["held"]

    shop.put_parquet(
        "orders", "all.parquet", orders(*few, ("b", "paid", "10 09:30"), ("c", "paid", "10 10:00"))
    )
    assert states(shop.load("2017-01-10"), "bronze/orders") == ["committed"]

    assert landed(shop, "order_id") == [("a",), ("b",), ("c",)]
    assert shop.reasons("bronze/orders") == [("updated_at_null",)]


def test_a_row_of_tomorrow_does_not_move_the_watermark_of_today(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    shop.now = datetime(2017, 1, 10, 23, 58, tzinfo=UTC)
    sent = (("a", "paid", "10 23:50"), ("t", "paid", "11 00:01"))  # the last within the tolerance
    shop.put_parquet("orders", "all.parquet", orders(*sent))
    shop.load("2017-01-10")
    shop.put_parquet("orders", "all.parquet", orders(*sent, ("b", "paid", "10 23:57")))

    shop.load("2017-01-10")
    shop.now = datetime(2017, 1, 11, 8, tzinfo=UTC)
    shop.load("2017-01-10...2017-01-11")

    assert sorted(landed(shop, "order_id")) == [("a",), ("b",), ("t",)]


def test_a_table_that_is_dropped_and_made_again_is_read_again(lake: Lakes) -> None:
    shop = lake(bronze(Timestamp("updated_at")))
    log = shop.with_tables(replace(bronze(ChangeLog()), name="bronze/log"))
    shop.put_delta("orders", orders(*FIRST[:1]))
    shop.put_delta("orders", orders(*FIRST[1:2]), mode="append")
    shop.load("2017-01-05")
    log.load("2017-01-10")

    shutil.rmtree(shop.source("orders"))
    for row in (("d", "paid", "05 12:00"), ("e", "paid", "05 13:00")):
        shop.put_delta("orders", orders(row), mode="append")

    assert pending(shop) == ["2017-01-05"]
    shop.load("2017-01-05")
    assert sorted(landed(shop, "order_id")) == [("a",), ("b",), ("d",), ("e",)]
    shop.put_delta("orders", orders(("f", "paid", "05 14:00")), mode="append")
    log.load("2017-01-10")
    found = log.bronze("bronze/log", "order_id")
    assert sorted(order for _, order in found) == ["a", "b", "d", "e", "f"]


def pending(shop: Lake, look: Inspector = INSPECTOR) -> list[str]:
    """The days that a sensor would ask for now."""
    view, table = shop.lakehouse.ledger.view(), shop.tables["bronze/orders"]
    return [str(day) for day in pending_days(table, view, shop.settings, shop.now, look).days]


class Noted(Inspector):
    """Notes of which days the rows were read to plan."""

    def __init__(self) -> None:
        self.days: set[date] = set()

    def rows_by_day(
        self, fixed: FixedSource, column: str, days: Collection[date], last: date
    ) -> Fingerprints:
        self.days |= set(days)
        return super().rows_by_day(fixed, column, days, last)


LOG = {"operation": pl.String, "sequence_num": pl.Int64, "id": pl.Int64, "at": pl.Datetime("us")}


def events(first: int, *times: str) -> pl.DataFrame:
    rows = [("INSERT", first + n, first + n, at(text)) for n, text in enumerate(times)]
    stamps = [row[3].replace(tzinfo=None) if row[3] else None for row in rows]
    return pl.DataFrame(
        [[*row[:3], stamp] for row, stamp in zip(rows, stamps, strict=True)], LOG, orient="row"
    ).with_columns(pl.col("at").dt.replace_time_zone("UTC"))


@pytest.mark.parametrize(
    "changes",
    [
        ChangeLog(),
        pytest.param(
            Sequence("id"),
            marks=thorough("feeds/test_stored_days.py: of a log, which has such days, too"),
        ),
        Timestamp("at"),
    ],
)
def test_a_commit_that_appends_makes_pending_just_the_days_that_it_touches(
    lake: Lakes, changes: Any
) -> None:
    day = None if isinstance(changes, Timestamp) else "at"
    shop = lake(bronze(changes, day))
    for n in range(1, 10):
        shop.put_delta("orders", events(n, f"{n:02} 10:00"), mode="append")
    shop.load("2017-01-01...2017-01-10")
    assert pending(shop) == []

    shop.put_delta("orders", events(10, "04 11:00"), mode="append")

    look = Noted()
    assert pending(shop, look) == ["2017-01-04"]
    assert look.days == {date(2017, 1, 4)}
    shop.load("2017-01-01...2017-01-10")
    (last,) = [
        e for e in shop.lakehouse.ledger.view().table("bronze/orders").committed if e.batch == 2
    ]
    assert (str(last.day), last.rows_inserted) == ("2017-01-04", 1)


@thorough("feeds/test_cost.py: a day that is read without the other days")
@pytest.mark.parametrize(
    ("changes", "day", "days"),
    [
        (Sequence("id"), None, ("2017-01-10", "2017-01-10")),
        (ChangeLog(), "at", ("2017-01-01...2017-01-03", "2017-01-09")),
    ],
    ids=["sequence", "log"],
)
def test_a_new_row_costs_the_same_over_ten_times_the_history(
    lake: Lakes,
    spark: SparkSession,
    event_log: Path,
    changes: Any,
    day: str | None,
    days: tuple[str, str],
) -> None:
    counted, read = EventLog(spark, event_log), []
    for times in (1, 10):
        shop = lake(bronze(changes, day)).another(str(times))
        shutil.rmtree(shop.source("orders"), ignore_errors=True)
        rows = 20 * times
        for n in range(3):
            batch = events(1 + n * rows, *[f"0{n + 1} 10:00"] * rows)
            shop.put_delta("orders", batch, mode="append")
        shop.load(days[0])

        shop.put_delta("orders", events(3 * rows + 1, "09 10:00"), mode="append")
        counted.new()
        shop.load(days[1])

        read.append(records_read(counted.new()))
        assert len(landed(shop)) == 3 * rows + 1

    # Neither rows of the source's other files are read, nor hashes of the table.
    assert read[0] == read[1] < 60


def test_numbers_inside_the_lookback_that_come_again_are_not_doubled(lake: Lakes) -> None:
    shop = lake(bronze(Sequence("id", lookback=2, nulls="include")))
    sent = [(1, "05 10:00"), (2, "05 10:00"), (None, "05 10:00"), (4, "05 10:00")]
    late = [*sent, (3, "05 10:00"), (None, "05 11:00"), (5, "05 10:00")]
    for rows in (sent[:3], sent, late, [*late, (6, "05 10:00")]):
        shop.put_parquet("orders", "all.parquet", movements(*rows))
        shop.load("2017-01-10")
    assert sorted(landed(shop, "id"), key=repr) == [
        *((str(n),) for n in range(1, 7)),
        (None,),
        (None,),
    ]

    TableRewind(shop.lakehouse, shop.tables["bronze/orders"]).record(1, "to be sure")
    shop.load("2017-01-10")
    shop.put_parquet("orders", "all.parquet", movements(*late, (6, "05 10:00"), (7, "05 10:00")))
    shop.load("2017-01-10")

    assert len(landed(shop)) == 9
