"""The days that gold makes of good rows: what holds them, and which rows may be of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from incremental_assets.errors import DefinitionError
from incremental_assets.plan import merge_or_rebuild
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    DayCounts,
    fail,
    reconciles_with,
    satisfies,
    unique,
)
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Merge, ReplaceDay
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import (
    DAY,
    booking,
    bookings,
    eleven,
    landed,
    per_train,
)


def test_a_days_sums_are_held_against_those_of_another_table(lake: Lakes) -> None:
    rule = reconciles_with("silver/counts", {"seats": ("sum(seats)", "sum(sold)")}, within=0.1)
    counts = Table(
        name="silver/counts",
        description="What the till says of a train's day.",
        reads=(SameDay(landed("counts")),),
        key=("train",),
        day="at",
        schema=Contract(train=Text(required=True), sold=Integer(), at=Instant()),
        write=Merge(),
    )
    tables = (landed("counts"), counts, landed("bookings"), bookings(), per_train(*fail(rule)))
    trains = lake.copy_of(eleven).with_tables(*tables)

    (missing,) = trains.load(DAY, "gold/per_train")["gold/per_train"].days.values()
    assert missing.state == "held"
    assert "seats is 11.0000, silver/counts has 0 (100.00% apart)" in missing.reason

    assert trains.stale() == {}
    trains.land("counts", DAY, "1.jsonl", [{"train": "t1", "sold": 10, "at": f"{DAY}T01:00"}])
    trains.now += timedelta(hours=1)
    trains.load(DAY, "bronze/counts", "silver/counts")
    assert trains.stale() == {"gold/per_train": [DAY]}
    (close,) = trains.load(DAY, "gold/per_train")["gold/per_train"].days.values()
    assert (close.state, close.checks[rule.name].value) == ("committed", 0.1)
    assert trains.rows("gold/per_train", "seats") == [(11,)]


def test_sums_that_are_further_apart_than_may_be_hold_the_day() -> None:
    rule = reconciles_with("silver/counts", {"seats": ("sum(seats)", "sum(sold)")}, within=0.1)
    day = DayCounts(1, 0, 1, 0, elsewhere={"seats": 10})

    found = [rule.judge(replace(day, measured={"seats": seats})) for seats in (9, 11, 12)]

    assert [verdict.passed for verdict in found] == [True, True, False]
    assert found[-1].found == "seats is 12, silver/counts has 10 (20.00% apart)"


def test_a_sum_that_the_other_table_cannot_give_is_named(lake: Lakes) -> None:
    rule = reconciles_with("silver/bookings", {"seats": ("sum(seats)", "sum(sold)")})
    gold = per_train(*fail(rule))
    trains = lake.copy_of(eleven).with_tables(landed("bookings"), bookings(), gold)

    with pytest.raises(DefinitionError, match="reconciles_with_silver_bookings does not fit"):
        trains.load(DAY, gold.name)
    with pytest.raises(DefinitionError, match="only silver and gold tables have rows by business"):
        reconciles_with("bronze/bookings", {"seats": ("sum(seats)", "sum(sold)")})
    with pytest.raises(DefinitionError, match="'seats' is no aggregate"):
        reconciles_with("silver/bookings", {"seats": ("seats", "sum(sold)")})
    with pytest.raises(DefinitionError, match="give them to a gold table that is rebuilt by day"):
        bookings(*fail(rule))


def test_rows_that_gold_makes_are_judged_before_they_are_published(lake: Lakes) -> None:
    gold = per_train(*fail(satisfies("fits", "seats <= 2"), unique("train")))
    trains = lake.copy_of(eleven).with_tables(landed("bookings"), bookings(), gold)

    (held,) = trains.load(DAY, gold.name)[gold.name].days.values()

    assert (held.state, held.reason) == ("held", "fits: 1 of 1 row failed")
    assert held.checks["fits"].examples == ("train=t1",)
    assert held.checks["train_unique"].passed
    assert trains.rows("gold/per_train", "dt") == []


@pytest.mark.parametrize("write", [ReplaceDay(), Merge()])
def test_rows_that_gold_makes_of_other_days_than_their_facts_are_refused(
    lake: Lakes, write: ReplaceDay | Merge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_or_rebuild, "SMALL_DAY", 0)
    monkeypatch.setattr(merge_or_rebuild, "MERGED_SHARE", 1000)

    def of_day(day: str) -> Table:
        return replace(
            per_train(),
            key=("id",),
            write=write,
            transform=lambda rows: rows.selectExpr(f"{day} AS dt", "id"),
        )

    trains = lake.copy_of(eleven).with_tables(landed("bookings"), bookings(), of_day("dt"))
    trains.load(DAY)
    trains.land("bookings", DAY, "2.jsonl", [booking(id_, id_) for id_ in ("x", "y", "z")])
    wrong = of_day("CASE id WHEN 'x' THEN date_sub(dt, 1) WHEN 'y' THEN null ELSE dt END")
    again = trains.with_tables(landed("bookings"), bookings(), wrong)

    message = "makes 2 rows of 2017-01-04 and no day out of facts of 2017-01-05.*keep the dt"
    with pytest.raises(DefinitionError, match=message):
        again.load(DAY)
    assert len(trains.rows("gold/per_train", "id")) == 11
