"""Rows that are ahead of the clock, as a source sends them whose own clock is ahead."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import polars as pl

from incremental_assets.loaders import LoadResult, TimestampBasedLoader
from incremental_assets.quality.rules import at_least, quarantine
from incremental_assets_tests.loaders.conftest import NOON, Place

SCHEMA = {"id": pl.Int64, "amount": pl.Int64, "at": pl.Datetime("us", "UTC")}


def load(place: Place, minutes: int, **options: Any) -> LoadResult:
    """A load so many minutes after noon."""
    place.now = NOON + timedelta(minutes=minutes)
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, timestamp_column="at", table_name="orders", **options
    )


def tried(place: Place) -> list[Any]:
    """Of each row in quarantine its reason, when it was first seen and how often it was tried."""
    found = place.rows("row", "reasons", "first_seen", "tried", path=place.target / "_quarantine")
    return sorted((json.loads(row)["id"], *why, seen, times) for row, why, seen, times in found)


def test_they_are_loaded_when_their_time_has_come(place: Place) -> None:
    options = {"rules": quarantine(at_least("amount", 0))}
    past, soon = NOON - timedelta(minutes=5), NOON + timedelta(minutes=10)
    at = [past, soon, soon, past, NOON + timedelta(days=1)]
    amounts = [1, 0, -1, -1, 1]
    rows = zip(range(1, 6), amounts, at, strict=True)
    place.land([dict(zip(SCHEMA, row, strict=True)) for row in rows], SCHEMA)
    place.land([{"id": 6, "amount": -1, "at": soon}], SCHEMA)

    first = load(place, 0, **options)
    early = load(place, 4, **options)
    in_time = load(place, 5, **options)
    again = load(place, 6, **options)

    assert (first.records_loaded, first.records_quarantined) == (1, 5)
    assert early.records_read == 0
    # Two of them break the rule, too, and stay in quarantine for that.
    assert (in_time.records_loaded, in_time.records_quarantined) == (1, 2)
    assert in_time.watermark_after == "2024-05-10T12:10:00.000000Z"
    assert again.records_read == 0
    assert place.rows("id") == [(1,), (2,)]
    assert tried(place) == [
        (3, "amount_at_least_0", NOON, 2),
        (4, "amount_at_least_0", NOON, 1),
        (5, "at_in_future", NOON, 1),
        (6, "amount_at_least_0", NOON, 2),
    ]
