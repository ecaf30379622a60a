"""Days that are rebuilt on purpose, with all that depends on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

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
from incremental_assets.writes import SCD2, Append, Merge, RecomputeKeys, WriteStrategy
from incremental_assets_tests.feeds import test_keys as keys
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rewind import DAY, NEXT, content, station
from incremental_assets_tests.feeds.world import Lake, states

__all__ = ["station"]


def again(lake: Lake, days: str, *names: str) -> dict[str, TableLoadResult]:
    tables = [lake.tables[name] for name in names]
    found = restate(lake.lakehouse, tables, list(parse_days(days)), "the code was wrong")
    return {result.table: result for result in found}


def test_a_day_is_rebuilt_with_what_depends_on_it_and_no_other_day(station: Lake) -> None:
    before = content(station)
    files = {name: _files(station, name) for name in ("silver/bookings", "gold/per_train")}

    results = again(station, NEXT, "silver/bookings")

    assert list(results) == ["silver/bookings", "gold/per_train"]
    for name, result in results.items():
        assert list(result.days) == [date(2017, 1, 6)]
        assert states({name: result}, name) == ["committed"]
        assert _files(station, name)[DAY] == files[name][DAY]
        assert _files(station, name)[NEXT] != files[name][NEXT]
    assert content(station) == before
    assert station.stale() == {}


def test_days_that_were_stale_for_another_reason_are_left_to_a_run(station: Lake) -> None:
    station.land("bookings", DAY, "2.jsonl", [{"id": "e", "version": 1, "at": f"{DAY}T11:00"}])
    station.load(DAY, "bronze/bookings", "silver/bookings")
    assert station.stale() == {"gold/per_train": [DAY]}

    results = again(station, NEXT, "silver/bookings")

    assert list(results["gold/per_train"].days) == [date(2017, 1, 6)]
    assert station.stale() == {"gold/per_train": [DAY]}


def test_levels_of_later_days_go_on_from_what_was_restated(lake: Lakes) -> None:
    made = lake.copy_of(keys.three_days_of_stock)
    wrong = replace(INVENTORY_LEVELS, transform=_one_too_many)
    before = made.rows("gold/inventory_levels", *keys.LEVELS)
    broken = made.with_tables(*keys.tables_of(wrong))
    again(broken, "2017-01-05...2017-01-07", "gold/inventory_levels")
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


def test_a_day_whose_bronze_is_gone_is_not_emptied(station: Lake) -> None:
    before = content(station)
    DeltaTable(station.path("bronze/bookings")).delete("_day = '2017-01-06'")

    results = again(station, f"{DAY}...{NEXT}", "silver/bookings")

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


def test_a_day_that_was_never_loaded_is_refused_and_among_others_left_out(station: Lake) -> None:
    some = again(station, f"{DAY}...2017-01-09", "silver/bookings")
    assert [str(day) for day in some["silver/bookings"].days] == [DAY, NEXT]

    results = again(station, "2017-01-09", "silver/bookings")

    assert "it was never loaded" in results["silver/bookings"].days[date(2017, 1, 9)].reason


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


@pytest.mark.parametrize("write", [Merge(), SCD2()], ids=["merge", "history"])
def test_what_another_day_has_published_stays_whatever_the_rules_of_today_say(
    lake: Lakes, write: WriteStrategy
) -> None:
    bronze = Table(
        name="bronze/goods", description="…", reads=(LandedFiles("goods"),), write=Append()
    )
    silver = Table(
        name="silver/goods",
        description="…",
        reads=(SameDay(bronze),),
        key=("id",),
        version_by=("at",),
        schema=Contract(id=Integer(), n=Integer(), at=Instant()),
        write=write,
    )
    goods = lake(bronze, silver)
    goods.land("goods", DAY, "1.jsonl", [{"id": n, "n": 5, "at": DAY} for n in (1, 2)])
    goods.land("goods", NEXT, "1.jsonl", [{"id": n, "n": 50, "at": NEXT} for n in (1, 3)])
    goods.load(f"{DAY}...{NEXT}")
    before = goods.rows("silver/goods", "dt", "id", "n")

    strict = goods.with_tables(bronze, replace(silver, rules=quarantine(between("n", 0, 10))))
    again(strict, DAY, "silver/goods")

    assert goods.rows("silver/goods", "dt", "id", "n") == before
    assert [row[1:] for row in before if row[0] == NEXT] == [(1, 50), (3, 50)]
    again(strict, f"{DAY}...{NEXT}", "silver/goods")
    assert [row[1:] for row in goods.rows("silver/goods", "dt", "id", "n")] == [(1, 5), (2, 5)]
