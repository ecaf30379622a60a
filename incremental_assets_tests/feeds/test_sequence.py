"""Tables of the lake over a source with a sequence: movements of the stock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes import Sequence
from incremental_assets.errors import SourceError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, at


def tables(day: str | None = "moved_at", **changes: Any) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/movements",
        description="Movements of the stock.",
        reads=(Stored("movements", day=day),),
        changes=Sequence("id", **changes),
        day="moved_at" if day else None,
        write=Append(),
    )
    silver = Table(
        name="silver/movements",
        description="Each movement once.",
        reads=(SameDay(bronze),),
        key=("id",),
        day="moved_at" if day else None,
        schema=Contract(id=Integer(wide=True), product=Text(), moved_at=Instant()),
        write=Merge(),
    )
    return bronze, silver


def movements(*rows: tuple[int | None, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [row[0] for row in rows],
            "product": ["p" for _ in rows],
            "moved_at": [at(row[1]) for row in rows],
        },
        schema={"id": pl.Int64, "product": pl.String, "moved_at": pl.Datetime("us", "UTC")},
    )


FIRST = ((1, "05 10:00"), (2, "05 11:00"), (3, "06 09:00"), (4, "06 10:00"))


def landed(lake: Lake) -> list[int]:
    return sorted(int(n) for _, n in lake.bronze("bronze/movements", "id"))


def test_movements_lie_on_their_days_and_come_once_late_ones_too(lake: Lakes) -> None:
    stock = lake(*tables())
    stock.put_parquet("movements", "1.parquet", movements(*FIRST))
    stock.load("2017-01-05...2017-01-06", "bronze/movements")
    stock.put_parquet("movements", "2.parquet", movements((5, "06 23:00"), (6, "07 01:00")))

    assert stock.pending_days("bronze/movements") == ["2017-01-06", "2017-01-07"]
    stock.load("2017-01-05...2017-01-07")

    assert landed(stock) == [1, 2, 3, 4, 5, 6]
    assert stock.rows("silver/movements", "id", "dt")[-2:] == [(5, "2017-01-06"), (6, "2017-01-07")]
    assert stock.pending_days("bronze/movements") == []

    stock.put_parquet("movements", "3.parquet", movements((7, "05 12:00")))
    assert stock.pending_days("bronze/movements") == ["2017-01-05"]
    stock.load("2017-01-05", "bronze/movements")
    assert stock.stale() == {"silver/movements": ["2017-01-05"]}  # its own day
    stock.load_stale()
    assert (7, "2017-01-05") in stock.rows("silver/movements", "id", "dt")


def test_gaps_are_named_and_their_rows_are_loaded_when_they_come(lake: Lakes) -> None:
    stock = lake(*tables())
    stock.put_parquet("movements", "1.parquet", movements((1, "05 10:00"), (4, "05 11:00")))
    stock.load("2017-01-05", "bronze/movements")
    assert any("gaps: 2…3" in line for line in stock.logged)

    stock.put_parquet("movements", "2.parquet", movements((3, "05 10:30")))
    stock.load("2017-01-05", "bronze/movements")

    assert landed(stock) == [1, 3, 4]


def test_days_out_of_order_are_no_gap_because_the_source_has_their_numbers(lake: Lakes) -> None:
    stock = lake(*tables(on_gap="fail"))
    stock.put_parquet("movements", "1.parquet", movements(*FIRST))

    stock.load("2017-01-06", "bronze/movements")
    stock.load("2017-01-05", "bronze/movements")

    assert landed(stock) == [1, 2, 3, 4]


def test_a_gap_fails_or_waits_as_it_is_reported(lake: Lakes) -> None:
    rows = movements((1, "05 10:00"), (2, "05 11:00"), (4, "05 12:00"))
    strict = lake(*tables(on_gap="fail"))
    strict.put_parquet("movements", "1.parquet", rows)
    with pytest.raises(SourceError, match="gaps: 3"):
        strict.load("2017-01-05", "bronze/movements")

    patient = lake(*tables(on_gap="wait", deadline=timedelta(hours=1)))
    patient.load("2017-01-05", "bronze/movements")
    assert landed(patient) == [1, 2]
    assert patient.pending_days("bronze/movements") == [
        "2017-01-05"
    ]  # it waits, and is asked again

    patient.now = datetime(2017, 1, 10, 13, 1, tzinfo=UTC)
    patient.load("2017-01-05", "bronze/movements")
    assert landed(patient) == [1, 2, 4]
    assert patient.pending_days("bronze/movements") == []


def test_without_a_day_of_their_own_movements_land_on_the_day_of_the_load(lake: Lakes) -> None:
    stock = lake(*tables(day=None))
    stock.put_parquet("movements", "1.parquet", movements((1, "05 10:00"), (3, "05 11:00")))
    assert stock.pending_days("bronze/movements") == ["2017-01-10"]
    stock.load("2017-01-05...2017-01-10", "bronze/movements")
    stock.put_parquet("movements", "2.parquet", movements((2, "05 10:30"), (4, "06 10:00")))
    stock.now = datetime(2017, 1, 11, 8, tzinfo=UTC)
    stock.load("2017-01-11", "bronze/movements")
    stock.load("2017-01-11", "bronze/movements")

    assert [(day, int(n)) for day, n in stock.bronze("bronze/movements", "id")] == [
        ("2017-01-10", 1),
        ("2017-01-10", 3),
        ("2017-01-11", 2),
        ("2017-01-11", 4),
    ]


def test_numbers_that_are_missing_are_refused_or_taken_once(lake: Lakes) -> None:
    rows = movements((1, "05 10:00"), (None, "05 11:00"))
    strict = lake(*tables())
    strict.put_parquet("movements", "1.parquet", rows)
    with pytest.raises(SourceError, match=r"1 of . new rows have no id"):
        strict.load("2017-01-05", "bronze/movements")

    open_minded = lake(*tables(nulls="include"))
    open_minded.load("2017-01-05", "bronze/movements")
    open_minded.put_parquet("movements", "2.parquet", movements((2, "05 12:00")))
    open_minded.load("2017-01-05", "bronze/movements")
    assert len(open_minded.bronze("bronze/movements")) == 3


def test_a_column_of_fractions_is_no_sequence(lake: Lakes) -> None:
    bronze, silver = tables()
    stock = lake(replace(bronze, changes=Sequence("weight")), silver)
    stock.put_parquet("movements", "1.parquet", movements(*FIRST).with_columns(weight=1.5))

    with pytest.raises(SourceError, match="cannot be ordered as a sequence"):
        stock.load("2017-01-05", "bronze/movements")


def test_a_load_that_midnight_overtakes_reads_the_day_that_it_was_planned_for(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = lake(*tables(day=None))
    stock.put_parquet("movements", "1.parquet", movements((1, "05 10:00"), (2, "05 11:00")))
    stock.now = datetime(2017, 1, 10, 23, 59, 59, tzinfo=UTC)
    planned = stock.lakehouse.plan

    def plan(*words: Any) -> Any:
        found = planned(*words)
        stock.now += timedelta(seconds=2)
        return found

    monkeypatch.setattr(stock.lakehouse, "plan", plan)
    stock.load("2017-01-10", "bronze/movements")

    assert stock.bronze("bronze/movements", "id") == [("2017-01-10", "1"), ("2017-01-10", "2")]
    assert stock.pending_days("bronze/movements") == []
