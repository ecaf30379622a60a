"""Rows that a column marks as deleted: by a timestamp, in a log without operations, by loaders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog, Timestamp
from incremental_assets.changes.soft_deletes import is_marked
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.loaders import CDCLoader, TimestampBasedLoader
from incremental_assets.loaders.target import Target
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table, TableInput
from incremental_assets.verifying.verify import verify
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, at
from incremental_assets_tests.thorough import thorough

DAYS, HISTORY = "2017-01-05...2017-01-08", "silver/history"


def tables(
    read: TableInput, changes: Timestamp | ChangeLog, write: Merge | SCD2
) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/users",
        description="Users as the shop's table has them.",
        reads=(read,),
        changes=changes,
        write=Append(),
    )
    silver = Table(
        name="silver/users",
        description="The users that are there.",
        reads=(SameDay(bronze),),
        key=("id",),
        schema=Contract(id=Integer(required=True), name=Text(required=True), updated_at=Instant()),
        write=write,
    )
    return bronze, silver


def users(*rows: tuple[int, str | None, str | None, Any]) -> pl.DataFrame:
    """Id, name, time of the change and the marker."""
    return pl.DataFrame(
        {
            "id": [row[0] for row in rows],
            "name": [row[1] for row in rows],
            "updated_at": [at(row[2]) for row in rows],
            "deleted_at": [at(row[3]) if row[3] else None for row in rows],
        },
        schema_overrides={
            "name": pl.String,
            "updated_at": pl.Datetime("us", "UTC"),
            "deleted_at": pl.Datetime("us", "UTC"),
        },
    )


def by_timestamp(lake: Lakes) -> Lake:
    changes = Timestamp("updated_at", nulls="include", deleted="deleted_at")
    bronze, merged = tables(Stored("users"), changes, Merge())
    return lake(bronze, merged, replace(merged, name=HISTORY, write=SCD2()))


# Each user before and after the second load.
BEFORE = (
    (1, "A", "05 11:00", None),
    (2, "B", "05 11:00", "05 11:00"),
    (3, "C", "05 11:00", "05 11:00"),
    (4, "D", "07 10:00", "07 10:00"),
    (5, "E", "05 10:00", None),
    (6, "F", None, None),
)
AFTER = (
    (1, None, "05 11:00", "05 11:00"),  # which may lack what a live row must have
    (2, "B", "05 11:00", None),  # in the instant of its delete
    (3, "C2", "06 11:00", None),
    (4, "D", "06 10:00", None),
    (5, "E", "07 10:00", "07 10:00"),
    (6, "F", None, None),
)


def two_loads(lake: Lakes) -> Lake:
    shop = by_timestamp(lake)
    for rows in (BEFORE, AFTER):
        shop.put_delta("users", users(*rows))
        shop.load("2017-01-05...2017-01-10")
    return shop


def test_a_marked_row_is_deleted_stays_so_and_may_come_back(lake: Lakes) -> None:
    shop = lake.copy_of(two_loads)
    # Neither a row of the instant of the delete, nor an older one brings a user back.
    assert shop.rows("silver/users", "id", "name") == [(3, "C2")]
    before = shop.versions()
    shop.load("2017-01-05...2017-01-10")
    assert shop.versions() == before
    assert verify(shop.lakehouse, shop.tables["silver/users"]).equal


def test_a_history_ends_with_the_mark(lake: Lakes) -> None:
    shop = lake.copy_of(two_loads)
    found = shop.rows(HISTORY, "id", "name", "valid_from", "valid_to", "is_current")
    assert [row for row in found if row[0] in (3, 5)] == [
        (3, "C2", "01-06 11:00", None, True),
        (5, "E", "01-05 10:00", "01-07 10:00", False),
    ]


def test_a_row_without_its_timestamp_is_quarantined_in_silver(lake: Lakes) -> None:
    shop = lake.copy_of(two_loads)
    for name in ("silver/users", HISTORY):
        assert shop.reasons(name) == [("updated_at_null",)]
    assert verify(shop.lakehouse, shop.tables["bronze/users"]).equal  # where it has no day


def test_a_source_without_the_marker_is_an_error(lake: Lakes) -> None:
    shop = by_timestamp(lake)
    shop.put_delta("users", users((1, "A", "05 10:00", None)).drop("deleted_at"))

    with pytest.raises(SourceError, match="has no column 'deleted_at'"):
        shop.load(DAYS)


def test_landed_rows_are_a_log_by_their_time_and_their_mark(lake: Lakes) -> None:
    changes = ChangeLog(sequence="updated_at", deleted="is_deleted", time="updated_at")
    shop = lake(*tables(LandedFiles("users"), changes, SCD2(valid_time="event")))

    def row(number: int, name: str, time: str, **marks: Any) -> dict[str, Any]:
        return {"id": number, "name": name, "updated_at": f"2017-01-{time}:00Z", **marks}

    shop.land("users", "2017-01-06", "1.jsonl", [row(1, "A", "05 10:00"), row(2, "B", "05 10:00")])
    late = [row(2, "B", "04 10:00", is_deleted=False), row(1, "A", "06 10:00", is_deleted=True)]
    shop.land("users", "2017-01-07", "1.jsonl", late)
    shop.load(DAYS)

    assert verify(shop.lakehouse, shop.tables["silver/users"]).equal
    assert shop.rows("silver/users", "name", "updated_at", "valid_to", "is_current") == [
        ("A", "01-05 10:00", "01-06 10:00", False),
        ("B", "01-04 10:00", "01-05 10:00", False),
        ("B", "01-05 10:00", None, True),
    ]


@thorough("feeds/test_soft_deletes.py: a lake's tables, by the same engine")
def test_loaders_delete_what_is_marked(spark: SparkSession, tmp_path: Path) -> None:
    def put(*rows: tuple[int, str | None, str, Any]) -> None:
        users(*rows).write_parquet(tmp_path / "users" / "1.parquet")

    by_time = TimestampBasedLoader(spark).target(
        tmp_path / "users",
        tmp_path / "target",
        tmp_path / "marks",
        "updated_at",
        "users",
        primary_key="id",
        deleted_column="deleted_at",
    )

    def load() -> tuple[int, int, int]:
        done = by_time.load()
        return done.records_inserted, done.records_updated, done.records_deleted

    (tmp_path / "users").mkdir()
    put((1, "A", "05 10:00", None), (2, "B", "05 11:00", None), (3, "C", "05 11:00", "05 11:00"))
    assert load() == (2, 0, 0)
    put((1, "A", "06 10:00", "06 10:00"), (2, "B2", "06 10:00", None))
    assert [load(), load()] == [(0, 1, 1), (0, 0, 0)]
    assert pl.read_delta(str(tmp_path / "target")).select("id", "name").rows() == [(2, "B2")]
    assert by_time.verify().equal

    log = tmp_path / "log"
    log.mkdir()
    events = [
        {"id": 1, "qty": 5, "at": 1, "gone": 0},
        {"id": 2, "qty": 7, "at": 1, "gone": "0"},
        {"id": 3, "qty": 9, "at": 1, "gone": 0},
        {"id": 1, "qty": 5, "at": 2, "gone": 1},
    ]
    flat = CDCLoader(spark).target(
        log,
        tmp_path / "flat",
        tmp_path / "marks",
        "id",
        "flat",
        sequence_column="at",
        deleted_column="gone",
    )
    # What a marked row holds besides its key and its position does not matter.
    further = [
        {"id": 3, "qty": "n/a", "at": 2, "gone": 1},
        {"id": 2, "qty": 7, "at": "n/a", "gone": 1},
    ]
    for name, lines, quarantined in (("1.json", events, 0), ("2.json", further, 1)):
        (log / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert flat.load().records_quarantined == quarantined
    assert pl.read_delta(str(tmp_path / "flat")).select("id", "at", "gone").rows() == [(2, 1, "0")]

    with pytest.raises(DefinitionError, match="brings deletes, so it needs"):
        TimestampBasedLoader(spark).load_incremental(
            tmp_path / "users",
            tmp_path / "appended",
            tmp_path / "marks",
            "updated_at",
            "appended",
            deleted_column="deleted_at",
        )


def test_what_marks_a_row_as_deleted(spark: SparkSession) -> None:
    marks = {
        False: [
            *(None, "", " ", "\t", "false", "FALSE", "fAlse", "False\r\n", "f", "no", "N", "off"),
            *("0", "0.00", "-0", ".0", "0E-10", "0.0e0", " 0\u00a0"),
        ],
        True: [
            "true",
            "t",
            "yes",
            "1",
            "2017-01-05 10:00:00",
            "00:00:00",
            "deleted",
            "10",
            "0.1",
            "on",
        ],
    }
    rows = spark.createDataFrame([(m,) for some in marks.values() for m in some], "mark string")

    found = rows.withColumn("marked", is_marked(F.col("mark"))).collect()

    assert {row["mark"]: row["marked"] for row in found} == {
        mark: marked for marked, some in marks.items() for mark in some
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChangeLog(deleted="gone", operations={"erase": "delete"}),
        lambda: ChangeLog("kind", deleted="gone"),
        lambda: ChangeLog("", "", envelope="debezium", deleted="gone"),
    ],
)
def test_a_log_has_operations_or_marks(make: Any) -> None:
    with pytest.raises(DefinitionError, match="for rows without an operation, and this log has"):
        make()


def test_the_column_of_the_order_marks_no_rows() -> None:
    for make in (Timestamp("at"), ChangeLog(sequence="at")):
        with pytest.raises(DefinitionError, match="so every row would be deleted"):
            replace(make, deleted="at")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", marks=thorough("feeds/test_soft_deletes.py: one that began with a mark")),
        "deleted_at",
    ],
)
def test_a_target_does_not_begin_or_cease_to_be_loaded_by_a_mark(
    spark: SparkSession, tmp_path: Path, before: str
) -> None:
    def target(deleted: str) -> Target:
        paths = (tmp_path / name for name in ("users", "target", "marks"))
        return TimestampBasedLoader(spark).target(
            *paths, "updated_at", "users", primary_key="id", deleted_column=deleted
        )

    def put(*rows: tuple[int, str | None, str, Any]) -> None:
        users(*rows).write_parquet(tmp_path / "users" / "1.parquet")

    (tmp_path / "users").mkdir()
    put((1, "A", "05 10:00", None), (2, "B", "05 10:00", "05 10:00"))
    target(before).load()
    other = "" if before else "deleted_at"
    put((1, "A2", "06 10:00", None), (2, "B", "05 10:00", "05 10:00"))

    for act in (Target.load, Target.verify):
        with pytest.raises(DefinitionError, match="a column that marks rows as deleted"):
            act(target(other))

    target(before).load()
    there = pl.read_delta(str(tmp_path / "target"))["name"].to_list()
    assert sorted(there) == (["A2"] if before else ["A2", "B"])


def test_a_log_of_envelopes_takes_no_mark(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="for rows without an operation"):
        CDCLoader(spark).target(
            *(tmp_path / name for name in ("log", "flat", "marks")),
            "id",
            "flat",
            cdc_format="debezium",
            deleted_column="gone",
        )
