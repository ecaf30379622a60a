"""The operations on a target in other orders, on other sources, and with other options than before."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import DefinitionError, GateError, LakeError
from incremental_assets.loaders import CDCLoader, ReplaceDay, Target
from incremental_assets.quality.rules import between, fail, quarantine, satisfies
from incremental_assets.sources.stored_delta import FixedDelta
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Merge, WriteStrategy
from incremental_assets_tests.loaders.conftest import NOON, Place
from incremental_assets_tests.loaders.crashes import CRASHES
from incremental_assets_tests.loaders.test_cdc import SCHEMA as LOG
from incremental_assets_tests.loaders.test_cdc import events
from incremental_assets_tests.loaders.test_target_plans import (
    SCHEMA,
    NoSpark,
    by_sequence,
    by_snapshot,
    by_timestamp,
    land,
)
from incremental_assets_tests.thorough import thorough

NO_SPARK: Any = NoSpark()
START = NOON - timedelta(minutes=40)  # of the row 20
NOT_20 = quarantine(satisfies("not_20", "id != 20"))


def land_rows(place: Place, *rows: tuple[int, int | None]) -> None:
    """Rows of an id and a number."""
    start = NOON - timedelta(hours=1)
    named = [(i, seq, "INSERT", start + timedelta(minutes=i)) for i, seq in rows]
    place.land([dict(zip(SCHEMA, row, strict=True)) for row in named], SCHEMA)


def fill(place: Place, *numbers: int) -> None:
    """A target that was filled by other means."""
    land(place, *numbers)
    pl.read_parquet(place.source / "*.parquet").write_delta(place.target)


def log(place: Place, **options: Any) -> Target:
    return CDCLoader(place.spark, place.clock).target(
        place.source, place.target, place.watermarks, "id", "log", **options
    )


def write_log(place: Place, *rows: Any, mode: Any = "append") -> None:
    """A commit of a log in a Delta table."""
    place.source.mkdir(exist_ok=True)
    frame = pl.DataFrame(events(*rows), schema=LOG, orient="row")
    frame.write_delta(str(place.source), mode=mode)


# What a sequence reads


def test_rows_without_a_number_are_loaded_once_and_those_that_share_one_together(
    place: Place,
) -> None:
    def take(**options: Any) -> int:
        return by_sequence(place, place.spark, nulls="include", **options).load().records_read

    land_rows(place, (1, None), (2, None))
    assert take() == 2
    land_rows(place, (3, 1), (4, 2), (5, 2), (6, 2), (7, 3))

    assert [take(max_records=2) for _ in range(2)] == [4, 1]
    assert place.rows("id") == [(1,), (2,), (3,), (4,), (5,), (6,), (7,)]


# A target that was filled by other means


@thorough("loaders/test_target_rewinds.py: a lookback and a rewind by timestamp")
@pytest.mark.parametrize(
    ("of", "options", "start"),
    [
        (by_timestamp, {"lookback": timedelta(minutes=30)}, START),
        (by_sequence, {"lookback": 30}, 20),
    ],
    ids=["timestamp", "sequence"],
)
def test_a_lookback_and_a_rewind_do_not_reach_below_the_start(
    place: Place, of: Any, options: Any, start: Any
) -> None:
    fill(place, 10, 20)
    land(place, 30)
    of(place, place.spark, start_from=start, **options).load()
    assert place.rows("id") == [(10,), (20,), (30,)]
    land(place, 40)
    of(place, place.spark, **options).load()  # the ledger knows the watermark by now
    assert place.rows("id") == [(10,), (20,), (30,), (40,)]
    target = of(place, place.spark, **options)

    target.rewind(0, "to see")
    target.load()

    assert place.rows("id") == [(10,), (20,), (30,), (40,)]
    assert target.verify().equal


# Rewinds and replays, one after another


def test_the_watermark_returns_after_rewinds_replays_and_bounded_loads(place: Place) -> None:
    land(place, 10, 20, 30)
    by_timestamp(place, place.spark, rules=NOT_20).load()
    land(place, 5, 6)
    target = by_timestamp(place, place.spark, max_records=1)
    before = target.plan().watermark

    target.rewind(0, "rows came late")
    target.rewind(0, "and again")
    assert target.replay().records_loaded == 1
    with pytest.raises(DefinitionError, match="rewound"):
        target.verify()
    assert target.load().records_loaded == 1
    assert by_timestamp(place, place.spark).load().records_loaded == 1

    assert target.plan().watermark == before
    assert target.verify().equal
    assert place.rows("id") == [(10,), (20,), (30,), (5,), (6,)]


# Days that are read whole

DAYS = {"id": pl.Int64, "day": pl.Date, "at": pl.Datetime("us", "UTC")}


def by_day(place: Place, **options: Any) -> Target:
    return by_timestamp(place, place.spark, partition_by="day", write=ReplaceDay("day"), **options)


def land_day(place: Place, *rows: tuple[int, int | None]) -> None:
    """Rows of one day: an id, and the minutes of the timestamp."""
    start = NOON - timedelta(hours=1)
    named = [
        (i, date(2024, 5, 10), None if m is None else start + timedelta(minutes=m)) for i, m in rows
    ]
    place.land([dict(zip(DAYS, row, strict=True)) for row in named], DAYS)


def test_a_day_that_is_read_again_is_judged_with_all_its_rows(place: Place) -> None:
    land_day(place, (1, 1), (20, 2), (2, None))
    by_day(place, nulls="quarantine").load()
    land_day(place, (3, 30), (5, 0), (4, 1))  # two came late
    strict = satisfies("no_late_5", "id != 5")

    with pytest.raises(GateError, match="no_late_5"):
        by_day(place, nulls="raise", rules=fail(strict)).load()
    assert place.rows("id") == [(1,), (20,)]
    rules = (*NOT_20, *quarantine(strict))
    by_day(place, nulls="raise", rules=rules).load()

    # Neither the row that was quarantined before nor a loaded one that breaks a new rule.
    assert place.rows("id") == [(1,), (3,), (4,)]
    assert place.quarantined() == [["at_null"], ["no_late_5"], ["not_20"]]
    assert by_day(place, nulls="quarantine", rules=quarantine(strict)).replay().records_read == 3
    assert place.rows("id") == [(1,), (20,), (3,), (4,)]


# Logs


@thorough("loaders/test_debezium_log.py: a loader's log")
def test_files_and_lines_that_are_no_event_hold_up_no_log(place: Place) -> None:
    place.land_lines([], "0.json")
    place.land_lines([])
    place.land_lines(events((1, "a", "INSERT", 1)))
    assert log(place, max_records=1).load().records_read == 1
    place.land_lines(["torn {"])
    assert log(place).load().records_read == 1
    for lines in ("\n", ""):
        place.land_lines([]).write_text(lines)
    assert log(place).load().records_read == 0

    assert log(place).plan().status == "nothing"
    assert log(place).verify().equal
    assert place.quarantined() == [["line_unreadable"]]
    place.land_lines(events((1, "b", "UPDATE", 2)))
    log(place).load()
    assert place.rows("id", "name") == [(1, "b")]


def test_a_delta_log_of_another_kind_of_fingerprint_is_another_table() -> None:
    fixed = FixedDelta("/nowhere", 3, "/nowhere")
    assert not fixed.is_same_table("files of another")
    assert fixed.is_same_table("")


@thorough("loaders/test_target_operations.py: Debezium's log with history, in Delta")
@pytest.mark.parametrize("write", [Merge(), SCD2()], ids=["merge", "history"])
def test_a_delta_log_is_verified_replayed_and_rewound(place: Place, write: WriteStrategy) -> None:
    strict: Any = {"write": write, "rules": quarantine(between("id", 0, 5))}
    today = log(place, write=write)
    write_log(place, (1, "a", "INSERT", 1), (9, "x", "INSERT", 2), (None, "no key", "INSERT", 3))
    log(place, **strict).load()
    write_log(place, (1, "b", "UPDATE", 5), (2, "c", "erase", 6), (2, "c", "INSERT", 4))
    log(place, **strict).load()

    assert log(place, **strict).verify().equal
    assert today.replay().records_inserted == 1
    assert (9, "x") in place.rows("id", "name")
    assert today.verify().equal
    erased = log(place, write=write, operations={"erase": "delete"})
    assert erased.replay().records_deleted == 1
    assert erased.verify().equal
    before = place.rows("id", "name")
    erased.rewind(1, "to see")
    assert (erased.load().records_loaded, place.rows("id", "name")) == (0, before)
    assert erased.verify().equal
    assert place.quarantined() == [["id_null"]]

    DeltaTable(str(place.source)).delete("id = 9")  # old events are cleaned up
    erased.load()
    found = erased.verify()
    assert (found.equal, found.rows.not_judged) == (True, 1)
    DeltaTable(str(place.target)).update({"name": "'z'"}, predicate="id = 1")
    assert not erased.verify().equal


def envelope(op: str, before: Any, after: Any, lsn: int | None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}


ENVELOPES = (
    (
        envelope("c", None, {"id": 1, "name": "a"}, 10),
        envelope("c", None, {"id": 9, "name": "x"}, 11),
        envelope("c", None, {"id": 3, "name": "c"}, 12),
    ),
    (
        envelope("u", {"id": 9, "name": "x"}, {"id": 9, "name": "y", "more": 1}, 20),
        envelope("d", {"id": 3, "name": "c"}, None, 21),
        envelope("u", {"id": 1, "name": "a"}, {"id": 4, "name": "a"}, 22),
        envelope("?", None, {"id": 5, "name": "e"}, 23),
    ),
)


@thorough("feeds/test_rewind.py, feeds/test_replay.py, loaders/test_target_verified.py: one by one")
@pytest.mark.parametrize(
    ("stored", "write"),
    [
        pytest.param(
            *("files", Merge()),
            marks=thorough("loaders/test_target_operations.py: the same with history, in Delta"),
        ),
        ("delta", SCD2()),
    ],
    ids=["merge-files", "history-delta"],
)
def test_a_debezium_log_is_verified_replayed_and_rewound(
    place: Place, stored: str, write: WriteStrategy
) -> None:
    options: Any = {"cdc_format": "debezium", "write": write}
    rules = quarantine(between("id", 0, 5))
    today = log(place, **options)
    for number, lines in enumerate(ENVELOPES):
        if stored == "files":
            place.land_lines(lines, f"part {number} 50%ä.json")
        else:
            place.source.mkdir(exist_ok=True)
            texts = pl.DataFrame({"value": [json.dumps(line) for line in lines]})
            texts.write_delta(str(place.source), mode="append")
        log(place, rules=rules, **options).load()

    assert log(place, rules=rules, **options).verify().equal
    assert today.replay().records_read == 3
    assert (9, "y") in place.rows("id", "name")
    before = place.rows("id", "name")
    today.rewind(0, "to see")
    assert (today.load().records_loaded, place.rows("id", "name")) == (0, before)
    assert today.verify().equal
    assert place.quarantined() == [["unknown_operation"]]


# Snapshots


def test_a_snapshot_that_another_target_keeps_is_refused(place: Place) -> None:
    first = {"target": place.target, "name": "orders", "watermarks": place.watermarks}
    second: Any = {"target": place.folder / "second", "name": "second"}
    land(place, 1, 2)
    other_snapshot(place, **first).load()

    with pytest.raises(LakeError, match="snapshot"):
        other_snapshot(place, **second).load()
    with pytest.raises(LakeError, match="snapshot"):
        other_snapshot(place, **second).plan()
    assert not second["target"].exists()
    shutil.rmtree(place.watermarks)
    assert other_snapshot(place, **first).load().records_read == 0  # they go together
    shutil.rmtree(place.watermarks, ignore_errors=True)
    place.snapshot.rename(place.folder / "kept")
    with pytest.raises(LakeError, match=r"holds rows already.*would stay for ever"):
        other_snapshot(place, **first).load()
    (place.folder / "kept").rename(place.snapshot)
    shutil.rmtree(place.target)
    with pytest.raises(LakeError, match="snapshot"):
        other_snapshot(place, **first).load()


def test_a_plan_knows_a_snapshot_that_a_dead_first_load_moved_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(place, 1, 2)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(load_module, *CRASHES["when its rows are staged"])
        by_snapshot(place, place.spark).load()

    assert by_snapshot(place, NO_SPARK).plan().unsettled == 1
    by_snapshot(place, place.spark).load()
    assert place.rows("id") == [(1,), (2,)]


def other_snapshot(place: Place, target: Path, name: str, watermarks: Path | None = None) -> Target:
    from incremental_assets.loaders import DeltaDiffLoader

    return DeltaDiffLoader(place.spark, place.clock).target(
        place.source, target, place.snapshot, "id", name, watermarks or place.folder / "others"
    )


# Paths


def test_one_path_for_two_tables_is_refused(place: Place) -> None:
    with pytest.raises(DefinitionError, match="the path of several"):
        CDCLoader(NO_SPARK).target(place.source, place.target, place.target, "id", "log")
    with pytest.raises(DefinitionError, match="the path of several"):
        CDCLoader(NO_SPARK).target(place.target, place.target, place.watermarks, "id", "log")
