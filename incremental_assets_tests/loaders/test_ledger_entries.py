"""What the ledger says of a load, also where a later one had to find it out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import ConflictError
from incremental_assets.ledger.entry import Entry, Touched, Window
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.loaders import OverwriteDays, TimestampBasedLoader
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.loaders.stories import MAY_1, MAY_2

SCHEMA = {"id": pl.Int64, "day": pl.Date, "at": pl.Datetime("us", "UTC")}


def load(place: Place) -> None:
    TimestampBasedLoader(place.spark, place.clock).load_incremental(
        **place.paths,
        timestamp_column="at",
        table_name="orders",
        write=OverwriteDays("day"),
        partition_by="day",
    )


def land(place: Place) -> int:
    days = (MAY_1, MAY_1, MAY_2)
    rows = [{"id": n, "day": day, "at": NOON - timedelta(hours=1)} for n, day in enumerate(days)]
    return place.land(rows, SCHEMA).stat().st_size


def entry_of(place: Place) -> Entry:
    last = Ledger(str(place.watermarks)).tail("orders").last
    assert last is not None
    return last


def _killed(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("settled", [False, True], ids=["recorded", "settled"])
def test_an_entry_says_what_was_read_and_what_it_touched(
    place: Place, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = land(place)
    if settled:
        with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
            dying.setattr(load_module, "record", _killed)
            load(place)

    load(place)

    entry = entry_of(place)
    assert (entry.state, entry.kind, entry.detector) == ("committed", "advance", "timestamp")
    assert (entry.low, entry.high) == ("", "2024-05-10T11:00:00.000000Z")
    assert entry.windows == (Window(str(place.source), 0, 0),)
    assert (entry.rows_read, entry.rows_inserted, entry.bytes) == (3, 3, size)
    assert entry.touched == (Touched(MAY_1, 2), Touched(MAY_2, 1))
    assert entry.why == ("(settled)" if settled else "")
    assert entry.who


def test_an_outcome_that_the_ledger_does_not_take_is_an_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that commits nothing can be abandoned by another load, where there is no lock."""
    place.land([{"id": 1, "day": None, "at": NOON + timedelta(days=9)}], SCHEMA)
    record = load_module.record

    def given_up(ledger: Ledger, table: str, outcome: Any) -> None:
        record(ledger, table, [replace(one, state="abandoned") for one in outcome])
        record(ledger, table, outcome)

    monkeypatch.setattr(load_module, "record", given_up)
    with pytest.raises(ConflictError, match="orders: batch 1 was abandoned by another run"):
        load(place)
