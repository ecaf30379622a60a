"""A source that changes the case of a column's name: to Spark it is the same column, so it stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import polars as pl
import pytest

from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    LoadResult,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from incremental_assets.writes import SCD2
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.thorough import thorough

AT = datetime(2024, 5, 10, 11, tzinfo=UTC)


def schema(amount: str) -> dict[str, Any]:
    return {
        "id": pl.Int64,
        amount: pl.Int64,
        "at": pl.Datetime("us", "UTC"),
        "seq": pl.Int64,
    }


def by_sequence(place: Place) -> LoadResult:
    return SequenceBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, sequence_column="seq", table_name="orders", primary_key="id"
    )


def with_history(place: Place) -> LoadResult:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths,
        timestamp_column="at",
        table_name="orders",
        primary_key="id",
        write=SCD2(),
    )


@pytest.mark.parametrize(
    "load",
    [
        by_sequence,
        pytest.param(with_history, marks=thorough("loaders/test_spelling.py: by sequence")),
    ],
)
def test_a_column_that_changes_its_case_is_read_as_before_by_every_reader(
    place: Place, load: Callable[[Place], LoadResult]
) -> None:
    place.land([{"id": 1, "Amount": 10, "at": AT, "seq": 1}], schema("Amount"))
    load(place)
    for file in place.source.iterdir():
        file.unlink()
    rows = [
        {"id": 1, "AMOUNT": 10, "at": AT, "seq": 1},
        {"id": 2, "AMOUNT": 20, "at": AT, "seq": 2},
    ]
    place.land(rows, schema("AMOUNT"))

    result = load(place)

    # The row that is delivered again is the one that was loaded.
    assert result.records_loaded == 1
    assert place.rows("id", "Amount") == [(1, 10), (2, 20)]
    assert "AMOUNT" not in place.columns()


@thorough("loaders/test_spelling.py: by sequence")
def test_a_snapshot_whose_column_changes_its_case_holds_no_change(place: Place) -> None:
    def load() -> LoadResult:
        detected = DeltaDiffLoader(place.spark, place.clock).detect_changes(
            **place.paths, snapshot_path=place.snapshot, primary_key="id", table_name="orders"
        )
        return detected["result"]

    place.land([{"id": 1, "Amount": 10, "at": AT, "seq": 1}], schema("Amount")).rename(
        place.source / "copy.parquet"
    )
    load()
    place.land([{"id": 1, "AMOUNT": 10, "at": AT, "seq": 1}], schema("AMOUNT")).rename(
        place.source / "copy.parquet"
    )

    assert load().records_loaded == 0
    assert place.rows("id", "Amount") == [(1, 10)]


@thorough("loaders/test_spelling.py: by sequence")
@pytest.mark.parametrize(
    "envelope",
    [
        pytest.param("flat", marks=thorough("loaders/test_spelling.py: Debezium's; by sequence")),
        "debezium",
    ],
)
def test_a_change_log_whose_column_changes_its_case_goes_on(
    place: Place, envelope: Literal["flat", "debezium"]
) -> None:
    def event(number: int, name: str, amount: int) -> str:
        row = {"id": number, name: amount}
        if envelope == "flat":
            return json.dumps({**row, "op": "c", "seq": number})
        source = {"connector": "postgresql", "lsn": number, "ts_ms": number}
        return json.dumps({"op": "c", "ts_ms": number, "after": row, "source": source})

    def load() -> LoadResult:
        return CDCLoader(place.spark, place.clock).process_cdc(
            place.source,
            place.target,
            place.watermarks,
            primary_key="id",
            table_name="orders",
            cdc_format=envelope,
            operation_column="op",
            sequence_column="seq",
        )

    place.land_lines([event(1, "Amount", 10)])
    load()
    first = next(place.source.iterdir())
    place.land_lines([event(2, "AMOUNT", 20)])
    first.unlink()

    load()

    assert place.rows("id", "Amount") == [(1, 10), (2, 20)]
