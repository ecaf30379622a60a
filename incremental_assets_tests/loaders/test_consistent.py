"""Inconsistent watermarks and target of a loader are reported, never repaired."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets.delta.delta_log import find_commit
from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import LedgerError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.loaders import LoadResult, TimestampBasedLoader
from incremental_assets_tests.loaders.conftest import NOON, Place

SCHEMA = {"id": pl.Int64, "at": pl.Datetime("us", "UTC")}


def load(place: Place) -> LoadResult:
    return TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths, timestamp_column="at", table_name="orders", primary_key="id"
    )


def land(place: Place, id_: int) -> None:
    place.land([{"id": id_, "at": NOON - timedelta(hours=9 - id_)}], SCHEMA)


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two loads, and a third file; target and watermarks are copied between them."""
    place = Place(spark, tmp_path_factory.mktemp("loaded") / "place")
    place.folder.mkdir()
    land(place, 1)
    load(place)
    for path in (place.target, place.watermarks):
        shutil.copytree(path, place.folder / "copy" / path.name)
    land(place, 2)
    load(place)
    land(place, 3)
    shutil.copytree(place.folder, place.folder.with_name("as it was"))
    return place


@pytest.fixture
def twice(loaded: Place) -> Place:
    """The place as it was after the two loads."""
    shutil.rmtree(loaded.folder)
    shutil.copytree(loaded.folder.with_name("as it was"), loaded.folder)
    return loaded


def put_back(place: Place, path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(place.folder / "copy" / path.name, path)


def entries(place: Place) -> tuple[Entry, ...]:
    return Ledger(str(place.watermarks)).view().table("orders").entries


def test_older_watermarks_are_reported_and_nothing_is_loaded(twice: Place) -> None:
    place = twice
    put_back(place, place.watermarks)

    for _ in range(2):
        with pytest.raises(LedgerError) as raised:
            load(place)
        assert f"{place.target} holds batch 2" in str(raised.value)
        assert f"{place.watermarks} knows none after 1" in str(raised.value)
        assert "another watermark_path" in str(raised.value)

    assert [e.batch for e in entries(place)] == [1, 1]
    assert place.rows("id") == [(1,), (2,)]

    claim = replace(entries(place)[0], batch=2, token="another")
    assert claim.state == "claimed"
    Ledger(str(place.watermarks)).transact(lambda _: [claim])
    with pytest.raises(LedgerError, match=r"batch 2 .* is not the one"):
        load(place)


def test_an_older_target_or_none_is_reported_and_not_started_again(twice: Place) -> None:
    place = twice
    put_back(place, place.target)
    with pytest.raises(
        LedgerError, match=r"target holds no batch after 1, and .* that batch 2 was"
    ):
        load(place)

    shutil.rmtree(place.target)
    with pytest.raises(LedgerError, match=r"target is gone, and .* that batch 2 was"):
        load(place)
    assert not place.target.exists()


def test_new_watermarks_for_a_target_with_a_key_read_everything_again(twice: Place) -> None:
    place = twice
    shutil.rmtree(place.watermarks)

    load(place)

    assert place.rows("id") == [(1,), (2,), (3,)]
    assert [e.batch for e in entries(place)] == [3, 3]


def test_claim_and_commit_carry_the_same_token(place: Place) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    land(place, 1)
    with pytest.MonkeyPatch.context() as older_program:
        older_program.setattr(load_module, "new_token", lambda: "")
        with pytest.MonkeyPatch.context() as dying, pytest.raises(KeyboardInterrupt):
            dying.setattr(load_module, "record", die)
            load(place)
    land(place, 2)
    load(place)  # it settles the first as its program would have

    assert [(e.batch, e.state) for e in entries(place)][1::2] == [
        (1, "committed"),
        (2, "committed"),
    ]
    last = entries(place)[-1]
    notes = [find_commit(str(place.target), "orders", batch) for batch in (1, 2)]
    assert [note.note.get("token", "") for note in notes if note] == ["", last.token]
    assert len(last.token) == 16
