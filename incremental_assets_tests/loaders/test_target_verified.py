"""A target that is built again from its source and compared, as far as the source has its past."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.errors import DefinitionError, LakeError, SourceError
from incremental_assets.loaders import DeleteInsert
from incremental_assets.writes import SCD2
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.loaders.test_target_plans import (
    SCHEMA,
    Of,
    by_log,
    by_sequence,
    by_snapshot,
    by_timestamp,
    land,
)
from incremental_assets_tests.thorough import thorough

KEYED = {"primary_key": "id"}
HELD = (
    "loaders/test_target_verified.py, loaders/test_target_operations.py, "
    "loaders/test_target_rewinds.py, loaders/test_snapshots.py: "
)
CASES = [
    pytest.param(by_timestamp, {}, id="timestamp"),
    pytest.param(
        *(by_sequence, KEYED), id="sequence, merge", marks=thorough(HELD + "what differs by number")
    ),
    pytest.param(
        *(by_log, {"write": SCD2()}),
        id="log, history",
        marks=thorough(HELD + "Debezium's log with history, in Delta"),
    ),
    pytest.param(
        *(by_snapshot, {}), id="snapshot", marks=thorough(HELD + "a history of snapshots is equal")
    ),
]


def take(place: Place, of: Of, *numbers: int, **options: Any) -> None:
    if numbers:
        land(place, *numbers)
    of(place, place.spark, **options).load()


def changed(place: Place, *rows: tuple[int, int, str]) -> Path:
    """A file in which these ids have other values: `seq` and `operation`."""
    start = NOON - timedelta(hours=1)
    named = [
        {"id": i, "seq": seq, "operation": word, "at": start + timedelta(minutes=seq)}
        for i, seq, word in rows
    ]
    return place.land(named, SCHEMA)


@pytest.mark.parametrize(("of", "options"), CASES)
def test_a_target_is_equal_until_somebody_changes_it(
    place: Place, of: Of, options: dict[str, Any]
) -> None:
    take(place, of, 1, 2, **options)
    take(place, of, 3, 4, **options)
    before, files = place.version(), sorted(place.folder.rglob("*"))

    found = of(place, place.spark, **options).verify()

    assert (found.equal, found.rows.rows, found.rows.not_judged) == (True, 4, 0)
    assert (found.version, found.batch, found.rebuilt) == (before, 2, {"orders": 1})
    assert sorted(place.folder.rglob("*")) == files
    DeltaTable(str(place.target)).delete("id = 2")
    DeltaTable(str(place.target)).update({"id": "40"}, predicate="id = 4")

    found = of(place, place.spark, **options).verify()

    assert not found.equal
    assert sum(day.missing for day in found.rows.days) == 2
    assert found.rows.examples[0].startswith("missing ")
    assert (" id=2" in found.rows.examples[0]) == (of is not by_timestamp or bool(options))


def test_a_row_that_came_below_the_watermark_is_missing_and_the_remedy_is_named(
    place: Place,
) -> None:
    take(place, by_timestamp, 1, 20)
    take(place, by_timestamp, 5)

    found = by_timestamp(place, place.spark).verify()

    assert [day.missing for day in found.rows.days] == [1]
    assert any("rewind" in note for note in found.notes)


def test_what_changed_in_place_is_reported_and_newer_or_removed_rows_are_not_judged(
    place: Place,
) -> None:
    take(place, by_sequence, 1, 2, 3, 4, **KEYED)
    (place.source / "part-0001.parquet").unlink()
    # 2 has a newer row, 3 is gone, and 4 changed without another number.
    changed(place, (1, 1, "INSERT"), (2, 9, "UPDATE"), (4, 4, "CHANGED"))

    found = by_sequence(place, place.spark, **KEYED).verify()

    assert (found.differences, found.rows.columns) == (1, {"operation": 1})
    assert (found.rows.rows, found.rows.not_judged) == (2, 1)
    assert "not compared: 1 row of the source not loaded yet" in found.notes
    assert "not compared: 1 row no longer at the source" in found.notes


def test_rows_that_others_wrote_are_left_out(place: Place) -> None:
    start = NOON - timedelta(minutes=50)
    filled = pl.DataFrame({"id": [10], "seq": [10], "operation": ["x"], "at": [start]})
    filled.with_columns(pl.col("at").cast(pl.Datetime("us", "UTC"))).write_delta(place.target)
    take(place, by_timestamp, 10, 20, start_from=start)

    found = by_timestamp(place, place.spark, start_from=start).verify()

    assert (found.equal, found.rows.rows) == (True, 1)
    assert "not written by this load" in found.notes[0]


def test_a_log_is_verified_once_it_is_read_and_only_while_it_has_its_files(place: Place) -> None:
    take(place, by_log, 1)
    land(place, 2)
    with pytest.raises(SourceError, match="not read yet"):
        by_log(place, place.spark).verify()
    take(place, by_log)

    found = by_log(place, place.spark).verify(scratch=place.folder / "elsewhere")

    assert (found.equal, found.rows.rows) == (True, 2)
    assert not list((place.folder / "elsewhere").glob("*"))
    (place.source / "part-0001.parquet").unlink()
    with pytest.raises(SourceError, match=r"1 of the 2 files of the log .* part-0001"):
        by_log(place, place.spark).verify()


def test_a_snapshot_is_verified_only_while_it_is_the_last_one(place: Place) -> None:
    take(place, by_snapshot, 1)
    assert by_snapshot(place, place.spark).verify().equal
    land(place, 2)

    with pytest.raises(SourceError, match="has changed since the last load"):
        by_snapshot(place, place.spark).verify()


def test_a_file_that_the_target_lost_is_an_error_and_no_difference(place: Place) -> None:
    take(place, by_timestamp, 1)
    (lost,) = DeltaTable(str(place.target)).file_uris()
    Path(lost).unlink()

    with pytest.raises(LakeError, match=r"orders could not be compared: Spark failed: .* changed"):
        by_timestamp(place, place.spark).verify()


def test_what_cannot_be_built_again_is_refused(place: Place) -> None:
    with pytest.raises(DefinitionError, match="never loaded"):
        by_timestamp(place, place.spark).verify()
    with pytest.raises(DefinitionError, match="which rows came in one load"):
        by_timestamp(place, place.spark, **KEYED, write=DeleteInsert()).verify()
    take(place, by_timestamp, 1)
    by_timestamp(place, place.spark).rewind(0, "to see")
    with pytest.raises(DefinitionError, match="was rewound by batch 2"):
        by_timestamp(place, place.spark).verify()
