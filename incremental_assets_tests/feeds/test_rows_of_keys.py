"""The rows of a key that is recomputed: one of each of its days, none that is gone or held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog
from incremental_assets.days import parse_days
from incremental_assets.delta.compare import differing_rows
from incremental_assets.engine import keyed, since
from incremental_assets.errors import DefinitionError, LakeError
from incremental_assets.quality.rules import fail, reconciles, satisfies
from incremental_assets.table import SameDay, Sums, Table
from incremental_assets.writes import SCD2, RecomputeKeys
from incremental_assets_tests.feeds import test_append as visits
from incremental_assets_tests.feeds import test_change_log as logs
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

NEXT = "2017-01-06"


def counts_of(silver: Table, key: str, **counted: str) -> Table:
    """Per key how many rows, and how many of some kind."""

    def transform(rows: Any) -> Any:
        some = [F.count_if(F.expr(sql)).alias(name) for name, sql in counted.items()]
        return rows.groupBy(key).agg(F.max("dt").alias("dt"), F.count(F.lit(1)).alias("n"), *some)

    return Table(
        name="gold/counts",
        description="Rows per key.",
        reads=(SameDay(silver),),
        key=(key,),
        rules=fail(reconciles()),
        sums=Sums({"n": ("count(*)", "sum(n)")}, rows=False),
        write=RecomputeKeys(),
        transform=transform,
    )


@thorough("feeds/test_keys.py: rows that go from a merged table")
def test_a_delete_and_an_interval_that_ends_are_found_over_scd2(lake: Lakes) -> None:
    landed, kept = logs.tables(SCD2(), ChangeLog())
    gold = counts_of(kept, "name", current="is_current")
    users = lake(landed, kept, gold)
    events = [logs.event("INSERT", n, n, name=name) for n, name in enumerate("abc", 1)]
    users.land("users", "2017-01-05", "1.jsonl", events)
    users.load("2017-01-05")
    assert users.rows("gold/counts", "name", "n", "current")[1] == ("b", 1, 1)

    changed = [logs.event("DELETE", 4, 2), logs.event("UPDATE", 5, 3, name="d")]
    users.land("users", "2017-01-06", "1.jsonl", changed)
    users.load("2017-01-06")
    users.load_stale()

    found = users.rows("gold/counts", "name", "n", "current")
    assert found == [("a", 1, 1), ("b", 1, 0), ("c", 1, 0), ("d", 1, 1)]


def counted(lake: Lakes, *pages: str) -> Lake:
    web = lake(visits.VISITS, visits.TYPED, counts_of(visits.TYPED, "page"))
    land(web, *pages)
    return web


def land(web: Lake, *pages: str) -> None:
    web.land("visits", "2017-01-05", "1.jsonl", map(visits.visit, pages))
    web.load("2017-01-05")


@thorough("feeds/test_keys.py: rows that differ")
def test_a_changed_number_of_equal_rows_is_heard_of(lake: Lakes) -> None:
    web = lake.copy_of(counted, "a", "a", "b")

    land(web, "a", "a", "a", "b")

    assert web.rows("gold/counts", "page", "n") == [("a", 3), ("b", 1)]


@thorough("feeds/test_restate.py: levels")
def test_a_restatement_mends_what_was_not_heard_of(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = lake.copy_of(counted, "a", "a", "b")
    with monkeypatch.context() as deaf:  # as it was before rows were counted
        deaf.setattr(keyed, "differing_rows", lambda *args: differing_rows(*args).where("false"))
        land(web, "a", "b")
    assert web.rows("gold/counts", "page", "n") == [("a", 2), ("b", 1)]

    gold = web.tables["gold/counts"]
    web.lakehouse.restate(gold, list(parse_days("2017-01-05")), "rows were not counted")

    assert web.rows("gold/counts", "page", "n") == [("a", 1), ("b", 1)]


def test_a_key_has_a_row_on_each_of_its_days_and_no_two_on_one(lake: Lakes) -> None:
    by_day = replace(per_train(), write=RecomputeKeys())
    station = lake(landed("bookings"), bookings(), by_day)
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1")])
    station.land(
        "bookings", NEXT, "1.jsonl", [booking(id_, "1", at=f"{NEXT}T10:00") for id_ in "bc"]
    )
    station.load(f"{DAY}...{NEXT}")
    station.land("bookings", DAY, "2.jsonl", [booking("d", "2")])
    station.load(DAY)

    rows = [(DAY, "t1", 2), (NEXT, "t1", 2)]
    assert station.rows("gold/per_train", "dt", "train", "seats") == rows
    for transform, message in (
        (lambda rows: rows.select("dt", "train", "seat"), "2 rows .* repeat the key .train. of"),
        (lambda rows: rows.selectExpr("null AS dt", "train"), "4 rows .* have no dt"),
    ):
        wrong = replace(by_day, transform=transform)
        with pytest.raises(DefinitionError, match=message):
            station.with_tables(landed("bookings"), bookings(), wrong).lakehouse.restate(
                wrong, list(parse_days(DAY)), "another transform"
            )
    assert station.rows("gold/per_train", "dt", "train", "seats") == rows


def test_what_a_held_day_has_of_a_key_is_not_seen_by_other_days(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_all_days(rows: DataFrame) -> DataFrame:
        return rows.groupBy("train").agg(F.max("dt").alias("dt"), F.count(F.lit(1)).alias("seats"))

    few = fail(satisfies("few", "seats <= 2"))
    by_key = replace(per_train(*few), write=RecomputeKeys(), transform=of_all_days)
    station = lake(landed("bookings"), bookings(), by_key)

    def seats() -> dict[str, int]:
        return dict(station.rows("gold/per_train", "train", "seats"))

    station.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("d0", "2", "t2")])
    station.load(DAY)
    more = [booking("b", "3"), booking("c", "4"), booking("d", "5", "t2")]
    station.land("bookings", DAY, "2.jsonl", more)
    station.load(DAY)
    assert seats() == {"t1": 1, "t2": 1}

    station.land("bookings", NEXT, "1.jsonl", [booking("e", "1", "t2", at=f"{NEXT}T10:00")])
    station.load(NEXT)

    assert seats() == {"t1": 1, "t2": 2}

    # As it was, the upstream is no longer there.
    station.land(
        "bookings", NEXT, "2.jsonl", [booking("e", "1", "t2", at=f"{NEXT}T10:00", version=2)]
    )
    station.load(NEXT, "bronze/bookings", "silver/bookings")
    monkeypatch.setattr(since, "version_read", lambda *_: None)
    with pytest.raises(LakeError, match=f"{DAY} of it is held, and silver/bookings is no longer"):
        station.load(NEXT, "gold/per_train")
