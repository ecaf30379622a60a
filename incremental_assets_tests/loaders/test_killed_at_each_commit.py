"""A load that dies right after any of its commits: the next one goes on, and the end is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.loaders import CDCLoader, DeltaDiffLoader
from incremental_assets.query import query
from incremental_assets.testing import kill_after_each_write
from incremental_assets.writes import SCD2, Merge, WriteStrategy
from incremental_assets_tests.feeds.test_unchanged import LOG as UNCHANGED
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.stories import MAY_1, MAY_2, NULL, SCHEMA, row
from incremental_assets_tests.loaders.test_matrix import by_timestamp
from incremental_assets_tests.thorough import thorough

LOG = {"id": pl.Int64, "name": pl.String, "operation": pl.String, "sequence_num": pl.Int64}
COPY = {"id": pl.Int64, "name": pl.String}
# Deletes of a row that is there and of one that never was, two events that only their hash tells
# apart, and one without a key; then a late one.
EVENTS = (
    [
        (1, "a", "INSERT", 1),
        (2, "b", "INSERT", 2),
        (2, None, "DELETE", 3),
        (3, None, "DELETE", 4),
        (4, "d", "INSERT", 5),
        (4, "e", "UPDATE", 5),
        (None, "x", "INSERT", 6),
    ],
    [(1, "a2", "UPDATE", 7), (4, None, "DELETE", 8), (2, "late", "UPDATE", 1)],
)
COPIES = (
    [(1, "a"), (2, "b"), (4, "d")],
    [(1, "a2"), (2, "b"), (3, "c")],
)
# Of the first two only the hash decides.
STORY = (
    row(1, MAY_1, 10, "10:00", 1),
    row(1, MAY_1, 12, "10:00", 1),
    row(2, MAY_1, 20, "10:10", 2),
    row(3, MAY_2, 30, "10:20", 3),
    NULL,
)


@dataclass(frozen=True)
class Story:
    """How a source comes to be, step by step, and the load that runs after each.

    The one of the step `dies_at` dies: the first one creates all that there is.
    """

    lands: Sequence[Callable[[Place], object]]
    load: Callable[[Place], object]
    dies_at: int = 0


def of_log(write: WriteStrategy) -> Story:
    def load(place: Place) -> object:
        return CDCLoader(place.spark, place.clock).process_cdc(
            place.source, place.target, place.watermarks, "id", "log", write=write
        )

    if write.keeps_versions:  # in one load, which creates all that there is
        return Story([landing([*EVENTS[0], *EVENTS[1]], LOG)], load)
    return Story([landing(events, LOG) for events in EVENTS], load, dies_at=1)


def of_unchanged_columns() -> Story:
    """A late version, of which another one has the value that did not change, and a late delete."""

    def load(place: Place) -> object:
        return CDCLoader(place.spark, place.clock).process_cdc(
            *(place.source, place.target, place.watermarks, "id", "log"),
            cdc_format="debezium",
            no_earlier="null",
        )

    some = ([3, 7, 0], [1, 2, 5, 6])
    return Story([lines([UNCHANGED[at] for at in each]) for each in some], load, dies_at=1)


def lines(events: Sequence[Any]) -> Callable[[Place], object]:
    return lambda place: place.land_lines(events)


def of_copies(write: WriteStrategy) -> Story:
    def load(place: Place) -> object:
        return DeltaDiffLoader(place.spark, place.clock).detect_changes(
            max(place.source.iterdir()),
            place.target,
            place.snapshot,
            "id",
            "copies",
            max_deleted_share=1.0,
            write=write,
        )

    return Story([landing(copy, COPY) for copy in COPIES], load, dies_at=int(write.keeps_versions))


def of_rows(load: Callable[..., object], write: Any) -> Story:
    rows = [tuple(each.as_dict().values()) for each in STORY]
    return Story([landing(rows, SCHEMA)], lambda place: load(place, write))


def landing(rows: Sequence[tuple[Any, ...]], schema: dict[str, Any]) -> Callable[[Place], object]:
    named = [dict(zip(schema, each, strict=True)) for each in rows]
    return lambda place: place.land(named, schema)


LOGGED = (
    "loaders/test_killed_at_each_commit.py, loaders/test_matrix.py: "
    "unchanged columns, merge; a history that dies at three moments"
)
COPIED = "loaders/test_killed_at_each_commit.py: copies, merge"
# Of the writes by a timestamp or a sequence, that which writes all that the others do.
STORIES = [
    pytest.param(of_log(Merge()), id="log, merge", marks=thorough(LOGGED)),
    pytest.param(of_log(SCD2()), id="log, history", marks=thorough(LOGGED)),
    pytest.param(
        of_unchanged_columns(),
        id="unchanged columns, merge",
        marks=thorough("loaders/test_killed_at_each_commit.py, loaders/test_unchanged.py: apart"),
    ),
    pytest.param(of_copies(Merge()), id="copies, merge"),
    pytest.param(of_copies(SCD2()), id="copies, history", marks=thorough(COPIED)),
    pytest.param(of_rows(by_timestamp, Merge()), id="timestamp, merge", marks=thorough(COPIED)),
]


def everything(place: Place) -> dict[str, list[Any]]:
    """All rows of all tables of the load, without the number of the batch that wrote them."""
    tables = (place.target, place.target / "_beside", place.target / "_quarantine", place.snapshot)
    found = {}
    for path in tables:
        there = (path / "_delta_log").exists()
        rows = query(DeltaTable(str(path))).drop("_batch") if there else pl.DataFrame()
        # A side table without rows may be there for the fence of a load that died alone.
        columns = sorted(rows.columns) if rows.height else []
        found[path.name] = [columns, *sorted(rows.select(columns).rows(), key=str)]
    return found


@pytest.mark.parametrize("story", STORIES)
def test_a_load_that_dies_after_any_commit_goes_on_and_ends_as_if_it_had_not(
    spark: SparkSession, tmp_path: Path, story: Story
) -> None:
    calm, killed = Place(spark, tmp_path / "calm"), Place(spark, tmp_path / "killed")
    calm.folder.mkdir()
    killed.folder.mkdir()

    for step, land in enumerate(story.lands):
        for place in (calm, killed):
            land(place)
        story.load(calm)
        if step != story.dies_at:
            story.load(killed)
            assert everything(killed) == everything(calm)
            continue
        kills = kill_after_each_write(lambda: story.load(killed))

        assert kills >= 4  # it claims, stages, publishes and records
        assert everything(killed) == everything(calm)


@thorough("loaders/test_killed_at_each_commit.py: loads of this version")
@pytest.mark.parametrize("make", [of_log, of_copies])
def test_a_table_next_to_a_target_that_an_older_version_left_half_made_is_completed(
    place: Place, make: Callable[..., Story]
) -> None:
    story = make(Merge())
    own = [("_batch", "long"), ("_table", "string")]
    marks = [("_deleted", "boolean"), ("_why", "string")]
    ensure_table(f"{place.target}/_beside", "beside", [*own, *marks], ())
    ensure_table(f"{place.target}/_quarantine", "quarantine", [*own, ("_hash", "string")], ())
    ensure_table(str(place.snapshot), "snapshot of copies", [("_batch", "long")], ())

    for land in story.lands:
        land(place)
        story.load(place)

    assert place.rows("id", "name") == ([(1, "a2")] if make is of_log else COPIES[1])
    assert "id" in place.columns(place.target / "_beside")
