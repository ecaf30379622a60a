"""Each way of finding what is new, with each way of writing it, through all that can happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.loaders import LoadResult, SequenceBasedLoader, TimestampBasedLoader
from incremental_assets.writes import OverwriteDays, ReplaceDay, WriteStrategy
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.crashes import CRASHES, Killed
from incremental_assets_tests.loaders.stories import (
    BY_SEQUENCE,
    BY_TIMESTAMP,
    SCHEMA,
    WRITES,
    Model,
    Step,
    columns_of,
)

Load = Callable[[Place, WriteStrategy], LoadResult]


def by_timestamp(place: Place, write: WriteStrategy) -> LoadResult:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths,
        timestamp_column="at",
        table_name="orders",
        primary_key="id",
        lookback=timedelta(minutes=30),
        nulls="quarantine",
        write=write,
        partition_by=_partitions(write),
    )


def by_sequence(place: Place, write: WriteStrategy) -> LoadResult:
    return SequenceBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths,
        sequence_column="seq",
        table_name="orders",
        primary_key="id",
        nulls="quarantine",
        write=write,
        partition_by=_partitions(write),
    )


def _partitions(write: WriteStrategy) -> Sequence[str]:
    return (write.day,) if isinstance(write, OverwriteDays | ReplaceDay) else ()


DETECTORS = {
    "timestamp": (by_timestamp, "at", BY_TIMESTAMP),
    "sequence": (by_sequence, "seq", BY_SEQUENCE),
}
COMBINATIONS = [
    pytest.param(*DETECTORS[detector], write, id=f"{detector}, {name}")
    for detector in DETECTORS
    for name, write in WRITES.items()
]


@pytest.mark.parametrize(("load", "cursor", "story", "write"), COMBINATIONS)
def test_each_step_of_the_story_changes_just_what_it_should(
    place: Place, load: Load, cursor: str, story: Sequence[Step], write: WriteStrategy
) -> None:
    model = Model(write, cursor)
    for step in story:
        if step.lands:
            place.land([r.as_dict() for r in step.lands], SCHEMA)
        before = place.version() if place.target.exists() else None

        result = load(place, write)

        model.take(step)
        assert result.records_read == len(step.takes) + step.aside, step.name
        assert result.records_quarantined == step.aside, step.name
        assert place.rows(*columns_of(write)) == model.shows(), step.name
        if not step.takes:
            assert place.version() == before, step.name


# What a crash leaves depends on the write; of the detectors one is enough.
@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize(("load", "cursor", "story", "write"), COMBINATIONS[: len(WRITES)])
def test_a_load_that_dies_and_runs_again_is_as_one_that_did_not(
    place: Place,
    load: Load,
    cursor: str,
    story: Sequence[Step],
    write: WriteStrategy,
    crash: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, _, new, *_ = story
    model = Model(write, cursor)
    place.land([r.as_dict() for r in first.lands], SCHEMA)
    load(place, write)
    place.land([r.as_dict() for r in new.lands], SCHEMA)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(load_module, *CRASHES[crash])
        load(place, write)

    again = load(place, write)

    model.take(first)
    model.take(new)
    assert place.rows(*columns_of(write)) == model.shows()
    assert again.records_read == (0 if crash == "after the write" else len(new.takes))
    assert load(place, write).records_read == 0
