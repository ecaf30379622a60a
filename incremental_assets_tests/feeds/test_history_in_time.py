"""Histories of a log that are measured by when things changed, and facts looked up in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.as_of import join_as_of
from incremental_assets.changes import ChangeLog
from incremental_assets.delta import lookup
from incremental_assets.errors import DefinitionError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import fail, not_null
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import AsOf, SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge, ReplaceDay
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_change_log import tables
from incremental_assets_tests.thorough import thorough

IN_TIME = SCD2(valid_time="event")
VERSION = ("id", "name", "valid_from", "valid_to", "is_current")

LANDED_SALES = Table(
    name="bronze/sales",
    description="Sales.",
    reads=(LandedFiles("sales"),),
    day="at",
    write=Append(),
)
SALES = Table(
    name="silver/sales",
    description="Sales.",
    reads=(SameDay(LANDED_SALES),),
    key=("sale",),
    day="at",
    schema=Contract(sale=Text(required=True), id=Integer(), at=Instant()),
    write=Merge(),
)


PRICES = Table(
    name="silver/prices",
    description="Prices, each under a key of its own.",
    reads=(SameDay(replace(LANDED_SALES, name="bronze/prices", reads=(LandedFiles("prices"),))),),
    key=("price",),
    day="at",
    schema=Contract(price=Text(required=True), id=Integer(), since=Instant(), at=Instant()),
    write=Merge(),
)
VERSIONED = "id int, since string, price string, _hash string"


USERS_THEN = tables(SCD2(), ChangeLog())[1]


def mart(users: Table) -> Table:
    then = AsOf(users, key="id", at="at")

    def transform(sales: DataFrame, versions: DataFrame) -> DataFrame:
        return join_as_of(sales, versions, then, "user_")

    return Table(
        name="gold/mart",
        description="Sales with their user then.",
        reads=(SameDay(SALES), then),
        write=ReplaceDay(),
        transform=transform,
    )


def test_of_versions_that_begin_together_every_load_finds_the_same(spark: SparkSession) -> None:
    then = AsOf(PRICES, key="id", at="at", valid_from="since")
    sales = spark.createDataFrame([(1, "2017-01-07")], "id int, at string")
    prices = [(1, "2017-01-05", name, name) for name in ("a", "b", "c")]

    found = [
        join_as_of(sales, spark.createDataFrame(rows, VERSIONED).coalesce(1), then, "").head()
        for rows in (prices, prices[::-1])
    ]

    assert [row["price"] for row in found if row] == ["c", "c"]


def test_no_two_versions_of_a_key_hold_at_one_time(spark: SparkSession) -> None:
    then = AsOf(PRICES, key="id", at="at", valid_from="since")
    times = [None, "2016-12-31", "2017-01-02", "2017-01-05"]
    sales = spark.createDataFrame([(1, at) for at in times], "id int, at string")

    def found(*begins: str | None) -> list[str | None]:
        versions = [(1, since, name, name) for since, name in zip(begins, "abcd", strict=False)]
        joined = join_as_of(sales, spark.createDataFrame(versions, VERSIONED), then, "")
        rows = {row["at"]: row["price"] for row in joined.collect()}
        assert joined.count() == len(times)
        return [rows[at] for at in times[1:]]

    assert found(None, None, "2017-01-03") == ["b", "b", "c"]
    assert found(None, None, None) == ["c", "c", "c"]
    assert found("2017-01-01", "2017-01-01", "2017-01-03") == ["a", "b", "c"]

    # Intervals that a table declares by itself: the later version ends the one before it.
    both = AsOf(USERS_THEN, key="id", at="at")
    rows = [(1, None, "2017-01-04", "a"), (1, "2017-01-02", None, "b")]
    versions = spark.createDataFrame(
        rows, "id int, valid_from string, valid_to string, name string"
    )
    joined = join_as_of(sales, versions, both, "").orderBy("at").collect()
    assert [row["name"] for row in joined] == [None, "a", "b", "b"]


def test_a_sale_whose_user_came_later_is_held_and_judged_again_then(lake: Lakes) -> None:
    landed, users = tables(IN_TIME, ChangeLog.debezium())
    named = replace(mart(users), rules=fail(not_null("user_name")))
    as_of = named.transform
    assert as_of is not None
    named = replace(
        named, transform=lambda *frames: as_of(*frames).select("dt", "sale", "user_name")
    )
    made = lake(LANDED_SALES, SALES, landed, users, named)
    made.land("sales", "2017-01-05", "1.jsonl", [sold("first", 1, "05 12")])

    # Nobody is known yet, and the columns are.
    held = made.load("2017-01-05")["gold/mart"].days[date(2017, 1, 5)]
    assert (held.state, held.reason) == ("held", "user_name_not_null: 1 of 1 row failed")

    events = [change("c", n, f"05 0{n}", n, f"u{n}") for n in (2, 1)]
    for day, users_of_day in zip(("2017-01-06", "2017-01-07"), events, strict=True):
        made.land("users", day, "1.jsonl", [users_of_day])
        made.load(day, "bronze/users", "silver/users")
        assert made.stale() == ({"gold/mart": ["2017-01-05"]} if day > "2017-01-06" else {})
    made.load_stale()

    assert made.rows("gold/mart", "sale", "user_name") == [("first", "u1")]


def change(op: str, lsn: int, at: str, id_: int, name: str | None = None) -> dict[str, Any]:
    """An event at `05 10` of January 2017, at a place in the log."""
    row = {"id": id_, "name": name}
    instant = (int(at[:2]) - 1) * 86_400_000 + int(at[3:]) * 3_600_000 + 1_483_228_800_000
    return {
        "op": op,
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": {"lsn": lsn, "ts_ms": instant},
    }


STORY = [
    [change("c", 10, "05 10", 1, "A"), change("c", 20, "05 11", 2, "X")],
    [change("u", 30, "06 10", 1, "B"), change("d", 40, "06 12", 2)],
    [change("u", 50, "07 10", 1, "C"), change("c", 60, "07 11", 2, "Y")],
]
# A clock that went back: B came after A in the log and before C, which is the last of them.
STORY[0].append(change("c", 11, "05 10", 3, "A"))
STORY[1].append(change("u", 31, "05 09", 3, "C"))
STORY[2].append(change("u", 21, "05 11", 3, "B"))
TIMELESS = change("c", 12, "05 10", 4, "A") | {"source": {"lsn": 12}}
INTERVALS = [
    (1, "A", "01-05 10:00", "01-06 10:00", False),
    (1, "B", "01-06 10:00", "01-07 10:00", False),
    (1, "C", "01-07 10:00", None, True),
    (2, "X", "01-05 11:00", "01-06 12:00", False),
    (2, "Y", "01-07 11:00", None, True),
    (3, "A", "01-05 10:00", "01-05 11:00", False),
    (3, "C", "01-05 11:00", None, True),
]


@pytest.mark.parametrize(
    ("loads", "keys_are_sent"),
    [
        (("07", "05...2017-01-06"), True),
        pytest.param(
            ("06", "07", "05"),
            False,
            marks=thorough("feeds/test_history_in_time.py: another order"),
        ),
        pytest.param(
            ("07", "05", "06"),
            True,
            marks=thorough("feeds/test_history_in_time.py: the last two in one load"),
        ),
    ],
)
def test_intervals_are_times_in_whatever_order_the_days_come(
    lake: Lakes, loads: tuple[str, ...], keys_are_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if keys_are_sent:  # as to the files of a large table
        monkeypatch.setattr(lookup, "LARGE_BYTES", -1)
    users = lake(*tables(IN_TIME, ChangeLog.debezium()))
    for day, events in enumerate(([*STORY[0], TIMELESS], *STORY[1:]), start=5):
        users.land("users", f"2017-01-0{day}", "1.jsonl", events)
    for days in loads:
        users.load(f"2017-01-{days}")

    assert users.rows("silver/users", *VERSION) == INTERVALS
    assert users.reasons("silver/users") == [("change_time_missing",)]


def test_a_flat_log_says_when_in_a_field_of_its_own(lake: Lakes) -> None:
    users = lake(*tables(IN_TIME, ChangeLog(time="changed")))
    rows = [("INSERT", 1, "A", "2017-01-05T10:00:00Z"), ("DELETE", 2, None, "2017-01-06T10:00:00Z")]
    names = ("operation", "sequence_num", "name", "changed")
    events = [{"id": 1, **dict(zip(names, row, strict=True))} for row in rows]
    users.land("users", "2017-01-05", "1.jsonl", events)

    users.load("2017-01-05")

    assert users.rows("silver/users", *VERSION) == [(1, "A", "01-05 10:00", "01-06 10:00", False)]


def test_a_log_without_times_has_no_scd2_by_event_time() -> None:
    with pytest.raises(DefinitionError, match=r'ChangeLog\(time="changed_at"\)'):
        tables(IN_TIME, ChangeLog())


def sold(sale: str, user: int, at: str) -> dict[str, Any]:
    return {"sale": sale, "id": user, "at": f"2017-01-{at[:2]}T{at[3:]}:30:00Z"}


@thorough(
    "scenarios/test_advance.py, feeds/test_history_in_time.py: versions that come late, and the intervals"
)
def test_a_fact_looks_up_the_version_of_its_time_also_if_that_comes_late_or_is_deleted_late(
    lake: Lakes,
) -> None:
    landed, users = tables(IN_TIME, ChangeLog.debezium())
    made = lake(LANDED_SALES, SALES, landed, users, mart(users))
    for index, events in enumerate(STORY):
        made.land("users", f"2017-01-0{5 + index}", "1.jsonl", events)
    sales = {
        "2017-01-05": [sold("before", 1, "05 08"), sold("first", 1, "05 12")],
        "2017-01-06": [sold("second", 1, "06 12"), sold("gone", 2, "06 13")],
        "2017-01-07": [
            sold("back", 2, "07 12"),
            sold("nobody", 9, "07 12"),
            sold("last", 3, "07 12"),
        ],
    }
    for day, rows in sales.items():
        made.land("sales", day, "1.jsonl", rows)

    made.load("2017-01-05...2017-01-07")

    found = {
        "back": "Y",
        "before": "A",
        "first": "A",
        "gone": None,  # after a delete
        "last": "C",
        "nobody": None,
        "second": "B",
    }
    assert dict(made.rows("gold/mart", "sale", "user_name")) == found

    # A late change and a late delete: just the days that used another version are stale.
    late = [change("u", 35, "06 11", 1, "B2"), change("d", 36, "06 12", 3)]
    made.land("users", "2017-01-08", "1.jsonl", late)
    made.load("2017-01-08", "bronze/users", "silver/users")
    assert made.stale() == {"gold/mart": ["2017-01-06", "2017-01-07"]}
    made.load_stale()
    found |= {"second": "B2", "last": None}
    assert dict(made.rows("gold/mart", "sale", "user_name")) == found
