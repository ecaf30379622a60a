"""Layouts of a feed: landing days by paths or by arrival, and files that wait."""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets import fail, rows_delivered
from incremental_assets.changes import SnapshotDiff
from incremental_assets.errors import DefinitionError
from incremental_assets.operations.retract import retractions_of
from incremental_assets.plan.unread import unread
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table
from incremental_assets.testing import Lake, assert_survives
from incremental_assets.writes import Append
from incremental_assets_tests.feeds.test_formats import (
    FIRST,
    SECOND,
    as_csv,
    as_parquet,
    of,
    tables,
)
from incremental_assets_tests.thorough import thorough


def test_layouts_give_landing_days_and_columns_of_folders(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = LandedFiles("sales", format="parquet", layout="region=*/dt=%Y-%m-%d/%H/")
    bronze = Table("bronze/sales", "", reads=(feed,), write=Append())
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    for region, day, hour in (
        ("north", FIRST, "00"),
        ("south", FIRST, "23"),
        ("north", SECOND, "07"),
    ):
        folder = tmp_path / f"landing/sales/region={region}/dt={day}/{hour}"
        folder.mkdir(parents=True)
        as_parquet(folder / "part 0.parquet", [of(1, day)])

    lake.load(bronze, "2024-05-01...2024-05-02")

    found = lake.rows(bronze, "_landing_day", "payload").sort("_landing_day", "payload")
    assert [
        (day, json.loads(payload)["region"], "dt" in json.loads(payload))
        for day, payload in found.rows()
    ] == [(FIRST, "north", False), (FIRST, "south", False), (SECOND, "north", False)]


def test_files_of_one_folder_are_of_the_day_on_which_they_came_also_once_they_are_repaired(
    spark: SparkSession, tmp_path: Path
) -> None:
    bronze, silver = both = tables(LandedFiles("orders", format="csv", layout="*.csv"))
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    folder = tmp_path / "landing/orders"
    folder.mkdir(parents=True)
    names = [f"a%20b+c#{number} é.csv" for number in (1, 2)]
    for name, day in zip(names, (FIRST, SECOND), strict=True):
        as_csv(folder / name, [of(day.day, day), of(day.day + 10, day)])
        moment = datetime(day.year, day.month, day.day, 23, tzinfo=UTC).timestamp()
        os.utime(folder / name, (moment, moment))

    def landed() -> list[tuple[Any, ...]]:
        lake.run(both)
        rows = lake.rows(bronze, "_landing_day", "_file").rows()
        return sorted((day, path.removeprefix("orders/")) for day, path in rows)

    first, second = ((FIRST, names[0]), (SECOND, names[1]))
    assert landed() == [first, first, second, second]
    as_csv(folder / names[0], [of(1, FIRST, 2.5)])  # repaired today, and one row less
    assert landed() == [first, second, second]
    assert sorted(lake.rows(silver, "id", "amount").rows()) == [
        (1, Exact("2.5")),
        (2, Exact("1.5")),
        (12, Exact("1.5")),
    ]
    assert [path for _, path in landed()] == [names[0], names[1], names[1]]

    (folder / names[1]).unlink()
    lakehouse = lake.lakehouse(both)
    (retraction,) = retractions_of(
        [f"orders/{names[1]}"], both, lakehouse.settle(bronze), lake.settings
    )
    assert retraction.paths == {SECOND: {f"orders/{names[1]}"}}


def test_a_snapshot_waits_until_all_of_its_files_are_quiet(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = LandedFiles("stock", quiet_for=timedelta(minutes=10))
    bronze = Table(
        "bronze/stock",
        "",
        reads=(feed,),
        changes=SnapshotDiff(("id",), max_deleted_share=1.0),
        write=Append(),
    )
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    then = time.time() - 3600
    for day in (FIRST, SECOND):
        for number in (1, 2):
            path = lake.land("stock", day, [{"id": number}], f"{number}.json")
            if (day, number) != (SECOND, 2):
                os.utime(path, (then, then))

    lake.load(bronze, [FIRST, SECOND])

    assert set(lake.rows(bronze, "_operation")["_operation"]) == {"insert"}
    assert any("1 file waits: stock/2024-05-02/2.json (it was modified" in x for x in lake.log)


def test_what_waits_is_still_landed(spark: SparkSession, tmp_path: Path) -> None:
    feed = LandedFiles("sales", marker="_SUCCESS")
    bronze = Table("bronze/sales", "", reads=(feed,), write=Append())
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    path = lake.land("sales", FIRST, [{"id": 1}], "a.json")
    lake.load(bronze, FIRST)
    assert lake.rows(bronze).is_empty()
    (path.parent / "_SUCCESS").touch()
    lake.load(bronze, FIRST)
    assert len(lake.rows(bronze, "payload")) == 1
    (path.parent / "_SUCCESS").unlink()

    lakehouse = lake.lakehouse(bronze)
    with pytest.raises(DefinitionError, match="still in the landing"):
        retractions_of([f"sales/{FIRST}/a.json"], [bronze], lakehouse.settle(bronze), lake.settings)


def test_a_layout_that_gives_a_loaded_file_another_day_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    lake.land("sales", FIRST, [{"id": 1}], "sales_20240502.json")
    swapped = lake.land("sales", "2024-06-05", [{"id": 2}], "a.json")
    steps = (
        ("%Y-%m-%d/", False, date(2024, 6, 5)),
        ("%Y-%d-%m/", True, date(2024, 5, 6)),
        ("*/sales_%Y%m%d.json", False, SECOND),
    )
    for layout, refused, day in steps:
        if layout.startswith("*"):
            swapped.unlink()
        feed = LandedFiles("sales", layout=layout)
        bronze = Table("bronze/sales", "", reads=(feed,), write=Append())
        with pytest.raises(DefinitionError, match="twice") if refused else nullcontext():
            lake.load(bronze, day)
    assert len(lake.rows(bronze, "payload")) == 2


def test_a_day_that_was_held_is_loaded_by_its_layout_once_it_is_repaired(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=FIRST)
    feed = LandedFiles("sales", format="csv", layout="sales_%Y%m%d.csv")
    bronze = Table("bronze/sales", "", reads=(feed,), write=Append(), rules=fail(rows_delivered()))
    file = tmp_path / "landing/sales/sales_20240501.csv"
    file.parent.mkdir(parents=True)
    file.write_text("id,name\n")
    assert list(lake.load(bronze, FIRST)["bronze/sales"].failed) == [FIRST]

    file.write_text("id,name\n1,x\n")
    lake.load(bronze, FIRST)

    assert len(lake.rows(bronze, "payload")) == 1


@pytest.mark.parametrize(
    "layout",
    [
        "*.csv",
        pytest.param(
            "orders_%Y%m%d.csv",
            marks=thorough("feeds/test_layouts.py: days by arrival, which the ledger tells"),
        ),
    ],
)
def test_days_of_a_layout_survive_a_load_that_is_killed_after_each_write(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    bronze, _ = tables(LandedFiles("orders", format="csv", layout=layout))
    lake = Lake(spark, tmp_path / "lakehouse")
    lake.settings = lake.settings.replace(start_date=FIRST)
    folder = Path(lake.settings.landing) / "orders"
    folder.mkdir(parents=True)
    for day in (FIRST, SECOND):
        file = folder / f"orders_{day:%Y%m%d}.csv"
        as_csv(file, [of(day.day, day), of(day.day + 10, day), of(day.day + 10, day)])
        moment = datetime(day.year, day.month, day.day, 23, tzinfo=UTC).timestamp()
        os.utime(file, (moment, moment))
    lake.lakehouse(bronze)

    assert_survives(lake, lambda killed: killed.load(bronze, [FIRST, SECOND]))


def test_what_a_layout_passes_over_is_named(spark: SparkSession, tmp_path: Path) -> None:
    feed = LandedFiles("sales", format=Csv(delimiter="\t"), layout="*/sales_%Y%m%d.tsv")
    bronze = Table("bronze/sales", "", reads=(feed,), write=Append())
    lake = Lake(spark, tmp_path)
    folder = Path(lake.settings.landing) / "sales/north"
    folder.mkdir(parents=True)
    for path in ("sales_20240501.tsv", "read-me.txt", "../sales_20240501.tsv"):
        (folder / path).touch()

    (note,) = unread([bronze], lake.settings)

    assert "does not read north/read-me.txt, sales_20240501.tsv in " in note
    assert note.endswith("as */sales_%Y%m%d.tsv, such as sales/a/sales_20170105.tsv.")
    landing = lake.settings.landing
    assert feed.notes(landing, [SourceFile("sales/north/sales_20240501.tsv", 1)]) == []
    (other,) = feed.notes(landing, [SourceFile("sales/north/a.parquet", 1)])
    assert "read as CSV" in other
