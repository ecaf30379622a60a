"""Rows that are ahead of the clock, as a source sends them whose own clock is ahead."""

from __future__ import annotations

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


def test_they_are_loaded_when_their_time_has_come(place: Place) -> None:
    options = {"rules": quarantine(at_least("amount", 0))}
    at = [NOON - timedelta(minutes=5), *[NOON + timedelta(minutes=10)] * 2]
    place.land([{"id": n, "amount": 2 - n, "at": each} for n, each in enumerate(at, 1)], SCHEMA)
    place.land([{"id": 4, "amount": -1, "at": NOON + timedelta(minutes=10)}], SCHEMA)

    first = load(place, 0, **options)
    early = load(place, 4, **options)
    in_time = load(place, 5, **options)
    again = load(place, 6, **options)

    assert (first.records_loaded, first.records_quarantined) == (1, 3)
    assert early.records_read == 0
    # The last two break the rule, too, and stay in quarantine for that.
    assert (in_time.records_loaded, in_time.records_quarantined) == (1, 2)
    assert in_time.watermark_after == "2024-05-10T12:10:00.000000Z"
    assert again.records_read == 0
    assert place.rows("id") == [(1,), (2,)]
