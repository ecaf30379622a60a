"""Each way of finding what is new, with the ways of writing it, through all that can happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.loaders import LoadResult, SequenceBasedLoader, TimestampBasedLoader
from incremental_assets.testing import Killed
from incremental_assets.writes import OverwriteDays, ReplaceDay, WriteStrategy
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.crashes import CRASHES
from incremental_assets_tests.loaders.stories import (
    BY_SEQUENCE,
    BY_TIMESTAMP,
    DYING,
    SCHEMA,
    WRITES,
    Model,
    Step,
    columns_of,
)
from incremental_assets_tests.thorough import thorough

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


# For a sequence, the writes whose facts ask more of a detector than those of the first ones do.
BY_NUMBER = ("append", "merge", "history", "replace whole days")
COMBINATIONS = {
    **{f"timestamp, {name}": (by_timestamp, "at", BY_TIMESTAMP, WRITES[name]) for name in WRITES},
    **{f"sequence, {name}": (by_sequence, "seq", BY_SEQUENCE, WRITES[name]) for name in BY_NUMBER},
}
# Each detector through all that can happen to its source; each write with a load that dies.
WHOLE = ("timestamp, history", "sequence, append")
SHORT = (
    *("timestamp, delete then insert", "timestamp, overwrite the batch's days"),
    "timestamp, replace whole days",
)
HELD = (
    "loaders/test_matrix.py, loaders/test_killed_at_each_commit.py: each detector with one write, "
    "each write with the first steps, a merge that is killed"
)
CASES = [
    pytest.param(*case, id=name, marks=() if name in WHOLE else thorough(HELD))
    for name, case in COMBINATIONS.items()
] + [
    pytest.param(*COMBINATIONS[name][:2], DYING, COMBINATIONS[name][3], id=f"{name}, dying")
    for name in SHORT
]


@pytest.mark.parametrize(("load", "cursor", "story", "write"), CASES)
def test_each_step_changes_just_what_it_should_also_where_a_load_before_it_died(
    place: Place,
    load: Load,
    cursor: str,
    story: Sequence[Step],
    write: WriteStrategy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Model(write, cursor)
    for step in story:
        if step.lands:
            place.land([r.as_dict() for r in step.lands], SCHEMA)
        if step.dies:
            with monkeypatch.context() as dying, pytest.raises(Killed):
                dying.setattr(load_module, *CRASHES[step.dies])
                load(place, write)
        before = place.version() if place.target.exists() else None

        result = load(place, write)

        model.take(step)
        published = step.dies == "after the write"
        read = 0 if published else len(step.takes) + step.aside
        assert result.records_read == read, step.name
        assert result.records_quarantined == step.aside, step.name
        assert place.rows(*columns_of(write)) == model.shows(), step.name
        if published or not step.takes:
            assert place.version() == before, step.name
