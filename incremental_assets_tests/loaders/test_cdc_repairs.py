"""Events of a change log that were quarantined, and those that only look like them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType

from incremental_assets.loaders import CDCLoader, LoadResult, TimestampBasedLoader
from incremental_assets.row_hash import row_hash
from incremental_assets.writes import SCD2, Append
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.test_cdc import events, live, load, process


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


def test_an_event_that_only_looks_like_one_that_was_quarantined_is_applied(place: Place) -> None:
    first = load(
        place,
        (1, "Ann", "INSERT", None),  # repaired below: it has a number then
        (2, "Bob", "INSERT", 1),
        (2, None, "DELETE", None),
        (3, "Cy", "DELETE", None),
        write=SCD2(),
    )
    assert first.records_quarantined == 3

    second = load(
        place,
        (1, "Ann", "INSERT", 2),
        (2, None, "DELETE", 3),
        (3, "Cy", "INSERT", 4),
        write=SCD2(),
    )

    assert (second.records_read, second.records_quarantined) == (3, 0)
    shown = place.rows("id", "name", "is_current")
    assert [row[:2] for row in shown if row[2]] == [(1, "Ann"), (3, "Cy")]


def test_a_bad_event_is_quarantined_once_and_another_one_next_to_it(place: Place) -> None:
    bad = events((1, "Ann", "INSERT", None))
    place.land_lines(bad, "log.json")
    place.land_lines([*events((9, "Zoe", "INSERT", 1))])
    process(place)

    other = events((1, "Ann", "DELETE", None), (2, "Bob", "INSERT", 5))
    place.land_lines([*bad, *other], "log.json")  # the file grew
    again = process(place)

    assert (again.records_read, again.records_quarantined) == (2, 1)
    assert place.quarantined() == [["sequence_num_null"], ["sequence_num_null"]]
    place.land_lines([*events((1, "Ann", "INSERT", None))])  # in another file: another event
    assert process(place).records_quarantined == 1


def test_debezium_events_without_a_row_or_a_position_hide_no_others(place: Place) -> None:
    ann, bob = {"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}
    first = debezium(
        place,
        envelope("c", 10, None, ann),
        envelope("c", 11, None, bob),
        envelope("u", 20, None, None),  # no row: all its columns are null, as a truncate's are
        envelope("d", None, bob, None),  # no position
    )
    assert first.records_quarantined == 2

    assert debezium(place, envelope("d", 30, bob, None)).records_deleted == 1
    assert live(place) == [(1, "Ann")]
    debezium(place, envelope("t", 40, None, None), envelope("u", 41, None, None))

    assert live(place) == []
    assert place.quarantined() == [["log_position_missing"], ["no_row"], ["no_row"]]


def test_a_target_that_an_earlier_version_filled_goes_on(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", None), (2, "Bob", "INSERT", 1), (2, None, "DELETE", None))
    _as_it_was_hashed(place)

    load(place, (1, "Ann", "INSERT", 2), (2, None, "DELETE", 3))

    assert live(place) == [(1, "Ann")]
    assert process(place).records_read == 0


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


def test_a_value_that_could_not_be_read_hides_no_row_that_is_repaired_to_null(
    place: Place,
) -> None:
    def take() -> LoadResult:
        return TimestampBasedLoader(place.spark, place.clock).load_incremental(
            **place.paths, timestamp_column="at", table_name="orders", write=Append()
        )

    place.land_lines([{"id": 1, "price": 5, "at": "2024-05-10T11:00:00Z"}])
    take()
    place.land_lines([{"id": 2, "price": "dear", "at": "2024-05-10T11:30:00Z"}], "late.json")
    assert take().records_quarantined == 1

    place.land_lines([{"id": 2, "price": None, "at": "2024-05-10T11:30:00Z"}], "late.json")

    assert take().records_loaded == 1
    assert place.rows("id", "price") == [(1, 5), (2, None)]
