"""Events of a change log that were quarantined, and those that only look like them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType

from incremental_assets.loaders import CDCLoader, LoadResult
from incremental_assets.row_hash import row_hash
from incremental_assets.writes import SCD2
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.test_cdc import events, live, load, process
from incremental_assets_tests.thorough import thorough


def envelope(
    op: str, lsn: int | None, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> dict[str, Any]:
    source = {"connector": "postgresql"} | ({"lsn": lsn} if lsn else {})
    return {"before": before, "after": after, "source": source, "op": op}


def debezium(place: Place, *lines: Any) -> LoadResult:
    place.land_lines(lines)
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source, place.target, place.watermarks, "id", "customers", cdc_format="debezium"
    )


def test_a_bad_event_is_quarantined_once_and_what_only_looks_like_it_is_applied(
    place: Place,
) -> None:
    bad = events(
        (1, "Ann", "INSERT", None),  # repaired below: it has a number then
        (2, None, "DELETE", None),
        (3, "Cy", "DELETE", None),
    )
    place.land_lines([*bad, *events((2, "Bob", "INSERT", 1))], "log.json")
    assert process(place, write=SCD2()).records_quarantined == 3

    repaired = events((1, "Ann", "INSERT", 2), (2, None, "DELETE", 3), (3, "Cy", "INSERT", 4))
    another = events((1, "Ann", "DELETE", None))
    place.land_lines([*bad, *events((2, "Bob", "INSERT", 1)), *repaired, *another], "log.json")
    place.land_lines(events((1, "Ann", "INSERT", None)))  # in another file: another event
    second = process(place, write=SCD2())

    assert second.records_quarantined == 2
    assert place.quarantined() == [["sequence_num_null"]] * 5
    shown = place.rows("id", "name", "is_current")
    assert [row[:2] for row in shown if row[2]] == [(1, "Ann"), (3, "Cy")]


@thorough("changes/test_debezium.py, loaders/test_debezium_log.py: each kind of message")
def test_debezium_events_without_a_row_or_a_position_hide_no_others(place: Place) -> None:
    ann, bob = {"id": 1, "name": "Ann", "age": 30}, {"id": 2, "name": "Bob", "age": 40}
    di = {"id": 4, "name": "Di", "age": 50}
    first = debezium(
        place,
        envelope("c", 10, None, ann),
        envelope("c", 11, None, bob),
        envelope("c", 12, None, di),
        envelope("u", 20, None, None),  # no row: all its columns are null, as a truncate's are
        envelope("d", None, bob, None),  # no position
    )
    assert first.records_quarantined == 2

    cy = {"id": 3, "name": "Cy"}
    debezium(
        place,
        envelope("t", 22, None, None),
        envelope("c", 23, None, cy),
        envelope("c", 24, None, bob),
        envelope("c", 25, None, di),
        # The image before a change names the row, whatever else it holds.
        envelope("d", 30, {**bob, "age": "n/a"}, None),
        envelope("u", 31, {**di, "age": "n/a"}, {**di, "id": 5}),
        envelope("u", 41, None, None),
    )

    assert live(place) == [(3, "Cy"), (5, "Di")]
    assert place.quarantined() == [["log_position_missing"], ["no_row"], ["no_row"]]


@thorough("loaders/test_cdc_repairs.py: a target of this version")
def test_a_target_that_an_earlier_version_filled_goes_on(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", None), (2, "Bob", "INSERT", 1), (2, None, "DELETE", None))
    _as_it_was_hashed(place)

    load(place, (1, "Ann", "INSERT", 2), (2, None, "DELETE", 3))

    assert live(place) == [(1, "Ann")]


def _as_it_was_hashed(place: Place) -> None:
    """Write the quarantine as the version did that hashed an event's own columns alone."""
    path = str(place.target / "_quarantine")
    frame = pl.read_delta(path)
    own = pl.DataFrame([(1, "Ann"), (2, None)], schema=["id", "name"], orient="row")
    rows = place.spark.createDataFrame(own.rows(), "id bigint, name string")
    hashed = rows.select("id", row_hash({"id": LongType(), "name": StringType()}).alias("h"))
    hashes = {row["id"]: row["h"] for row in hashed.collect()}
    ids = frame["row"].str.json_path_match("$.id").cast(pl.Int64)
    old = frame.with_columns(ids.replace_strict(hashes, return_dtype=pl.String).alias("_hash"))
    old.write_delta(path, mode="overwrite")
    assert set(DeltaTable(path).to_pyarrow_table()["_hash"].to_pylist()) == set(hashes.values())
