"""A null in any part of a key: the row is quarantined, however the table is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog, SnapshotDiff
from incremental_assets.engine import typed as typed_module
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import not_null, warn
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge, RecomputeKeys
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import states
from incremental_assets_tests.thorough import thorough

DAY, NEXT = "2017-01-05", "2017-01-06"
KEY = ("id", "part")


def landed(name: str, **more: Any) -> Table:
    return Table(f"bronze/{name}", "", (LandedFiles(name),), Append(), **more)


def silver(name: str, bronze: Table, write: Merge | SCD2 = Merge(), **more: Any) -> Table:
    contract = Contract(id=Integer(), part=Text(), name=Text(), at=Instant())
    more = {"key": KEY, "schema": contract} | more
    return Table(f"silver/{name}", "", (SameDay(bronze),), write, **more)


def rows_tables() -> tuple[Table, ...]:
    """Tables of plain rows, written in each way that looks a key up."""
    rows = landed("rows")
    by_day = landed("rows_by_day", day="at")
    by_day = replace(by_day, reads=(LandedFiles("rows"),))
    return (
        rows,
        by_day,
        silver("merged", rows, version_by=("at",), rules=warn(not_null("part"))),
        silver("kept", rows, SCD2(), version_by=("at",)),
        silver("by_day", by_day, version_by=("at",), day="at"),
    )


ROWS = ("silver/merged", "silver/kept", "silver/by_day")


def row(id_: int | None, part: str | None, name: str, hour: int = 10) -> dict[str, Any]:
    return {"id": id_, "part": part, "name": name, "at": f"{DAY}T{hour}:00:00Z"}


BAD = [row(1, None, "no part"), row(None, "x", "no id"), row(None, None, "neither")]
WHY = [("id_not_null",), ("id_not_null", "part_not_null"), ("part_not_null",)]


def _without_part(rows: DataFrame) -> DataFrame:
    return rows.withColumn("part", F.when(F.col("name") != "lost", F.col("part")))


def _by_name(rows: DataFrame) -> DataFrame:
    return _without_part(rows).groupBy("id", "part").agg(F.max("dt").alias("dt"))


def test_rows_with_a_null_in_their_key_are_quarantined_also_when_they_come_again(
    lake: Lakes,
) -> None:
    tables = rows_tables()
    facts = SameDay(tables[-1])
    merged = Table("gold/merged", "", (facts,), Merge(), key=KEY, transform=_without_part)
    made = Table("gold/made", "", (facts,), RecomputeKeys(), key=KEY, transform=_by_name)
    shop = lake(*tables, merged, made)
    lost = row(2, "y", "lost")
    shop.land("rows", DAY, "1.jsonl", [row(1, "x", "good"), lost, *BAD])
    first = shop.load(DAY)
    shop.land("rows", NEXT, "1.jsonl", [row(1, "x", "later", hour=11), *BAD])
    shop.load(f"{DAY}...{NEXT}", *(table.name for table in tables))

    assert first["silver/merged"].days.popitem()[1].checks["part_not_null"].broken == 2  # type: ignore[attr-defined]
    for name in ROWS:
        shown = {found[:2] for found in shop.rows(name, *KEY, "name")}
        assert shown == {(1, "x"), (2, "y")}, name
        assert shop.reasons(name) == sorted(WHY * 2), name
    for name in ("gold/merged", "gold/made"):  # where the transform loses a key
        assert states(first, name) == ["held"], name
        assert "key_complete: 1 of 2 rows" in next(iter(first[name].failed.values())).reason
        assert shop.rows(name, *KEY) == []


def test_rows_without_their_day_are_quarantined_and_there_once_when_they_are_corrected(
    lake: Lakes,
) -> None:
    contract = Contract(id=Integer(), part=Text(), at=Instant(on_type_error="discard"))
    texts = Contract(id=Integer(), part=Text(), at=Text())
    bronze = landed("rows", day="at")
    tables = (
        silver("strict", bronze, day="at"),
        silver("loose", bronze, day="at", schema=contract),
        silver("texts", bronze, day="at", schema=texts, transform=lambda rows: rows),
    )
    shop = lake(bronze, *tables)
    without, odd = ({"id": n, "part": "x", "name": "N"} for n in (2, 3))
    shop.land("rows", NEXT, "1.jsonl", [row(1, "x", "good"), without, {**odd, "at": "soon"}])
    shop.load(f"{DAY}...{NEXT}")

    for name in ("silver/strict", "silver/texts"):
        assert shop.reasons(name) == [("at_not_null",), ("at_unreadable",)]
    assert shop.reasons("silver/loose") == [("at_not_null",), ("at_not_null",)]
    shop.land("rows", NEXT, "2.jsonl", [row(2, "x", "good")])
    shop.load(f"{DAY}...{NEXT}")
    for table in tables:
        assert shop.rows(table.name, "id", "dt") == [(1, DAY), (2, DAY)]


@thorough(
    "feeds/test_null_keys.py, feeds/test_change_log.py, feeds/test_snapshots.py: "
    "a null in a part of the key of rows, in the key of events and of snapshots"
)
def test_events_and_snapshots_with_a_null_in_their_key_are_quarantined(lake: Lakes) -> None:
    log, copies = landed("log", changes=ChangeLog()), landed("copies", changes=SnapshotDiff(KEY))
    shop = lake(log, copies, silver("logged", log), silver("copied", copies))
    events = [("INSERT", 1, 1, "x"), ("INSERT", 2, 1, None), ("DELETE", 3, None, "x")]
    names = ("operation", "sequence_num", *KEY)
    good, *bad = ({**dict(zip(names, event, strict=True)), "name": "N"} for event in events)
    for day in (DAY, NEXT):
        shop.land("log", day, "1.jsonl", [good, *bad])
        shop.land("copies", day, "1.jsonl", [row(1, "x", "good"), *BAD])
    shop.load(f"{DAY}...{NEXT}")

    for name in ("silver/logged", "silver/copied"):
        assert shop.rows(name, *KEY) == [(1, "x")], name
    assert shop.reasons("silver/logged") == [("id_null",)] * 2 + [("part_null",)] * 2
    of_copies = [("id_null",), ("id_null", "part_null"), ("part_null",)]
    assert shop.reasons("silver/copied") == sorted(of_copies * 2)


@thorough("feeds/test_restate.py, feeds/test_null_keys.py: rows that rules find, rows as they come")
def test_what_an_earlier_version_merged_under_a_null_is_gone_when_its_days_are_restated(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(typed_module, "_key_reasons", lambda _: [])
        earlier.setattr(Table, "_required", lambda _: ())
        shop = lake(*rows_tables())
        for day in (DAY, NEXT):
            shop.land("rows", day, "1.jsonl", [row(1, "x", "good"), *BAD])
        shop.load(f"{DAY}...{NEXT}")
    assert all(len(shop.rows(name, *KEY)) > 3 for name in ROWS), "there is nothing to take away"

    shop = shop.with_tables(*rows_tables())
    days = [shop.now.date().replace(day=day) for day in (5, 6)]
    for name in ROWS:
        shop.lakehouse.restate(shop.tables[name], days, "null keys")

    for name in ROWS:
        assert shop.rows(name, *KEY) == [(1, "x")], name
