"""Which types a target gets, and what becomes of values of others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pandas as pd
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from incremental_assets.loaders import LoadResult, TimestampBasedLoader
from incremental_assets_tests.loaders.conftest import Place


def load(place: Place) -> LoadResult:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, timestamp_column="at", table_name="orders"
    )


def lines(*prices: float) -> Sequence[dict[str, Any]]:
    return [{"id": n, "price": p, "at": "2024-05-10T11:00:00Z"} for n, p in enumerate(prices)]


def test_an_empty_target_that_was_made_before_decides_the_types(place: Place) -> None:
    kinds = {"id": "long", "price": "double", "at": "timestamp"}
    fields = [Field(name, PrimitiveType(kind)) for name, kind in kinds.items()]
    DeltaTable.create(str(place.target), schema=Schema(fields))
    place.land_lines(lines(2, 3))

    load(place)

    assert [str(price) for (price,) in place.rows("price")] == ["2.0", "3.0"]
    assert place.rows("at")[0][0].isoformat() == "2024-05-10T11:00:00+00:00"


def test_nanoseconds_as_pandas_writes_them_are_cut_to_microseconds(place: Place) -> None:
    place.source.mkdir()
    at = pd.Series([pd.Timestamp("2024-05-10T11:00:00.123456789")])
    pd.DataFrame({"id": [1], "at": at}).to_parquet(place.source / "1.parquet")

    result = load(place)

    assert result.watermark_after == "2024-05-10T11:00:00.123456Z"
    assert place.rows("at") == [(datetime(2024, 5, 10, 11, 0, 0, 123456),)]
    assert load(place).records_read == 0
