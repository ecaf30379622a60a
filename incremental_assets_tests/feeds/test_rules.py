"""Rules of all kinds in the tables of a small lake: what they quarantine, hold and record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.days import parse_day
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import DayResult
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    Rule,
    check,
    distinct_count,
    fail,
    fresh,
    null_share,
    one_of,
    quarantine,
    references,
    row_count,
    satisfies,
    unique,
    usual_row_count,
    warn,
)
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append, Merge, RecomputeKeys, ReplaceDay
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake

DAY = "2017-01-05"


def landed(name: str, *rules: Rule) -> Table:
    return Table(
        name=f"bronze/{name}",
        description="As they landed.",
        reads=(LandedFiles(name),),
        day="at",
        rules=rules,
        write=Append(),
    )


def bookings(*rules: Rule) -> Table:
    """A booking's key is `id`; its seat is nobody else's on that day."""
    return Table(
        name="silver/bookings",
        description="The latest version of each booking.",
        reads=(SameDay(landed("bookings")),),
        key=("id",),
        version_by=("version",),
        day="at",
        schema=Contract(
            id=Text(required=True), seat=Text(), train=Text(), version=Integer(), at=Instant()
        ),
        rules=rules,
        write=Merge(),
    )


def per_train(*rules: Rule) -> Table:
    def transform(rows: DataFrame) -> DataFrame:
        return rows.groupBy("dt", "train").agg(F.count(F.lit(1)).alias("seats"))

    return Table(
        name="gold/per_train",
        description="Seats per train.",
        reads=(SameDay(bookings()),),
        key=("train",),
        rules=rules,
        write=ReplaceDay(),
        transform=transform,
    )


def booking(id_: str, seat: str | None, train: str = "t1", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "seat": seat, "train": train, "version": 1, "at": f"{DAY}T10:00", **fields}


def load(lake: Lake, name: str, day: str = DAY) -> DayResult:
    """Load a day of all tables; what came of it for one of them."""
    return lake.load(day)[name].days[parse_day(day)]


TRAINS = Table(
    name="silver/trains",
    description="Trains.",
    reads=(SameDay(landed("trains")),),
    key=("train",),
    day="at",
    schema=Contract(train=Text(required=True), at=Instant()),
    write=Merge(),
)
THE_DAY = parse_day(DAY)
EARLY, HELD, FEW = "2017-01-04", "2017-01-06", "2017-01-07"


@dataclass(frozen=True)
class Judged:
    """A lake whose bookings are judged by rules of many kinds, and what came of its loads."""

    lake: Lake
    early: Mapping[date, DayResult]
    first: Mapping[date, DayResult]
    then: Mapping[date, DayResult]


@pytest.fixture(scope="module")
def judged(module_lake: Lakes) -> Judged:
    rules = (
        *quarantine(unique("seat"), references("train", "silver/trains")),
        *quarantine(satisfies("odd", "seat != 'x'")),
        *fail(one_of("train", ["t1"]).allowing(share=0.25)),
        *fail(usual_row_count(within=0.5, days=3, min_days=2)),
        *warn(null_share("seat", at_most=0.2, min_rows=1)),
        *warn(distinct_count("train", at_least=2), fresh("at", timedelta(hours=1))),
    )
    made = module_lake(landed("trains"), TRAINS, landed("bookings"), bookings(*rules))
    early = booking("y", "y", at=f"{EARLY}T10:00")
    made.land("bookings", EARLY, "1.jsonl", [early])
    alone = made.load(EARLY, "bronze/bookings", "silver/bookings")["silver/bookings"].days
    trains = [{"train": train, "at": f"{DAY}T01:00"} for train in ("t1", "t2")]
    made.land("trains", DAY, "1.jsonl", trains)
    rows = [booking(id_, id_) for id_ in "abcd"]
    odd = [booking("e", "a"), booking("f", "x"), booking("g", None), booking("h", "h", "t9")]
    made.land("bookings", DAY, "1.jsonl", [*rows, *odd, booking("n", "n", train=None)])
    on = {"at": f"{HELD}T10:00"}
    made.land("bookings", HELD, "1.jsonl", [booking(f"h{n}", f"h{n}", **on) for n in range(4)])
    first = made.load(f"{DAY}...{HELD}")["silver/bookings"].days
    later = [booking("i", "a"), booking("a", "a", version=2), booking("j", "j", "t2")]
    made.land("bookings", DAY, "2.jsonl", [*later, booking("p", "p"), booking("q", "q")])
    bad = [booking("k", "k", "t2", **on), booking("l", "l", "t2", **on)]
    made.land("bookings", HELD, "2.jsonl", bad)
    made.land("bookings", FEW, "1.jsonl", [booking("z", "z", at=f"{FEW}T10:00")])
    then = made.load(f"{DAY}...{FEW}")["silver/bookings"].days
    return Judged(made, alone, first, then)


def test_copies_of_a_value_are_quarantined_within_a_batch_and_against_the_table(
    judged: Judged,
) -> None:
    first, then = (of[THE_DAY].checks["seat_unique"] for of in (judged.first, judged.then))

    assert (first.broken, first.examples) == (1, ("id=e",))
    assert (then.broken, then.rows, then.examples) == (1, 5, ("id=i",))
    found = judged.lake.rows("silver/bookings", "id", "version", "dt")
    of_day = [row[:2] for row in found if row[2] == DAY]
    assert of_day == [("a", 2), *((id_, 1) for id_ in "bcdjnpq")]


def eleven(lake: Lakes) -> Lake:
    made = lake(landed("bookings"), bookings())
    made.land("bookings", DAY, "1.jsonl", [booking(f"{n}", f"{n}") for n in range(11)])
    made.load(DAY)
    return made


def test_a_key_that_another_table_lacks_is_quarantined_until_it_is_there(judged: Judged) -> None:
    early, found = (
        of.checks["train_in_silver_trains"]
        for of in (judged.early[parse_day(EARLY)], judged.first[THE_DAY])
    )

    assert (early.broken, early.rows) == (1, 1)  # that table was not there yet
    assert (found.broken, found.rows, found.examples) == (1, 9, ("id=h",))
    assert ("n",) in judged.lake.rows("silver/bookings", "id")  # it names no train
    assert judged.lake.reasons("silver/bookings").count(("train_in_silver_trains",)) == 2


def test_rows_that_break_more_than_is_allowed_hold_the_day(judged: Judged) -> None:
    passed = judged.then[THE_DAY]
    assert passed.state == "committed"
    assert passed.checks["train_one_of"].examples == ("id=j",)

    held = judged.then[parse_day(HELD)]
    assert held.state == "held"
    assert held.reason == "train_one_of: 2 of 2 rows failed, 25.00% may"
    ids = [id_ for id_, dt in judged.lake.rows("silver/bookings", "id", "dt") if dt == HELD]
    assert ids == ["h0", "h1", "h2", "h3"]


def test_a_day_s_rows_are_measured_as_they_are_counted(judged: Judged) -> None:
    found = judged.first[THE_DAY].checks

    # One row without a seat is quarantined, as well: null meets no condition.
    assert found["odd"].broken == 2
    assert found["seat_null_share"].found.startswith("0 of 5 rows")
    assert found["train_distinct_count"].found == "1 values of train, at least 2 expected"
    assert not found["train_distinct_count"].passed
    assert found["at_fresh"].found == "the newest at is 2017-01-05 10:00, 14.0 h before the end"


def test_a_day_with_unusually_few_rows_is_held(judged: Judged) -> None:
    few = judged.then[parse_day(FEW)]

    assert few.state == "held"
    assert few.reason == "usual_row_count: 1 row, 75% off the 3 days' median of 4"


def test_a_delivery_that_fails_stays_in_the_landing_until_it_is_whole(lake: Lakes) -> None:
    few = row_count(at_least=3)
    trains = lake(landed("bookings", *fail(few)))
    trains.land("bookings", DAY, "1.jsonl", [booking("a", "1")])

    held = load(trains, "bronze/bookings")
    assert (held.state, held.reason) == ("held", "row_count: 1 row, at least 3 expected")
    assert trains.bronze("bronze/bookings", "id") == []
    assert trains.pending_days("bronze/bookings") == []  # nothing new since it was judged

    trains.land("bookings", DAY, "2.jsonl", [booking("b", "2"), booking("c", "3")])
    assert trains.pending_days("bronze/bookings") == [DAY]
    assert load(trains, "bronze/bookings").state == "committed"
    trains.land("bookings", DAY, "3.jsonl", [booking("d", "4")])
    # Late rows are judged with those that are there.
    assert load(trains, "bronze/bookings").state == "committed"
    assert [id_ for _, id_ in trains.bronze("bronze/bookings", "id")] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (quarantine(one_of("colour", ["red"])), r"rule colour_one_of reads \['colour'\]"),
        (quarantine(satisfies("r", "colour = 'red'")), r"rule r reads \['colour'\]"),
        (warn(null_share("colour", 0.1)), r"rule colour_null_share reads \['colour'\]"),
    ],
)
def test_a_rule_on_an_unknown_column_is_refused_at_once(rules: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        bookings(*rules)


def test_rules_that_do_not_fit_the_layer_are_refused() -> None:
    with pytest.raises(DefinitionError, match="made of good ones"):
        per_train(*quarantine(satisfies("fits", "seats <= 2")))
    with pytest.raises(DefinitionError, match="bronze has none but the payload"):
        landed("bookings", *warn(null_share("seat", 0.1)))
    with pytest.raises(DefinitionError, match=r"\['row_count'\] count the rows of a day"):
        replace(per_train(*fail(row_count(1))), write=RecomputeKeys(), sums=None)
    with pytest.raises(DefinitionError, match="every such table has the rules"):
        bookings(*warn(satisfies("values_readable", "seat = '1'")))


@pytest.mark.parametrize("where", ["silver/bookings", "gold/per_train"])
def test_a_rule_that_spark_refuses_is_named_and_nothing_is_published(
    lake: Lakes, where: str
) -> None:
    wrong = fail(check("wrong", lambda: F.col("colour") == "red"))
    silver = bookings(*(wrong if where == "silver/bookings" else ()))
    gold = replace(per_train(*wrong), reads=(SameDay(silver),))
    trains = lake.copy_of(eleven).with_tables(landed("bookings"), silver, gold)
    trains.land("bookings", DAY, "1.jsonl", [booking("repaired", "1")])
    before = trains.rows(where, "dt")

    with pytest.raises(DefinitionError, match=r"Rule wrong does not fit the table: .*colour"):
        trains.load(DAY)

    assert trains.rows(where, "dt") == before


def test_of_equal_rows_without_a_key_one_stays(lake: Lakes) -> None:
    every = replace(bookings(*quarantine(unique("seat"))), key=(), version_by=(), write=Append())
    trains = lake(landed("bookings"), every)
    trains.land(
        "bookings", DAY, "1.jsonl", [booking("a", "1"), booking("a", "1"), booking("b", "2")]
    )
    load(trains, "silver/bookings")
    trains.land("bookings", DAY, "2.jsonl", [booking("c", "2"), booking("d", "3")])
    load(trains, "silver/bookings")

    assert trains.rows("silver/bookings", "seat") == [("1",), ("2",), ("3",)]
    assert trains.reasons("silver/bookings") == [("seat_unique",), ("seat_unique",)]

    # A replay tries as many of equal lines as are in quarantine; the others are in the table.
    day = parse_day(DAY)
    trains.lakehouse.replay(every, [day], "")
    assert trains.reasons("silver/bookings") == [("seat_unique",), ("seat_unique",)]
    without = replace(every, rules=())
    trains.with_tables(trains.tables["bronze/bookings"], without).lakehouse.replay(
        without, [day], ""
    )
    assert trains.rows("silver/bookings", "id") == [("a",), ("a",), ("b",), ("c",), ("d",)]
    assert trains.reasons("silver/bookings") == []


def test_a_frozen_contract_holds_a_day_with_other_fields_until_they_are_declared(
    lake: Lakes,
) -> None:
    open_to_new = bookings()
    assert open_to_new.schema is not None
    columns = dict(open_to_new.schema.columns)
    frozen = replace(open_to_new, schema=Contract(on_new_column="freeze", **columns))
    trains = lake(landed("bookings"), frozen)
    trains.land("bookings", DAY, "1.jsonl", [booking("a", "1")])
    trains.land("bookings", DAY, "2.jsonl", [booking("b", "2", Seat="3", meal="none")])

    held = load(trains, "silver/bookings")

    message = (
        "fields_declared: 2 fields that nobody declared: Seat (declared as seat), meal; declare"
    )
    assert held.reason.startswith(message)
    assert trains.rows("silver/bookings", "id") == []
    declared = replace(frozen, schema=Contract(on_new_column="freeze", **columns, meal=Text()))
    trains.land("bookings", DAY, "2.jsonl", [booking("b", "2", meal="none")])
    again = trains.with_tables(landed("bookings"), declared)
    assert load(again, "silver/bookings").state == "committed"
    assert again.rows("silver/bookings", "id", "meal") == [("a", None), ("b", "none")]
