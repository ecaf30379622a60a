"""Days that are rebuilt on purpose, with all that depends on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.days import parse_days
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.operations.restate import restate
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import between, quarantine
from incremental_assets.quality.types import Instant, Integer
from incremental_assets.retail.gold.inventory_levels import INVENTORY_LEVELS
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge, RecomputeKeys
from incremental_assets_tests.feeds import test_keys as keys
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rewind import DAY, NEXT, back, content, station
from incremental_assets_tests.feeds.test_rules import booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

__all__ = ["station"]


def again(lake: Lake, days: str, *names: str) -> dict[str, TableLoadResult]:
    tables = [lake.tables[name] for name in names]
    found = restate(lake.lakehouse, tables, list(parse_days(days)), "the code was wrong")
    return {result.table: result for result in found}


def test_a_day_is_rebuilt_with_what_depends_on_it_and_no_other_day(station: Lake) -> None:
    station.land("bookings", DAY, "2.jsonl", [{"id": "e", "version": 1, "at": f"{DAY}T11:00"}])
    station.load(DAY, "bronze/bookings", "silver/bookings")
    before = content(station)
    files = {name: _files(station, name) for name in ("silver/bookings", "gold/per_train")}
    assert station.stale() == {"gold/per_train": [DAY]}

    results = again(station, f"{NEXT}...2017-01-09", "silver/bookings")

    assert list(results) == ["silver/bookings", "gold/per_train"]
    for name, result in results.items():  # a day that was never loaded is left out
        assert list(result.days) == [date(2017, 1, 6)]
        assert states({name: result}, name) == ["committed"]
        assert _files(station, name)[DAY] == files[name][DAY]
        assert _files(station, name)[NEXT] != files[name][NEXT]
    assert content(station) == before
    # A day that was stale for another reason is left to a run.
    assert station.stale() == {"gold/per_train": [DAY]}


def test_a_day_that_was_never_loaded_is_refused(station: Lake) -> None:
    results = again(station, "2017-01-09", "silver/bookings")

    assert "it was never loaded" in results["silver/bookings"].days[date(2017, 1, 9)].reason


def test_levels_of_later_days_go_on_from_what_was_restated(lake: Lakes) -> None:
    made = lake.copy_of(keys.three_days_of_stock)
    wrong = replace(INVENTORY_LEVELS, transform=_one_too_many)
    before = made.rows("gold/inventory_levels", *keys.LEVELS)
    broken = made.with_tables(*keys.tables_of(wrong))
    again(broken, "2017-01-05", "gold/inventory_levels")
    assert made.rows("gold/inventory_levels", *keys.LEVELS) != before

    results = again(made, "2017-01-05", "gold/inventory_levels")

    assert list(results["gold/inventory_levels"].days) == [date(2017, 1, 5)]
    assert made.rows("gold/inventory_levels", *keys.LEVELS) == before


def test_a_row_that_the_code_no_longer_makes_goes(lake: Lakes) -> None:
    made = lake.copy_of(keys.three_days_of_stock)
    assert isinstance(INVENTORY_LEVELS.write, RecomputeKeys)
    fewer = replace(INVENTORY_LEVELS, transform=_without_the_fifth, rules=(), sums=None)
    later = made.with_tables(*keys.tables_of(fewer))

    again(later, "2017-01-05", "gold/inventory_levels")

    assert {row[0] for row in made.rows("gold/inventory_levels", "dt")} == {NEXT, "2017-01-07"}


def test_keys_that_left_a_restated_day_are_computed_again(lake: Lakes) -> None:
    def seats(rows: DataFrame) -> DataFrame:
        return rows.groupBy("train").agg(F.max("dt").alias("dt"), F.count(F.lit(1)).alias("seats"))

    of_all_days = replace(per_train(), write=RecomputeKeys(), transform=seats)
    station = lake(landed("bookings"), bookings(), of_all_days)
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1", "t1"), booking("b", "2", "t2")])
    station.land("bookings", NEXT, "1.jsonl", [booking("c", "3", "t1", at=f"{NEXT}T10:00")])
    station.load(f"{DAY}...{NEXT}")
    found = station.rows("gold/per_train", "train", "dt", "seats")
    assert found == [("t1", NEXT, 2), ("t2", DAY, 1)]

    # The row of t1 is on the next day, and nothing of the day is of t1 any more.
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1", "t2"), booking("b", "2", "t2")])
    station.load(DAY, "bronze/bookings", "silver/bookings")
    again(station, DAY, "gold/per_train")

    assert station.stale() == {}
    assert station.rows("gold/per_train", "train", "seats") == [("t1", 1), ("t2", 2)]


def test_a_day_whose_bronze_is_gone_is_not_emptied(station: Lake) -> None:
    before = content(station)
    DeltaTable(station.path("bronze/bookings")).delete("_day = '2017-01-06'")

    restated = again(station, f"{DAY}...{NEXT}", "silver/bookings")
    back(station, "silver/bookings")
    rewound = station.load(f"{DAY}...{NEXT}", "silver/bookings")

    for results in (restated, rewound):
        assert states(results, "silver/bookings") == ["committed", "refused"]
        reason = results["silver/bookings"].days[date(2017, 1, 6)].reason
        assert "bronze/bookings has no rows of it any more, and had 2 after batch 2" in reason
    after = content(station)
    assert (after["silver"], after["gold"]) == (before["silver"], before["gold"])


def test_what_cannot_be_restated_is_refused(station: Lake) -> None:
    refused = [
        (("bronze/bookings",), "x", "bronze keeps what landed"),
        (("silver/bookings",), " ", "needs a reason"),
        ((), "x", "needs a table"),
    ]
    for names, why, message in refused:
        tables = [station.tables[name] for name in names]
        with pytest.raises(DefinitionError, match=message):
            list(restate(station.lakehouse, tables, [date(2017, 1, 5)], why))


def _files(lake: Lake, name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for uri in DeltaTable(lake.path(name)).file_uris():
        folder, _, file = uri.rpartition("/")
        found.setdefault(folder.rpartition("dt=")[2], set()).add(file)
    return found


def _one_too_many(rows: DataFrame, opening: DataFrame) -> DataFrame:
    assert INVENTORY_LEVELS.transform is not None
    return INVENTORY_LEVELS.transform(rows, opening).selectExpr(
        "* EXCEPT (level)", "level + 1 AS level"
    )


def _without_the_fifth(rows: DataFrame, opening: DataFrame) -> DataFrame:
    assert INVENTORY_LEVELS.transform is not None
    return INVENTORY_LEVELS.transform(rows, opening).where("dt <> '2017-01-05'")


@thorough(
    "feeds/test_restate.py, feeds/test_gate_of_other_days.py: one day, and the gates of others"
)
def test_what_another_day_has_published_stays_whatever_the_rules_of_today_say(
    lake: Lakes,
) -> None:
    bronze = Table(
        name="bronze/goods", description="…", reads=(LandedFiles("goods"),), write=Append()
    )
    merged = Table(
        name="silver/goods",
        description="…",
        reads=(SameDay(bronze),),
        key=("id",),
        version_by=("at",),
        schema=Contract(id=Integer(), n=Integer(), at=Instant()),
        write=Merge(),
    )
    history = replace(merged, name="silver/versions", write=SCD2())
    goods = lake(bronze, merged, history)
    goods.land("goods", DAY, "1.jsonl", [{"id": n, "n": 5, "at": DAY} for n in (1, 2)])
    goods.land("goods", NEXT, "1.jsonl", [{"id": n, "n": 50, "at": NEXT} for n in (1, 3)])
    goods.load(f"{DAY}...{NEXT}")
    names = ("silver/goods", "silver/versions")
    before = [goods.rows(name, "dt", "id", "n") for name in names]

    rules = quarantine(between("n", 0, 10))
    strict = goods.with_tables(bronze, *(replace(t, rules=rules) for t in (merged, history)))
    again(strict, DAY, *names)

    assert [goods.rows(name, "dt", "id", "n") for name in names] == before
    for rows in before:
        assert [row[1:] for row in rows if row[0] == NEXT] == [(1, 50), (3, 50)]
    again(strict, f"{DAY}...{NEXT}", *names)
    for name in names:
        assert goods.rows(name, "id", "n") == [(1, 5), (2, 5)]
