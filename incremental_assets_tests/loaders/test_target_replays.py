"""Rows in quarantine that are judged again: what passes is loaded and leaves, the others stay."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.loaders import (
    CDCLoader,
    DeleteInsert,
    OverwriteDays,
    Target,
    TimestampBasedLoader,
)
from incremental_assets.quality.rules import (
    between,
    fail,
    quarantine,
    quarantined_share,
    satisfies,
)
from incremental_assets.query import query
from incremental_assets.testing import kill_after_each_write
from incremental_assets.writes import SCD2
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.test_cdc import events
from incremental_assets_tests.loaders.test_target_plans import (
    Of,
    by_log,
    by_sequence,
    by_snapshot,
    by_timestamp,
    land,
    plan,
)
from incremental_assets_tests.thorough import thorough

STRICT = quarantine(satisfies("fine", "id NOT IN (15, 20, 30, 45, 55, 60)"))
MILDER = quarantine(satisfies("fine", "id NOT IN (15, 45, 55, 60)"))


def load(place: Place, of: Of, *numbers: int, **options: Any) -> None:
    if numbers:
        land(place, *numbers)
    of(place, place.spark, **options).load()


def judged(place: Place) -> list[Any]:
    """What lies in quarantine: the batch that put it there, and its loader."""
    return place.rows("_batch", "_table", path=place.target / "_quarantine")


HELD = "loaders/test_target_replays.py: by timestamp, and a log's event in its place"


@pytest.mark.parametrize(
    ("of", "options"),
    [
        pytest.param(by_timestamp, {}, id="timestamp"),
        pytest.param(
            by_sequence, {"primary_key": "id"}, id="sequence, merge", marks=thorough(HELD)
        ),
        pytest.param(by_log, {"write": SCD2()}, id="history of a log", marks=thorough(HELD)),
    ],
)
def test_rows_that_pass_the_rules_of_today_are_loaded_and_leave_quarantine(
    place: Place, of: Of, options: Any
) -> None:
    load(place, of, 1, 15, 20, rules=STRICT, **options)
    land(place, 20)  # once more, in a file of its own
    load(place, of, 30, 40, 45, rules=STRICT, **options)
    quarantined_by_another_loader(place)
    watermark = of(place, place.spark, rules=STRICT, **options).plan().watermark

    # A share of rows that fail does not hold a replay.
    rules = [MILDER, fail(quarantined_share(at_most=0.1))]
    result = of(place, place.spark, rules=rules, **options).replay()

    assert (result.records_inserted, result.records_quarantined) == (2, 2)
    assert (result.watermark_before, result.watermark_after) == (watermark, watermark)
    assert place.rows("id") == [(1,), (20,), (30,), (40,)]
    assert judged(place) == [(3, "orders"), (3, "orders"), *[(9, "other")] * 4]
    assert plan(place, of, rules=rules, **options)[0] == "nothing"
    again = of(place, place.spark, rules=rules, **options).replay()
    assert (again.records_read, again.target_version) == (0, result.target_version)
    last = Ledger(str(place.watermarks)).view().table("orders").committed
    assert [entry.kind for entry in last] == ["advance", "advance", "replay"]


def quarantined_by_another_loader(place: Place) -> None:
    """The same rows, as a loader of the same target by another name had quarantined them."""
    path = str(place.target / "_quarantine")
    batch, table = pl.lit(9).cast(pl.Int64).alias("_batch"), pl.lit("other").alias("_table")
    query(DeltaTable(path)).with_columns(batch, table).write_delta(path, mode="append")


@thorough("loaders/test_target_replays.py: only a row that is tried")
def test_a_row_that_is_repaired_or_gone_at_the_source_stays_in_quarantine(place: Place) -> None:
    load(place, by_timestamp, 1, 20, rules=STRICT)
    load(place, by_timestamp, 30, rules=STRICT)
    (place.source / "part-0001.parquet").unlink()

    result = by_timestamp(place, place.spark, rules=MILDER).replay()

    assert (result.records_read, result.records_loaded) == (1, 1)
    assert place.rows("id") == [(1,), (30,)]
    assert judged(place) == [(3, "orders")]


def trials(place: Place) -> list[Any]:
    """Of each row in quarantine its id, when it was first seen and how often it was tried."""
    rows = place.rows("row", "first_seen", "tried", path=place.target / "_quarantine")
    return sorted((json.loads(row)["id"], since, tried) for row, since, tried in rows)


@thorough(
    "loaders/test_target_replays.py: a quarantine of an older version, of which some rows are "
    "tried; a log's event that passes"
)
@pytest.mark.parametrize("of", [by_timestamp, by_log])
def test_only_a_row_that_is_tried_counts_on_and_each_keeps_the_moment_it_was_first_seen(
    place: Place, of: Of
) -> None:
    load(place, of, 20, rules=STRICT)
    load(place, of, 15, 30, 45, rules=STRICT)
    seen = place.now
    (place.source / "part-0001.parquet").unlink()

    for hour in (1, 2):
        place.now = seen + timedelta(hours=hour)
        mild = quarantine(satisfies("fine", f"id = {15 + 15 * hour}"))
        assert of(place, place.spark, rules=mild).replay().records_loaded == 1

    assert trials(place) == [(15, seen, 3), (20, seen, 1)]
    assert {number for number, _ in judged(place)} == {4}


def as_an_older_version_left_it(path: Path) -> None:
    """The quarantine of a target as it was before it had `first_seen`, `tried` and `details`."""
    table = DeltaTable(str(path))
    rows = query(table, "_batch, _table, _hash, _file, row, reasons").to_arrow()
    last = table.transaction_version("quarantine of orders") or 0
    shutil.rmtree(path)
    number = CommitProperties(app_transactions=[Transaction("quarantine of orders", last)])
    write_deltalake(str(path), rows, commit_properties=number)


@thorough("old_lakes/test_old_lakes.py: targets of an older version")
def test_a_quarantine_of_an_older_version_is_read_added_to_counted_on_and_tidied(
    place: Place,
) -> None:
    land(place, 55)
    load(place, by_timestamp, 1, 15, 20, 300, rules=STRICT)  # one is ahead of the clock
    as_an_older_version_left_it(place.target / "_quarantine")
    assert plan(place, by_timestamp, rules=STRICT)[1].startswith("1 row in quarantine")

    place.now += timedelta(minutes=1)
    added = place.now
    load(place, by_timestamp, 30, 45, rules=STRICT)
    old, new = [(15, None, None), (20, None, None)], [(30, added, 1), (45, added, 1)]
    unseen = (55, None, None)
    assert trials(place) == [*old, *new, unseen, (300, None, None)]
    place.now += timedelta(minutes=1)
    for gone in (1, 3):
        (place.source / f"part-000{gone}.parquet").unlink()
    result = by_timestamp(place, place.spark, rules=MILDER).replay()

    assert (result.records_loaded, result.records_quarantined) == (1, 2)
    assert place.rows("id") == [(1,), (20,)]
    assert trials(place) == [(15, place.now, 1), *new, unseen, (300, place.now, 1)]
    assert judged(place) == [(3, "orders")] * 5


@thorough("loaders/test_target_replays.py, loaders/test_bad_input.py: other rows that are repaired")
def test_a_value_that_could_not_be_read_is_not_loaded_as_null_until_it_is_repaired_to_null(
    place: Place,
) -> None:
    def target(rules: Any = ()) -> Target:
        return TimestampBasedLoader(place.spark, place.clock).target(
            **place.paths, timestamp_column="at", table_name="orders", rules=rules
        )

    def land_rows(name: str, **prices: Any) -> None:
        rows = [{"id": id_, "price": price} for id_, price in prices.items()]
        place.land_lines([{**row, "at": f"2024-05-10T11:00:0{len(name)}Z"} for row in rows], name)

    land_rows("1.json", a=5, b=6)
    target().load()
    land_rows("late.json", c="dear", d=90, e=2.5)
    target(quarantine(between("price", 0, 50))).load()
    assert place.quarantined() == [["price_between"], ["price_unreadable"], ["price_unreadable"]]

    assert target().replay().records_loaded == 1
    assert place.rows("id", "price") == [("a", 5), ("b", 6), ("d", 90)]
    land_rows("late.json", c=None)
    assert target().load().records_loaded == 1
    assert place.rows("id", "price") == [("a", 5), ("b", 6), ("c", None), ("d", 90)]


def test_an_old_event_that_passes_is_put_in_its_place(place: Place) -> None:
    def target(**options: Any) -> Target:
        return CDCLoader(place.spark, place.clock).target(
            place.source, place.target, place.watermarks, "id", "log", **options
        )

    def take(*rows: Any) -> None:
        place.land_lines(events(*rows))
        target(rules=quarantine(between("id", 0, 5)), write=SCD2()).load()

    take((1, "a", "INSERT", 1), (9, "x", "INSERT", 2), (8, "y", "INSERT", 3))
    take((9, None, "DELETE", 7), (None, "keyless", "INSERT", 8))

    result = target(write=SCD2()).replay()

    assert (result.records_read, result.records_quarantined) == (3, 1)
    assert place.rows("id", "name", "valid_from", "valid_to") == [
        (1, "a", 1, None),
        (8, "y", 3, None),
        (9, "x", 2, 7),
    ]
    assert place.quarantined() == [["id_null"]]


def test_a_snapshot_is_judged_again_by_each_load_and_its_quarantine_tidied(place: Place) -> None:
    load(place, by_snapshot, 1, 20, 60, rules=STRICT)
    assert len(place.quarantined()) == 2

    result = by_snapshot(place, place.spark, rules=MILDER).replay()

    assert result.records_inserted == 1
    assert place.rows("id") == [(1,), (20,)]
    assert len(place.quarantined()) == 1


@pytest.mark.parametrize("write", [DeleteInsert(), OverwriteDays("seq")])
def test_a_target_that_would_lose_rows_by_a_replay_is_refused(place: Place, write: Any) -> None:
    options = {"primary_key": "id", "write": write, "partition_by": "seq"}
    with pytest.raises(DefinitionError, match="would replace loaded rows"):
        by_timestamp(place, place.spark, **options).replay()


@pytest.mark.parametrize(
    ("of", "options"),
    [
        pytest.param(by_timestamp, {}, id="append"),
        pytest.param(
            *(by_log, {"write": SCD2()}),
            id="log, history",
            marks=thorough(
                "loaders/test_target_replays.py, loaders/test_killed_at_each_commit.py: "
                "appended rows"
            ),
        ),
    ],
)
def test_a_replay_that_dies_after_any_commit_goes_on_and_ends_as_if_it_had_not(
    place: Place, of: Of, options: Any
) -> None:
    load(place, of, 1, 20, 30, 55, rules=STRICT, **options)
    seen = place.now

    kills = kill_after_each_write(lambda: of(place, place.spark, rules=MILDER, **options).replay())

    assert kills >= 4  # it claims, puts what stays into quarantine, publishes and records
    assert place.rows("id") == [(1,), (20,), (30,)]
    assert trials(place) == [(55, seen, 2)]
