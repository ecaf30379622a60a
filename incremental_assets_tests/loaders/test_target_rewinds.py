"""A watermark that was lowered: the source is read again from there, and no row comes twice."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes.target_state import TargetState
from incremental_assets.engine import target_steps
from incremental_assets.errors import DefinitionError, SourceError, WatermarkError
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.loaders import (
    DeleteInsert,
    SequenceBasedLoader,
    read_watermarks,
)
from incremental_assets.testing import kill_after_each_write
from incremental_assets.writes import SCD2, Append
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.loaders.test_target_plans import (
    SCHEMA,
    Of,
    by_log,
    by_sequence,
    by_snapshot,
    by_timestamp,
    land,
    plan,
)
from incremental_assets_tests.thorough import thorough

NO_SPARK: Any = None


def load(place: Place, of: Of, *numbers: int, **options: Any) -> int:
    """Land rows and load; how many were loaded."""
    if numbers:
        land(place, *numbers)
    return of(place, place.spark, **options).load().records_loaded


@thorough(
    "loaders/test_target_operations.py, loaders/test_target_rewinds.py: "
    "the watermark that returns, and loads that are bounded"
)
@pytest.mark.parametrize(("of", "to"), [(by_timestamp, 0), (by_sequence, 1)])
def test_an_append_target_that_is_rewound_gets_what_it_missed_and_nothing_twice(
    place: Place, of: Of, to: int
) -> None:
    load(place, of, 10, 20)
    load(place, of, 30, 40)
    assert load(place, of, 5 if to == 0 else 25) == (0 if of is by_timestamp else to)

    rewound = of(place, NO_SPARK).rewind(to, "rows came late")

    assert (rewound.to, bool(rewound.watermark)) == (to, to > 0)
    assert plan(place, of)[0] == "new"
    late = [(5,)] if to == 0 else [(25,)]
    load(place, of, max_records=1)
    load(place, of)
    load(place, of)
    load(place, of, 50)
    assert place.rows("id") == sorted([(10,), (20,), (30,), (40,), (50,), *late], key=str)


NUMBERS = thorough("loaders/test_target_rewinds.py: by timestamp, and loads that are bounded")


@pytest.mark.parametrize("of", [by_timestamp, pytest.param(by_sequence, marks=NUMBERS)])
def test_a_load_that_finds_nothing_missing_ends_the_rewind(place: Place, of: Of) -> None:
    load(place, of, 10, 20)
    before = of(place, NO_SPARK).plan().watermark
    of(place, NO_SPARK).rewind(0, "to see")

    again = of(place, place.spark).load()

    assert (again.records_loaded, again.watermark_after) == (0, before)
    assert plan(place, of)[0] == "nothing"
    assert of(place, place.spark).verify().equal
    assert place.rows("id") == [(10,), (20,)]


def test_loads_that_are_bounded_bring_every_row_that_was_missed(place: Place) -> None:
    load(place, by_sequence, 10, 20, 30, max_gaps=1)
    assert load(place, by_sequence, 12, 13, max_gaps=1) == 0  # their gap is given up
    by_sequence(place, NO_SPARK).rewind(0, "rows came late")

    for number in (12, 13):
        assert load(place, by_sequence, max_gaps=1, max_records=1) == 1, number
    last = by_sequence(place, place.spark, max_gaps=1, max_records=1).load()

    assert (last.records_loaded, last.watermark_after) == (0, "30")
    assert place.rows("id") == [(10,), (12,), (13,), (20,), (30,)]


def test_a_rewind_to_a_moment_stands_in_the_ledger_and_makes_no_gaps(place: Place) -> None:
    load(place, by_sequence, 1, 2, 3)
    place.now += timedelta(hours=1)
    load(place, by_sequence, 4, 5)
    place.now += timedelta(hours=1)

    by_sequence(place, NO_SPARK).rewind(NOON + timedelta(minutes=1), "half of it was late")

    marks = read_watermarks(place.spark, place.watermarks).collect()
    assert [row["watermark_value"] for row in marks] == ["3"]
    last = Ledger(str(place.watermarks)).tail("orders").last
    assert last is not None
    assert (last.kind, last.why, last.low, last.day) == (
        "rewind",
        "half of it was late",
        "5",
        date(2024, 5, 10),
    )
    assert last.recorded_at == datetime(2024, 5, 10, 14, tzinfo=UTC)
    # The numbers that were loaded are no gaps, though the watermark is below them.
    assert load(place, by_sequence, 6, on_gap="fail") == 1
    # Nor does a start that is named later move it.
    assert load(place, by_sequence, 7, start_from=9) == 1
    assert place.rows("id") == [(n,) for n in (1, 2, 3, 4, 5, 6, 7)]


def test_a_target_that_was_filled_by_other_means_is_not_read_below_its_start(place: Place) -> None:
    start = NOON - timedelta(minutes=50)
    filled = pl.DataFrame({"id": [10], "seq": [10], "operation": ["x"], "at": [start]})
    filled.with_columns(pl.col("at").cast(pl.Datetime("us", "UTC"))).write_delta(place.target)
    load(place, by_timestamp, 10, 20, start_from=start)
    # A lookback stops there, too, also when the ledger knows a watermark.
    assert load(place, by_timestamp, 30, lookback=timedelta(hours=1)) == 1

    rewound = by_timestamp(place, NO_SPARK, start_from=start).rewind(0, "to see")

    assert rewound.watermark == "2024-05-10T11:10:00.000000Z"
    assert load(place, by_timestamp, start_from=start) == 0
    assert place.rows("id") == [(10,), (20,), (30,)]


def test_a_start_that_an_older_version_did_not_record_is_taken_from_the_first_batch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = NOON - timedelta(minutes=50)
    with monkeypatch.context() as older:
        older.setattr(target_steps, "START", "not_recorded")
        load(place, by_timestamp, 10, 20, start_from=start)

    assert load(place, by_timestamp, lookback=timedelta(hours=1), start_from=start) == 0
    assert place.rows("id") == [(20,)]


def test_the_start_is_that_of_the_first_batch_whatever_a_later_one_recorded() -> None:
    first: Any = SimpleNamespace(low="", high="5", position="")
    later: Any = SimpleNamespace(low="5", high="9", position='{"start": "7"}')
    history: Any = SimpleNamespace(committed=(first, later), files_read={})
    target = TargetState("orders", "target", Append())

    assert target.with_ledger(later, None).start == "7"
    assert target.with_ledger(later, history).start == ""


def test_a_sequence_whose_own_watermark_stays_empty_loads_no_row_twice(place: Place) -> None:
    class Nothing(SequenceBasedLoader):
        def next_watermark(self, before: Any, seen: Any) -> Any:
            return None

    def read() -> int:
        loader = Nothing(place.spark, place.clock)
        return loader.load_incremental(
            **place.paths, sequence_column="seq", table_name="orders"
        ).records_loaded

    land(place, 1, 2)
    assert read() == 2
    assert read() == 0
    assert place.rows("id") == [(1,), (2,)]


@thorough("feeds/test_rewind.py, loaders/test_target_rewinds.py: other sources")
def test_a_log_is_read_again_from_the_files_of_later_batches(place: Place) -> None:
    """They hold a truncate, which stays known."""
    history: Any = {"write": SCD2()}
    load(place, by_log, 1, **history)
    place.land([{"id": None, "seq": 5, "operation": "TRUNCATE", "at": NOON}], SCHEMA)
    by_log(place, place.spark, **history).load()
    log = by_log(place, NO_SPARK, **history)

    assert log.rewind(1, "the file was repaired in place").files == ("part-0002.parquet",)

    assert plan(place, by_log, **history)[0] == "new"
    with pytest.raises(DefinitionError, match="holds versions of each key"):
        load(place, by_log)
    land(place, 3)  # older than the truncate
    assert by_log(place, place.spark, **history).load().records_read == 2
    assert place.rows("id", "valid_from", "valid_to") == [(1, 1, 5), (3, 3, 5)]
    assert plan(place, by_log, **history)[0] == "nothing"

    before = Ledger(str(place.watermarks)).tail("orders").last_batch
    (place.source / "part-0002.parquet").unlink()
    with pytest.raises(SourceError, match=r"1 of the 2 files .* missing .*part-0002"):
        log.rewind(1, "to see")
    assert Ledger(str(place.watermarks)).tail("orders").last_batch == before


def test_what_cannot_be_rewound_is_refused(place: Place) -> None:
    with pytest.raises(DefinitionError, match="snapshot overwrites the one before"):
        by_snapshot(place, NO_SPARK).rewind(0, "to see")
    with pytest.raises(DefinitionError, match="would be lost"):
        by_sequence(place, NO_SPARK, primary_key="id", write=DeleteInsert()).rewind(0, "to see")
    with pytest.raises(DefinitionError, match="needs a reason"):
        by_sequence(place, NO_SPARK).rewind(0, " ")
    with pytest.raises(WatermarkError, match="nothing was loaded after batch 0"):
        by_sequence(place, NO_SPARK).rewind(0, "to see")
    load(place, by_sequence, 1)
    for to in (2, -1):
        with pytest.raises(WatermarkError, match="has no batch"):
            by_sequence(place, NO_SPARK).rewind(to, "to see")
    for to in ("2024-05-10", True):
        with pytest.raises(DefinitionError, match="neither the number of a batch nor a datetime"):
            by_sequence(place, NO_SPARK).rewind(to, "to see")
    with pytest.raises(WatermarkError, match="is in the future"):
        by_sequence(place, NO_SPARK).rewind(NOON + timedelta(days=1), "to see")


def test_a_rewind_and_the_load_after_it_may_die_anywhere(place: Place) -> None:
    load(place, by_sequence, 10, 20)
    land(place, 5)

    def both() -> None:
        target = by_sequence(place, place.spark)
        if target.plan().watermark == "20":
            target.rewind(0, "rows came late")
        target.load()

    assert kill_after_each_write(both) >= 4
    assert place.rows("id") == [(10,), (20,), (5,)]
