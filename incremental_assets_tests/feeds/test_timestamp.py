"""Tables of the lake over a source with a timestamp: orders that change at their source."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Exact
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes import Timestamp
from incremental_assets.changes.watermark import Seen
from incremental_assets.errors import SourceError, WatermarkError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Decimal, Instant, Text
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, at, states
from incremental_assets_tests.thorough import thorough


def tables(**changes: Any) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/orders",
        description="Orders as the shop's table has them.",
        reads=(Stored("orders"),),
        changes=Timestamp("updated_at", **changes),
        write=Append(),
    )
    silver = Table(
        name="silver/orders",
        description="The latest state of each order.",
        reads=(SameDay(bronze),),
        key=("order_id",),
        version_by=("updated_at",),
        schema=Contract(
            order_id=Text(required=True), status=Text(), amount=Decimal(), updated_at=Instant()
        ),
        write=Merge(),
    )
    return bronze, silver


def orders(*rows: tuple[str, str, str | None]) -> pl.DataFrame:
    """Order, status and time of the change; an amount of two digits."""
    return pl.DataFrame(
        {
            "order_id": [row[0] for row in rows],
            "status": [row[1] for row in rows],
            "amount": [12.5 for _ in rows],
            "updated_at": [at(row[2]) for row in rows],
        },
        schema_overrides={"updated_at": pl.Datetime("us", "UTC")},
    )


def put(lake: Lake, *rows: tuple[str, str, str | None]) -> None:
    """As one file, which is cheaper to read than a Delta table."""
    lake.put_parquet("orders", "all.parquet", orders(*rows))


FIRST = (("a", "paid", "05 10:00"), ("b", "paid", "05 11:00"), ("c", "paid", "06 09:00"))


def statuses(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.rows("silver/orders", "order_id", "status", "dt")


def unloaded(lake: Lakes) -> Lake:
    made = lake(*tables())
    made.put_delta("orders", orders(*FIRST))
    return made


def two_days(lake: Lakes) -> Lake:
    made = unloaded(lake)
    made.load("2017-01-05...2017-01-06")
    return made


@pytest.fixture
def shop(lake: Lakes) -> Lake:
    """Two days of orders are loaded."""
    return lake.copy_of(two_days)


def test_rows_land_on_the_day_that_they_changed_and_start_no_batch_again(shop: Lake) -> None:
    assert shop.bronze("bronze/orders", "order_id") == [
        ("2017-01-05", "a"),
        ("2017-01-05", "b"),
        ("2017-01-06", "c"),
    ]
    assert statuses(shop) == [
        ("a", "paid", "2017-01-05"),
        ("b", "paid", "2017-01-05"),
        ("c", "paid", "2017-01-06"),
    ]

    before = shop.versions(), len(shop.lakehouse.ledger.view().table("bronze/orders").entries)
    again = shop.load("2017-01-05...2017-01-06")
    assert states(again, "bronze/orders") == ["idle", "idle"]
    assert (
        shop.versions(),
        len(shop.lakehouse.ledger.view().table("bronze/orders").entries),
    ) == before
    assert shop.pending_days("bronze/orders") == []


def test_a_day_is_loaded_alone_and_the_others_are_still_new(lake: Lakes) -> None:
    shop = unloaded(lake)
    assert shop.pending_days("bronze/orders") == ["2017-01-05", "2017-01-06"]

    shop.load("2017-01-06", "bronze/orders")

    assert [order for _, order in shop.bronze("bronze/orders", "order_id")] == ["c"]
    assert shop.pending_days("bronze/orders") == ["2017-01-05"]


def test_an_order_that_changes_moves_to_its_new_day_and_only_that_is_read(shop: Lake) -> None:
    shop.put_delta("orders", orders(("a", "shipped", "07 08:00"), *FIRST[1:]))

    # The old day has a row less, so it is looked at as well, and nothing new is found there.
    assert shop.pending_days("bronze/orders") == ["2017-01-05", "2017-01-07"]
    shop.load("2017-01-05...2017-01-07")

    assert [order for _, order in shop.bronze("bronze/orders", "order_id")] == ["a", "b", "c", "a"]
    assert statuses(shop)[0] == ("a", "shipped", "2017-01-07")
    assert len(statuses(shop)) == 3
    assert shop.pending_days("bronze/orders") == []


def test_rows_at_the_watermarks_own_instant_are_neither_lost_nor_doubled(shop: Lake) -> None:
    shop.put_delta("orders", orders(*FIRST, ("d", "paid", "06 09:00"), ("e", "paid", "06 08:59")))

    shop.load("2017-01-06", "bronze/orders")

    landed = [order for day, order in shop.bronze("bronze/orders", "order_id") if "06" in day]
    assert landed == ["c", "d"]  # e is below the watermark, and there is no lookback
    messages = [line for line in shop.logged if "below the watermark" in line]
    assert len(messages) == 1
    assert messages[0].startswith("bronze/orders: 1 row of 2017-01-06 came again, or late")


def test_a_lag_reads_again_below_the_watermark_and_doubles_nothing(lake: Lakes) -> None:
    shop = lake(*tables(lookback=timedelta(hours=1)))
    put(shop, *FIRST)
    shop.load("2017-01-05...2017-01-06", "bronze/orders")
    put(shop, *FIRST, ("e", "paid", "06 08:59"), ("f", "paid", "06 07:00"))

    shop.load("2017-01-06", "bronze/orders")

    landed = [order for day, order in shop.bronze("bronze/orders", "order_id") if "06" in day]
    assert landed == ["c", "e"]
    assert any("1 row of 2017-01-06 came again, or late" in line for line in shop.logged)
    whole_days = shop.with_tables(*tables(lookback=timedelta(days=1)))
    put(whole_days, *FIRST, *(("g", "paid", "06 00:01"),))
    whole_days.load("2017-01-06", "bronze/orders")
    landed = [order for day, order in shop.bronze("bronze/orders", "order_id") if "06" in day]
    assert landed == ["c", "e", "g"]


def test_rows_without_a_timestamp_are_refused_and_nothing_moves(lake: Lakes) -> None:
    shop = lake(*tables())
    put(shop, *FIRST, ("x", "paid", None))

    with pytest.raises(SourceError, match=r"1 of . new rows have no updated_at"):
        shop.load("2017-01-05", "bronze/orders")

    assert shop.bronze("bronze/orders", "order_id") == []
    assert shop.lakehouse.ledger.view().table("bronze/orders").committed == ()


@pytest.mark.parametrize(
    ("nulls", "landed", "aside"),
    [
        pytest.param(
            "include",
            [("None", "x")],
            [],
            marks=thorough("loaders/test_bad_input.py: rows without a cursor are included"),
        ),
        ("quarantine", [], [("updated_at_null",)]),
    ],
)
def test_rows_without_a_timestamp_are_todays_and_are_taken_once(
    lake: Lakes, nulls: str, landed: list[Any], aside: list[Any]
) -> None:
    shop = lake(*tables(nulls=nulls))
    put(shop, *FIRST, ("x", "paid", None))

    shop.load("2017-01-05...2017-01-06", "bronze/orders")
    assert ("None", "x") not in [(str(d), o) for d, o in shop.bronze("bronze/orders", "order_id")]
    for extra in ("p", "q"):
        put(shop, *FIRST, ("x", "paid", None), (extra, "paid", "10 09:00"))
        shop.load("2017-01-10", "bronze/orders")

    none = [(str(d), o) for d, o in shop.bronze("bronze/orders", "order_id") if o == "x"]
    assert none == landed
    assert shop.reasons("bronze/orders") == aside


def test_a_line_that_is_no_row_has_no_timestamp_to_miss(lake: Lakes) -> None:
    shop = lake(*tables(nulls="quarantine"))
    shop.land("orders", "", "1.jsonl", [{"order_id": "n", "updated_at": None}, "{broken"])

    shop.load("2017-01-10")

    assert shop.reasons("bronze/orders") == [("updated_at_null",)]
    assert shop.reasons("silver/orders") == [("line_unreadable",)]


def test_a_timestamp_of_the_future_does_not_silence_the_source(lake: Lakes) -> None:
    shop = lake(*tables())
    put(shop, *FIRST, ("y", "paid", "10 13:00"), ("z", "paid", "25 00:00"))

    shop.load("2017-01-10", "bronze/orders")
    assert shop.reasons("bronze/orders") == [("updated_at_in_future",)] * 2
    assert any("the watermark stays below that" in line for line in shop.logged)

    put(shop, *FIRST, ("y", "paid", "10 13:00"), ("w", "paid", "10 11:00"))
    shop.load("2017-01-10", "bronze/orders")

    assert shop.bronze("bronze/orders", "order_id") == [("2017-01-10", "w")]
    assert len(shop.reasons("bronze/orders")) == 2  # y was quarantined once


@thorough("loaders/test_bad_input.py: rows from the future are included, each once")
def test_a_row_of_the_future_that_is_loaded_is_not_loaded_again_when_its_day_comes(
    lake: Lakes,
) -> None:
    shop = lake(*tables(future="include"))
    put(shop, ("z", "paid", "12 08:00"))
    shop.load("2017-01-10", "bronze/orders")
    assert shop.bronze("bronze/orders", "order_id") == [("2017-01-12", "z")]

    shop.now = datetime(2017, 1, 12, 9, tzinfo=UTC)
    put(shop, ("z", "paid", "12 08:00"), ("v", "paid", "12 07:00"))
    shop.load("2017-01-12", "bronze/orders")

    assert [order for _, order in shop.bronze("bronze/orders", "order_id")] == ["v", "z"]


NO_DOUBLE = Exact("12345678901234.5678")


@pytest.mark.parametrize(
    "kind",
    [
        "json",
        pytest.param(
            "csv",
            marks=thorough(
                "feeds/test_timestamp.py, sources/test_stored_csv.py: JSON, and values of CSV"
            ),
        ),
        pytest.param("parquet", marks=thorough("feeds/test_timestamp.py: the other tests")),
    ],
)
def test_any_format_of_a_source_is_read_the_same_way(lake: Lakes, kind: str) -> None:
    shop = lake(*tables())
    folder = shop.source("orders")
    folder.mkdir(parents=True)
    for part, rows in (("1", FIRST[:2]), ("2", FIRST[2:])):
        frame = orders(*rows)
        if kind == "parquet":
            frame.write_parquet(folder / f"{part}.parquet")
        else:
            text = frame.with_columns(pl.col("updated_at").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
            write = text.write_ndjson if kind == "json" else text.write_csv
            path = folder / f"{part}.{'jsonl' if kind == 'json' else 'csv'}"
            write(path)
            path.write_text(path.read_text().replace("12.5", str(NO_DOUBLE)))
        shop.load("2017-01-05...2017-01-06", "bronze/orders")
    shop.load("2017-01-05...2017-01-06", "silver/orders")

    assert statuses(shop) == [
        ("a", "paid", "2017-01-05"),
        ("b", "paid", "2017-01-05"),
        ("c", "paid", "2017-01-06"),
    ]
    amount = 12.5 if kind == "parquet" else NO_DOUBLE
    assert shop.rows("silver/orders", "amount") == [(amount,)] * 3
    assert len(shop.bronze("bronze/orders", "order_id")) == 3


def test_another_column_is_refused_because_its_watermark_means_nothing_there(shop: Lake) -> None:
    bronze, silver = tables()
    bronze = replace(bronze, changes=Timestamp("created_at"))
    shop.put_delta("orders", orders(*FIRST, ("d", "paid", "06 10:00")))

    with pytest.raises(WatermarkError, match="'updated_at' so far"):
        shop.with_tables(bronze, silver).load("2017-01-06", "bronze/orders")


def test_a_missing_column_says_what_to_do(lake: Lakes) -> None:
    shop = lake(*tables())
    shop.put_delta("orders", pl.DataFrame({"id": [1]}))

    with pytest.raises(SourceError, match="no column 'updated_at'"):
        shop.load("2017-01-05", "bronze/orders")


def test_a_source_that_has_never_landed_is_empty_and_one_that_is_gone_is_an_error(
    lake: Lakes,
) -> None:
    shop = lake(*tables())
    shop.source("").mkdir(exist_ok=True)
    idle = shop.load("2017-01-05")
    assert [states(idle, name) for name in idle] == [["idle"], ["idle"]]
    assert f"bronze/orders: Nothing has landed at {shop.source('orders')} yet." in shop.logged

    put(shop, *FIRST)
    shop.load("2017-01-05", "bronze/orders")
    shutil.rmtree(shop.source("orders"))
    with pytest.raises(SourceError, match="There is nothing at"):
        shop.load("2017-01-05", "bronze/orders")

    shutil.rmtree(shop.settings.landing)
    with pytest.raises(SourceError, match=r"The landing root .* does not exist"):
        shop.another("new").load("2017-01-05", "bronze/orders")
    bronze, _ = tables()
    elsewhere = replace(bronze, reads=(Stored("/nowhere/orders"),))
    with pytest.raises(SourceError, match="There is nothing at /nowhere/orders"):
        lake(elsewhere).load("2017-01-05")


@thorough("loaders/test_own_watermarks.py: of a timestamp by a subclass")
def test_a_watermark_of_ones_own_is_asked(lake: Lakes) -> None:
    class AnHourBehind(Timestamp):
        def next_watermark(self, before: datetime | None, seen: Seen) -> datetime | None:
            found = super().next_watermark(before, seen)
            late = found - timedelta(hours=1) if found else None
            return max(filter(None, (before, late)), default=None)

    bronze, silver = tables()
    bronze = replace(bronze, changes=AnHourBehind("updated_at"))
    shop = lake(bronze, silver)
    put(shop, *FIRST)
    shop.load("2017-01-06", "bronze/orders")
    put(shop, *FIRST, ("e", "paid", "06 08:30"), ("f", "paid", "06 07:30"))

    shop.load("2017-01-06", "bronze/orders")

    entries = shop.lakehouse.ledger.view().table("bronze/orders").committed
    assert {entry.high for entry in entries} == {"2017-01-06T08:00:00.000000Z"}
    landed = [order for day, order in shop.bronze("bronze/orders", "order_id") if "06" in day]
    assert landed == ["c", "e"]


def test_scd2_of_orders_is_measured_in_their_timestamp(lake: Lakes) -> None:
    bronze, silver = tables()
    history = replace(silver, write=SCD2(ignore_changes_in=("updated_at",)))
    shop = lake(bronze, history)
    put(shop, *FIRST)
    shop.load("2017-01-05...2017-01-06")
    put(shop, ("a", "shipped", "07 08:00"), ("b", "paid", "07 09:00"))
    shop.load("2017-01-07")

    columns = ("order_id", "status", "valid_from", "valid_to", "is_current")
    assert shop.rows("silver/orders", *columns) == [
        ("a", "paid", "01-05 10:00", "01-07 08:00", False),
        ("a", "shipped", "01-07 08:00", None, True),
        ("b", "paid", "01-05 11:00", None, True),
        ("c", "paid", "01-06 09:00", None, True),
    ]
