"""A null in any part of a key: the row is quarantined, by each kind of loader."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from incremental_assets.loaders import CDCLoader, DeltaDiffLoader, TimestampBasedLoader
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.thorough import thorough

KEY = ["id", "part"]
SCHEMA = {
    "id": pl.Int64,
    "part": pl.String,
    "at": pl.Datetime("us", "UTC"),
    "operation": pl.String,
    "sequence_num": pl.Int64,
}


def take(place: Place, kind: str) -> Any:
    spark, clock = place.spark, place.clock
    if kind == "log":
        return CDCLoader(spark, clock).process_cdc(
            place.source, place.target, place.watermarks, KEY, "t"
        )
    if kind == "copy":
        return DeltaDiffLoader(spark, clock).detect_changes(
            place.source, place.target, place.snapshot, KEY, "t"
        )["result"]
    return TimestampBasedLoader(spark, clock).load_incremental(
        **place.paths, timestamp_column="at", table_name="t", primary_key=KEY
    )


OTHERS = thorough(
    "loaders/test_null_keys.py, loaders/test_bad_input.py, loaders/test_cdc.py: a copy"
)


@pytest.mark.parametrize(
    "kind",
    [pytest.param("rows", marks=OTHERS), pytest.param("log", marks=OTHERS), "copy"],
)
def test_rows_with_a_null_in_their_key_are_quarantined(place: Place, kind: str) -> None:
    keys = [(1, "x", "INSERT"), (1, None, "INSERT"), (None, "x", "DELETE")]
    place.land([(*key[:2], NOON, key[2], at) for at, key in enumerate(keys)], SCHEMA)

    assert take(place, kind).records_quarantined == 2
    assert take(place, kind).records_quarantined == 0

    assert place.rows(*KEY) == [(1, "x")]
    assert place.quarantined() == [["id_null"], ["part_null"]]
