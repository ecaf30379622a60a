"""What the next load of a target would find, known without Spark."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    SequenceBasedLoader,
    Target,
    TimestampBasedLoader,
)
from incremental_assets_tests.loaders.conftest import NOON, Place

SCHEMA = {
    "id": pl.Int64,
    "seq": pl.Int64,
    "operation": pl.String,
    "at": pl.Datetime("us", "UTC"),
}


class NoSpark:
    """A session of which nothing may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked for {name}")


def by_timestamp(place: Place, spark: Any, **options: Any) -> Target:
    return TimestampBasedLoader(spark, place.clock).target(
        **place.paths, timestamp_column="at", table_name="orders", **options
    )


def by_sequence(place: Place, spark: Any, **options: Any) -> Target:
    return SequenceBasedLoader(spark, place.clock).target(
        **place.paths, sequence_column="seq", table_name="orders", **options
    )


def by_log(place: Place, spark: Any, **options: Any) -> Target:
    return CDCLoader(spark, place.clock).target(
        place.source,
        place.target,
        place.watermarks,
        "id",
        "orders",
        sequence_column="seq",
        **options,
    )


def by_snapshot(place: Place, spark: Any, **options: Any) -> Target:
    return DeltaDiffLoader(spark, place.clock).target(
        place.source, place.target, place.snapshot, "id", "orders", **options
    )


LOADERS = [by_timestamp, by_sequence, by_log, by_snapshot]
Of = Callable[..., Target]


def land(place: Place, *numbers: int) -> None:
    start = NOON - timedelta(hours=1)
    rows = [(n, n, "INSERT", start + timedelta(minutes=n)) for n in numbers]
    place.land([dict(zip(SCHEMA, row, strict=True)) for row in rows], SCHEMA)


def plan(place: Place, of: Of, **options: Any) -> tuple[str, str]:
    found = of(place, NoSpark(), **options).plan()
    return found.status, found.why


@pytest.mark.parametrize("of", LOADERS)
def test_a_plan_knows_a_first_load_and_a_source_that_was_read_and_asks_no_spark(
    place: Place, of: Of
) -> None:
    land(place, 1, 2)
    before = sorted(place.folder.rglob("*"))

    assert plan(place, of)[0] == "new"
    assert sorted(place.folder.rglob("*")) == before
    of(place, place.spark).load()

    assert plan(place, of)[0] == "nothing"
    land(place, 3)
    found = of(place, NoSpark()).plan()
    assert found.status == ("new" if of is by_log else "unknown")
    assert found.files == (("part-0002.parquet",) if of is by_log else ())
    assert found.watermark


def test_a_plan_refuses_what_the_load_would_refuse(place: Place) -> None:
    with pytest.raises(SourceError, match="source"):
        plan(place, by_timestamp)
    land(place, 1)
    by_timestamp(place, place.spark, primary_key="id").load()

    with pytest.raises(DefinitionError, match="filled by the primary_key"):
        plan(place, by_timestamp, primary_key="seq")


def test_rows_ahead_of_the_clock_and_rows_that_wait_come_from_an_unchanged_source(
    place: Place,
) -> None:
    land(place, 1, 59, 120)  # the last is an hour ahead
    by_timestamp(place, place.spark).load()
    assert plan(place, by_timestamp) == (
        "unknown",
        "1 row in quarantine with a at ahead of the clock",
    )

    other = Place(place.spark, place.folder / "other")
    other.folder.mkdir()
    land(other, 1, 3)
    by_sequence(other, other.spark, on_gap="wait").load()
    assert plan(other, by_sequence, on_gap="wait")[0] == "nothing"
    other.now += timedelta(hours=2)
    assert plan(other, by_sequence, on_gap="wait")[0] == "new"


def test_a_bounded_load_may_leave_rows_of_an_unchanged_source(place: Place) -> None:
    land(place, 1, 2)
    by_sequence(place, place.spark, max_records=1).load()

    assert plan(place, by_sequence, max_records=1)[0] == "unknown"


def test_a_plan_names_a_batch_that_has_no_outcome_yet(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(place, 1)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(load_module, "publish", killed)
        by_timestamp(place, place.spark).load()

    found = by_timestamp(place, NoSpark()).plan()
    assert (found.unsettled, found.status) == (1, "new")


def test_the_load_takes_what_the_target_takes() -> None:
    load, target = TimestampBasedLoader.load_incremental, TimestampBasedLoader.target

    assert inspect.signature(load).parameters == inspect.signature(target).parameters
    assert inspect.signature(load).parameters["options"].annotation == "Unpack[LoaderOptions]"
    assert inspect.signature(load).return_annotation == "LoadResult"
    assert inspect.signature(DeltaDiffLoader.detect_changes).return_annotation == "DetectedChanges"
