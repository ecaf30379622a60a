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
from incremental_assets.retail.gold.inventory_levels import INVENTORY_LEVELS
from incremental_assets.writes import RecomputeKeys
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
