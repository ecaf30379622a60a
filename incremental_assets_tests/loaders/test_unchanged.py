"""Events of a loader's log that lack columns which did not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from incremental_assets.loaders import CDCLoader, LoadResult
from incremental_assets.spark.load_session import INTERMEDIATE
from incremental_assets.writes import SCD2
from incremental_assets_tests.feeds.test_unchanged import (
    ENDS,
    LOG,
    MARKED,
    VERSIONS,
    event,
    user,
)
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.thorough import thorough


def process(place: Place, **options: Any) -> LoadResult:
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source,
        place.target,
        place.watermarks,
        primary_key="id",
        table_name="users",
        **{"cdc_format": "debezium", **options},
    )


def users(place: Place) -> list[tuple[Any, ...]]:
    return place.rows("id", "name", "notes")


@thorough("loaders/test_unchanged.py, feeds/test_unchanged.py: with history, and merged")
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 1, 0, 5, 6, 2, 4)])
def test_an_unchanged_column_keeps_its_value_in_whatever_order_events_come(
    place: Place, order: tuple[int, ...]
) -> None:
    for some in (order[:3], order[3:6], order[6:]):
        place.land_lines([LOG[at] for at in some])
        process(place, no_earlier="null")
    assert users(place) == ENDS


@thorough("feeds/test_unchanged.py: a lake's tables, by the same engine")
def test_history_has_the_value_at_each_version(place: Place) -> None:
    for some in ((3, 7, 1, 6), (0, 5, 2, 4)):
        place.land_lines([LOG[at] for at in some])
        process(place, no_earlier="null", write=SCD2())
    rows = place.rows("id", "name", "notes", "valid_from", "valid_to")
    assert [tuple(row[:3]) for row in rows] == [row[:3] for row in VERSIONS]


def test_without_an_earlier_version_an_event_waits_in_quarantine(place: Place) -> None:
    """What a first load left that was killed is in nobody's way."""
    left = Path(place.target) / f"{INTERMEDIATE}0a1b2c3d" / "part-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"PAR1")
    place.land_lines([event("u", 20, user(3, "Cy", MARKED)), *LOG[:2]])
    assert process(place).records_quarantined == 1
    assert users(place) == [(1, "Anna", "long")]
