"""Held days that are accepted: what passes then, what does not, and what is on record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import polars as pl
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.operations.accept import accept
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    distinct_count,
    fail,
    one_of,
    quarantine,
    quarantined_share,
    row_count,
    rows_delivered,
)
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.stored import Stored
from incremental_assets.writes import Merge, RecomputeKeys
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.test_snapshots import copy, operations
from incremental_assets_tests.feeds.test_snapshots import tables as copies
from incremental_assets_tests.feeds.world import NOON, Lake, states

THE_DAY = date(2017, 1, 5)
RULES = (*quarantine(one_of("train", ("t1", "t2"))), *fail(quarantined_share(0.1)))


def seats_of_all_days(rows: DataFrame) -> DataFrame:
    return rows.groupBy("train").agg(F.min("dt").alias("dt"), F.count(F.lit(1)).alias("seats"))


def held(lake: Lakes) -> Lake:
    """A day of which a third is in quarantine."""
    station = lake(landed("bookings"), bookings(*RULES), per_train())
    rows = [booking("a", "1"), booking("b", "2", "t2"), booking("c", "3", "nowhere")]
    station.land("bookings", DAY, "1.jsonl", rows)
    station.load(DAY)
    assert station.rows("silver/bookings", "id") == []
    return station


def accepted(lake: Lake, name: str, day: date = THE_DAY, reason: str = "seen") -> tuple[str, ...]:
    return accept(lake.lakehouse, lake.tables[name], day, reason).rules


def test_an_accepted_day_is_published_once_and_quarantine_stays(lake: Lakes) -> None:
    station = lake.copy_of(held)
    assert station.stale() == {}

    assert accepted(station, "silver/bookings", reason="a new station, on its way") == (
        "quarantined_share",
    )
    assert station.load(DAY, "gold/per_train")["gold/per_train"].failed  # not before it is loaded
    assert station.stale() == {"silver/bookings": [DAY]}
    results = station.load(DAY)

    assert station.rows("silver/bookings", "id") == [("a",), ("b",)]
    assert station.rows("gold/per_train", "train", "seats") == [("t1", 1), ("t2", 1)]
    assert station.reasons("silver/bookings") == [("train_one_of",)]
    check = results["silver/bookings"].days[THE_DAY].checks["quarantined_share"]
    assert (check.passed, check.severity) == (False, "warn")
    assert check.found.endswith("(accepted)")
    history = station.lakehouse.ledger.view().table("silver/bookings")
    decision = next(e for e in history.entries if e.state == "accepted")
    assert (decision.held_by, decision.why) == ("quarantined_share", "a new station, on its way")
    assert decision.who
    assert "accepted by" in history.committed[-1].why

    station.land("bookings", DAY, "2.jsonl", [booking("d", "4", "nowhere")])
    again = station.load(DAY)
    assert states(again, "silver/bookings") == ["held"]


def test_an_acceptance_is_for_the_input_that_was_judged(lake: Lakes) -> None:
    station = lake.copy_of(held)
    accepted(station, "silver/bookings")
    station.land("bookings", DAY, "2.jsonl", [booking("d", "4", "elsewhere")])

    results = station.load(DAY)

    assert states(results, "silver/bookings") == ["held"]
    assert any("changed since it was accepted" in line for line in station.logged)
    assert station.rows("silver/bookings", "id") == []


def test_an_acceptance_is_not_for_the_rebuild_of_a_day_that_was_rewound_since(lake: Lakes) -> None:
    station, name = lake(landed("bookings"), bookings(*RULES)), "silver/bookings"
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("b", "2")])
    station.load(DAY)
    station.land("bookings", DAY, "2.jsonl", [booking("x", "9", "nowhere")])
    station.load(DAY)
    accepted(station, name)

    wrong = (*quarantine(one_of("train", ("T1",))), *fail(quarantined_share(0.1)))
    station = station.with_tables(landed("bookings"), bookings(*wrong))
    TableRewind(station.lakehouse, station.tables[name]).record(0, "to be built by new rules")
    assert station.stale() == {name: [DAY]}
    with pytest.raises(DefinitionError, match="was rewound since batch 2 held it: run it"):
        accepted(station, name)

    assert states(station.load(DAY), name) == ["held"]
    assert station.rows(name, "id") == [("a",), ("b",)]
    assert station.stale() == {}


def test_a_delivery_that_was_held_in_its_landing_is_accepted(lake: Lakes) -> None:
    station = lake(landed("bookings", *fail(rows_delivered())))
    station.land("bookings", DAY, "1.jsonl", [])
    assert states(station.load(DAY), "bronze/bookings") == ["held"]
    assert station.pending_days("bronze/bookings") == []

    accepted(station, "bronze/bookings", reason="closed that day")
    assert station.pending_days("bronze/bookings") == [DAY]

    assert states(station.load(DAY), "bronze/bookings") == ["committed"]
    assert station.pending_days("bronze/bookings") == []
    station.land("bookings", DAY, "2.jsonl", [booking("a", "1")])
    station.load(DAY)
    assert station.bronze("bronze/bookings", "id") == [(DAY, "a")]

    # What should not have come is held, and taken away again.
    empty = station.land("bookings", DAY, "3.jsonl", [])
    assert states(station.load(DAY), "bronze/bookings") == ["held"]
    empty.unlink()
    assert station.pending_days("bronze/bookings") == [DAY]
    assert states(station.load(DAY), "bronze/bookings") == ["committed"]
    assert station.lakehouse.ledger.view().table("bronze/bookings").held == {}
    assert station.bronze("bronze/bookings", "id") == [(DAY, "a")]


def test_what_a_source_without_days_had_is_judged_again_on_the_next_day(lake: Lakes) -> None:
    shop = lake(*copies(Merge(), Stored("products", format="parquet")))

    def shows(day: int, *skus: str) -> None:
        shop.now = NOON.replace(day=day)
        rows = [{"sku": sku, "name": sku.upper()} for sku in skus]
        shop.put_parquet("products", "all.parquet", pl.DataFrame(rows))

    def loaded(day: int) -> Sequence[str]:
        return states(shop.load(f"2017-01-{day}"), "bronze/products")

    def held() -> list[int]:
        view = shop.lakehouse.ledger.view()
        return [day.day for day in view.table("bronze/products").held]

    shows(10, "a", "b", "c")
    assert loaded(10) == ["committed"]
    shows(11, "a")
    assert (loaded(11), held()) == (["held"], [11])
    shop.now = NOON.replace(day=12)
    assert shop.pending_days("bronze/products") == []
    shows(12, "a", "b", "c", "d")
    assert shop.pending_days("bronze/products") == ["2017-01-12"]
    assert (loaded(12), held(), shop.stale()) == (["committed"], [], {})
    assert [sku for (sku,) in shop.rows("silver/products", "sku")] == ["a", "b", "c", "d"]

    # Also where it is as it was before, and where it is accepted a day later.
    there = shop.source("products") / "all.parquet"
    before = there.read_bytes(), there.stat()
    shows(13, "d")
    assert (loaded(13), held()) == (["held"], [13])
    there.write_bytes(before[0])
    os.utime(there, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
    assert (loaded(13), held()) == (["committed"], [])
    shows(14, "d")
    assert loaded(14) == ["held"]
    shop.now = NOON.replace(day=15)
    accepted(shop, "bronze/products", date(2017, 1, 14))
    assert loaded(14) == ["idle"]
    assert any("are evaluated again by the load of 2017-01-15" in line for line in shop.logged)
    assert (loaded(15), held()) == (["committed"], [])
    assert shop.rows("silver/products", "sku") == [("d",)]


def test_a_snapshot_that_deletes_much_is_accepted(lake: Lakes) -> None:
    shop = lake(copies(Merge())[0])
    shop.land("products", DAY, "1.jsonl", copy(a="A", b="B", c="C"))
    shop.land("products", "2017-01-06", "1.jsonl", copy(a="A"))
    shop.load("2017-01-05...2017-01-06")

    assert accepted(shop, "bronze/products", date(2017, 1, 6)) == ("deleted_share",)
    shop.load("2017-01-06")

    assert operations(shop)[3:] == [("06", "delete", '["b"]'), ("06", "delete", '["c"]')]


def test_days_that_pass_together_are_accepted_together(lake: Lakes) -> None:
    few = fail(distinct_count("train", at_least=2))
    keyed = replace(per_train(*few), write=RecomputeKeys(), transform=seats_of_all_days)
    station = lake(landed("bookings"), bookings(), keyed)
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1")])
    after = "2017-01-06"
    station.land("bookings", after, "1.jsonl", [booking("b", "1", at=f"{after}T10:00")])
    station.load(f"{DAY}...{after}")
    assert station.rows("gold/per_train", "train") == []

    done = accept(station.lakehouse, keyed, THE_DAY, "only one train runs")
    assert [str(day) for day in done.days] == [DAY, after]
    station.load(f"{DAY}...{after}")

    assert station.rows("gold/per_train", "train", "seats") == [("t1", 2)]


def test_a_restatement_that_was_held_is_accepted_and_loses_no_row_in_quarantine(
    lake: Lakes,
) -> None:
    only = quarantine(one_of("train", ("t1",)))
    usual, strict = bookings(*only), bookings(*only, *fail(row_count(at_least=99)))
    station = lake(landed("bookings"), usual, per_train())
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("c", "3", "t9")])
    station.load(DAY)
    judged = station.with_tables(landed("bookings"), strict, per_train())
    judged.lakehouse.restate(strict, [THE_DAY], "99 are expected")
    assert judged.stale() == {}
    assert judged.load(DAY, "gold/per_train")["gold/per_train"].failed

    assert accepted(judged, strict.name) == ("row_count",)
    assert judged.stale() == {strict.name: [DAY]}
    judged.load_stale()
    assert judged.stale() == {}
    assert judged.lakehouse.ledger.view().table(strict.name).held == {}

    # Held once more, and what is new comes with all that the restatement has judged.
    judged.lakehouse.restate(strict, [THE_DAY], "99 are expected")
    station.land("bookings", DAY, "2.jsonl", [booking("d", "4")])
    assert states(station.load(DAY), "gold/per_train") == ["committed"]
    assert station.rows("silver/bookings", "id") == [("a",), ("d",)]
    assert station.reasons("silver/bookings") == [("train_one_of",)]


def test_what_cannot_be_accepted_is_reported(lake: Lakes) -> None:
    station = lake.copy_of(held)

    with pytest.raises(
        DefinitionError,
        match=r"2017-01-06 is not held: it was never loaded\. Held days of the table: 2017-01-05",
    ):
        accepted(station, "silver/bookings", date(2017, 1, 6))
    with pytest.raises(
        DefinitionError, match="has not been evaluated itself: silver/bookings 2017-01-05 is held"
    ):
        accepted(station, "gold/per_train")
    with pytest.raises(DefinitionError, match="is not held: its batch 1 was published"):
        accepted(station, "bronze/bookings")
    with pytest.raises(DefinitionError, match="needs a reason"):
        accepted(station, "silver/bookings", reason=" ")
    accepted(station, "silver/bookings")
    with pytest.raises(DefinitionError, match=r"was accepted by \S+ before \(seen\)"):
        accepted(station, "silver/bookings")


def test_all_rules_that_held_a_day_are_accepted_but_those_on_rows_and_none_that_a_feed_names(
    lake: Lakes,
) -> None:
    schema = Contract(
        "freeze",
        id=Text(required=True),
        seat=Text(),
        train=Text(),
        version=Integer(),
        at=Instant(),
    )
    rules = fail(row_count(2), one_of("train", ("t1",)))
    frozen = replace(bookings(*rules), schema=schema)
    station = lake(landed("bookings"), frozen)
    of_rows, named, both = (date(2017, 1, day) for day in (5, 6, 7))
    fields = {"x; row_count: y; train_one_of: z": 1, "row_count, x: ": 1}
    rows = {
        of_rows: [booking("a", "1", "t9"), booking("b", "2")],
        named: [booking("c", "1") | fields, booking("d", "2")],
        both: [booking("e", "1") | {"smoker": True}],
    }
    for day, those in rows.items():
        at = {"at": f"{day}T10:00"}
        station.land("bookings", str(day), "1.jsonl", [row | at for row in those])
    days = f"{of_rows}...{both}"
    results = station.load(days)
    assert states(results, "silver/bookings") == ["held"] * 3
    reason = results["silver/bookings"].days[both].reason
    assert reason.startswith("fields_declared, row_count: 1 fields that nobody declared: smoker;")

    with pytest.raises(DefinitionError, match="train_one_of judges rows"):
        accepted(station, "silver/bookings", of_rows)
    assert accepted(station, "silver/bookings", named) == ("fields_declared",)
    assert set(accepted(station, "silver/bookings", both)) == {"fields_declared", "row_count"}

    results = station.load(days)
    assert states(results, "silver/bookings") == ["held", "committed", "committed"]
    assert station.rows("silver/bookings", "id") == [("c",), ("d",), ("e",)]
