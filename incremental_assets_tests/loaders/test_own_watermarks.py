"""Watermark logic of one's own, as a function or a subclass, for every way of finding changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes.watermark import Seen
from incremental_assets.errors import WatermarkError
from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    LoadResult,
    SequenceBasedLoader,
    TimestampBasedLoader,
)
from incremental_assets_tests.loaders.conftest import NOON, Place

SCHEMA = {
    "id": pl.Int64,
    "seq": pl.Int64,
    "operation": pl.String,
    "at": pl.Datetime("us", "UTC"),
}


def rows(*numbers: int) -> list[Mapping[str, Any]]:
    """A row for each number, changed so many minutes after ten in the morning."""
    return [
        {"id": n, "seq": n, "operation": "INSERT", "at": NOON - timedelta(hours=2, minutes=-n)}
        for n in numbers
    ]


def ten_less(before: int | None, seen: Seen) -> int | None:
    """A number that is ten behind what was read, and never goes back."""
    return max((n for n in (before, seen.highest and seen.highest - 10) if n), default=None)


def ten_minutes_less(before: datetime | None, seen: Seen) -> datetime | None:
    late = seen.highest and seen.highest - timedelta(minutes=10)
    return max((at for at in (before, late) if at), default=None)


class Cautious(TimestampBasedLoader):
    """The watermark stays ten minutes behind."""

    def next_watermark(self, before: datetime | None, seen: Seen) -> datetime | None:
        return ten_minutes_less(before, seen)


def test_of_a_timestamp_by_a_subclass_and_one_that_breaks_its_promise_is_refused(
    place: Place,
) -> None:
    wrong: Sequence[Callable[[Any, Seen], Any]] = (
        lambda _, seen: seen.now,  # too far
        lambda before, _: before - timedelta(days=1),  # back
        lambda *_: None,
    )

    def load(**own: Any) -> LoadResult:
        return Cautious(place.spark, place.clock).load_incremental(
            **place.paths, timestamp_column="at", table_name="orders", **own
        )

    place.land(rows(1, 30), SCHEMA)
    first = load()
    place.land(rows(15, 25), SCHEMA)
    for given in wrong:
        with pytest.raises(WatermarkError, match="may be any such value"):
            load(watermark=given)
    assert place.rows("id") == [(1,), (30,)]
    second = load(watermark=ten_minutes_less)

    assert first.watermark_after == "2024-05-10T10:20:00.000000Z"
    assert second.records_loaded == 1  # 15 lies below the watermark, 25 above
    assert place.rows("id") == [(1,), (25,), (30,)]


def test_of_a_sequence_the_gaps_are_still_known(place: Place) -> None:
    def load() -> LoadResult:
        return SequenceBasedLoader(place.spark, place.clock).load_incremental(
            **place.paths, sequence_column="seq", table_name="orders", watermark=ten_less
        )

    place.land(rows(1, 2, 30), SCHEMA)
    first = load()
    place.land(rows(5, 25), SCHEMA)
    second = load()

    assert (first.watermark_after, second.watermark_after) == ("20", "20")
    assert second.records_loaded == 2  # both fill the gap
    assert place.rows("id") == [(1,), (2,), (25,), (30,), (5,)]


def test_of_a_change_log_it_decides_nothing(place: Place) -> None:
    def load() -> LoadResult:
        return CDCLoader(place.spark, place.clock).process_cdc(
            place.source,
            place.target,
            place.watermarks,
            "id",
            "orders",
            sequence_column="seq",
            watermark=ten_less,
        )

    place.land(rows(1, 30), SCHEMA)
    first = load()
    place.land(rows(2), SCHEMA)

    assert (first.watermark_after, load().watermark_after) == ("20", "20")
    assert place.rows("id") == [(1,), (2,), (30,)]


def test_of_a_snapshot_it_is_the_moment_of_the_last_copy(place: Place) -> None:
    found = place.land(rows(1), SCHEMA)
    loader = DeltaDiffLoader(place.spark, place.clock)
    with pytest.raises(WatermarkError, match="may be any such value"):
        loader.detect_changes(
            found,
            place.target,
            place.snapshot,
            "id",
            "products",
            watermark=lambda _, seen: seen.now + timedelta(days=1),
        )
    assert not place.target.exists()
    result = loader.detect_changes(found, place.target, place.snapshot, "id", "products")["result"]
    assert result.watermark_after == "2024-05-10T12:00:00.000000Z"
