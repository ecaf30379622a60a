"""Watermarks that somebody lowers: what came since is loaded again, once, from every source."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from incremental_assets.changes import ChangeLog, SnapshotDiff
from incremental_assets.days import DayRange, parse_days
from incremental_assets.errors import DefinitionError, WatermarkError
from incremental_assets.operations.rewind import Rewound, TableRewind
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Append
from incremental_assets_tests.feeds import test_change_log as logs
from incremental_assets_tests.feeds import test_sequence as sequences
from incremental_assets_tests.feeds import test_timestamp as stamps
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_interrupted import die
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

NEXT = "2017-01-06"
NEXT_DAY = date(2017, 1, 6)
NOON = f"{NEXT}T12:00"


def back(lake: Lake, name: str, to: int | datetime = 0, days: DayRange | None = None) -> Rewound:
    return TableRewind(lake.lakehouse, lake.tables[name]).record(to, "a till counted twice", days)


def two_days(lake: Lakes) -> Lake:
    """Two days, each loaded by a batch of its own."""
    made = lake(landed("bookings"), bookings(), per_train())
    made.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("b", "2", "t2")])
    made.load(DAY)
    made.land(
        "bookings", NEXT, "1.jsonl", [booking("c", "3", at=NOON), booking("d", "4", "t2", at=NOON)]
    )
    made.load(NEXT)
    return made


@pytest.fixture
def station(lake: Lakes) -> Lake:
    return lake.copy_of(two_days)


def content(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    return {
        "bronze": lake.bronze("bronze/bookings", "id"),
        "silver": lake.rows("silver/bookings", "id", "train", "dt"),
        "gold": lake.rows("gold/per_train", "train", "dt"),
    }


def test_files_that_were_loaded_since_are_loaded_again_and_replace_their_rows(
    station: Lake,
) -> None:
    before = content(station)
    done = back(station, "bronze/bookings", 1)

    assert (done.to, done.days) == (1, (date(2017, 1, 6),))
    assert [Path(file).name for file in done.files] == ["1.jsonl"]
    assert station.pending_days("bronze/bookings") == [NEXT]
    results = station.load(f"{DAY}...{NEXT}", "bronze/bookings")
    assert states(results, "bronze/bookings") == ["idle", "committed"]
    (entry,) = results["bronze/bookings"].days[date(2017, 1, 6)].entries
    assert (entry.kind, entry.mode, entry.rows_read) == ("restate", "rebuild", 2)
    assert "1 file again: rewound by" in entry.why
    assert "a till counted twice" in entry.why
    assert set(station.stale()) == {"silver/bookings"}
    station.load_stale()
    assert content(station) == before
    assert station.pending_days("bronze/bookings") == []


def test_a_file_that_was_archived_keeps_its_rows(station: Lake) -> None:
    before = content(station)
    (station.source("bookings") / NEXT / "1.jsonl").unlink()
    back(station, "bronze/bookings")

    assert station.pending_days("bronze/bookings") == [DAY]
    station.load(f"{DAY}...{NEXT}")
    station.load_stale()
    assert content(station) == before


def test_a_silver_day_is_rebuilt_and_its_shares_count_each_row_once(station: Lake) -> None:
    before = content(station)
    done = back(station, "silver/bookings", 0, parse_days(NEXT))

    assert [str(day) for day in done.days] == [NEXT]
    assert station.stale() == {"silver/bookings": [NEXT]}
    results = station.load(f"{DAY}...{NEXT}", "silver/bookings")
    (entry,) = results["silver/bookings"].days[date(2017, 1, 6)].entries
    assert (entry.kind, entry.mode, entry.rows_counted) == ("restate", "rebuild", 2)
    station.load_stale()
    assert content(station) == before
    assert station.stale() == {}


def test_a_gold_day_is_rebuilt(station: Lake) -> None:
    before = content(station)
    back(station, "gold/per_train", 1)
    assert station.stale() == {"gold/per_train": [NEXT]}

    station.load_stale()

    assert content(station) == before
    assert station.stale() == {}


def test_the_old_record_stays_and_says_who_lowered_the_watermark_and_why(station: Lake) -> None:
    name = "silver/bookings"
    records = station.lakehouse.ledger.view().table(name).entries
    back(station, name, 1)

    history = station.lakehouse.ledger.view().table(name)
    assert history.entries[: len(records)] == records
    (entry,) = history.entries[len(records) :]
    assert (entry.state, entry.kind, entry.day) == ("committed", "rewind", date(2017, 1, 6))
    assert entry.why == "a till counted twice"
    assert entry.who
    assert history.watermark("bronze/bookings", date(2017, 1, 6)) == 0
    assert history.loads[-1].batch == 2  # it is no load


@thorough("loaders/test_target_rewinds.py: a loader's, by the same detector")
def test_rows_that_a_timestamp_passed_over_are_read_from_the_lower_watermark(lake: Lakes) -> None:
    made = lake(*stamps.tables())
    first = stamps.orders(("a", "new", "05 10:00"), ("b", "new", "05 12:00"))
    made.put_parquet("orders", "1.parquet", first)
    made.load(DAY, "bronze/orders")
    made.put_parquet("orders", "2.parquet", stamps.orders(("c", "new", "05 14:00")))
    made.load(DAY, "bronze/orders")
    made.put_parquet("orders", "3.parquet", stamps.orders(("late", "new", "05 11:00")))
    made.load(DAY)
    assert len(made.rows("silver/orders", "order_id")) == 3  # it came below the watermark
    back(made, "bronze/orders", 0)

    assert made.pending_days("bronze/orders") == [DAY]
    made.load(DAY)

    assert made.bronze("bronze/orders", "order_id") == [
        (DAY, each) for each in ("a", "b", "c", "late")
    ]
    assert made.rows("silver/orders", "order_id") == [("a",), ("b",), ("c",), ("late",)]
    assert made.pending_days("bronze/orders") == []


@thorough("loaders/test_target_rewinds.py, feeds/test_sequence.py: gaps, and rewinds")
def test_a_sequence_goes_on_from_the_gaps_it_knew(lake: Lakes) -> None:
    made = lake(*sequences.tables())
    made.put_parquet(
        "movements", "1.parquet", sequences.movements((1, "05 10:00"), (3, "05 11:00"))
    )
    made.load(DAY, "bronze/movements")
    made.put_parquet("movements", "2.parquet", sequences.movements((4, "05 12:00")))
    made.load(DAY, "bronze/movements")
    assert sequences.landed(made) == [1, 3, 4]
    back(made, "bronze/movements", 1)
    made.put_parquet("movements", "3.parquet", sequences.movements((2, "05 10:30")))

    made.load(DAY, "bronze/movements")

    assert sequences.landed(made) == [1, 2, 3, 4]
    assert made.pending_days("bronze/movements") == []


@thorough(
    "feeds/test_rewind.py, feeds/test_snapshots.py: files that are rewound, damaged snapshots"
)
def test_a_snapshot_is_compared_again_and_what_a_damaged_one_lacked_is_still_known(
    lake: Lakes,
) -> None:
    table = Table(
        "bronze/bookings",
        "",
        reads=landed("bookings").reads,
        changes=SnapshotDiff(("id",)),
        write=Append(),
    )
    made, fields = lake(table), ("id", "seat")
    made.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("b", "2")])
    made.land("bookings", NEXT, "1.jsonl", [booking("a", "3"), '{"id": "cut'])
    made.load(f"{DAY}...{NEXT}")
    before = made.bronze(table.name, *fields)
    back(made, table.name, 1)
    assert made.pending_days(table.name) == [NEXT]

    made.load(NEXT)

    assert made.bronze(table.name, *fields) == before
    back(made, table.name, 1)
    last = "2017-01-07"
    made.land("bookings", last, "1.jsonl", [booking("a", "3"), booking("c", "3")])
    made.load(last)
    made.load(NEXT)
    whole = made.another("whole")
    whole.load(f"{DAY}...{last}")
    assert made.bronze(table.name, *fields) == whole.bronze(table.name, *fields)
    overwritten = replace(table, reads=(Stored("bookings"),))
    with pytest.raises(DefinitionError, match="each snapshot overwrites the one before"):
        TableRewind(made.lakehouse, overwritten).record(0, "why")


def test_what_cannot_be_rewound_is_refused_and_changes_nothing(station: Lake) -> None:
    before = station.lakehouse.ledger.view().version
    far = datetime.fromisoformat("2030-01-01T00:00Z")
    refused: list[tuple[int | datetime, DayRange | None, str]] = [
        (9, None, "has no batch 9 yet: its last is 2"),
        (-1, None, "has no batch -1 yet"),
        (2, None, "nothing was loaded after batch 2"),
        (1, parse_days(DAY), f"nothing of {DAY} was loaded after batch 1"),
        (far, None, "is in the future"),
    ]
    for to, days, message in refused:
        with pytest.raises(WatermarkError, match=message):
            back(station, "silver/bookings", to, days)
    with pytest.raises(DefinitionError, match="needs a reason"):
        TableRewind(station.lakehouse, station.tables["silver/bookings"]).record(1, " ")
    assert station.lakehouse.ledger.view().version == before


def test_a_moment_names_the_last_batch_until_then(station: Lake) -> None:
    then = station.now
    station.now += timedelta(hours=1)
    station.land("bookings", NEXT, "2.jsonl", [booking("e", "5")])
    station.load(NEXT, "bronze/bookings")

    done = back(station, "bronze/bookings", then)

    assert (done.to, [str(day) for day in done.days]) == (2, [NEXT])


def test_an_unfinished_batch_gets_its_outcome_and_is_rewound_with_the_others(
    station: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    station.land("bookings", NEXT, "2.jsonl", [booking("e", "5")])
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("incremental_assets.engine.table_load.record", die)
        station.load(NEXT, "bronze/bookings")

    done = back(station, "bronze/bookings", 1)

    assert [Path(file).name for file in done.files] == ["1.jsonl", "2.jsonl"]
    outcomes = station.lakehouse.ledger.view().table("bronze/bookings").outcomes
    assert [(e.batch, e.state, e.kind) for e in outcomes[-2:]] == [
        (3, "committed", "advance"),
        (4, "committed", "rewind"),
    ]
    (work,) = station.load(NEXT, "bronze/bookings")["bronze/bookings"].days[NEXT_DAY].entries
    assert (work.kind, work.rows_read) == ("restate", 3)
    ids = [row[1] for row in station.bronze("bronze/bookings", "id")]
    assert ids == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param((), id="day folders"),
        pytest.param(
            (Stored("users", "json"),),
            id="a folder",
            marks=thorough("feeds/test_rewind.py: the same in day folders"),
        ),
    ],
)
def test_a_log_is_read_again_and_no_change_is_there_twice(
    lake: Lakes, reads: tuple[Stored, ...]
) -> None:
    made = lake(*logs.tables(SCD2(), ChangeLog(), *reads))
    made.land("users", DAY, "1.jsonl", [logs.event("INSERT", 1, 1, name="Ann")])
    made.load("2017-01-05...2017-01-10", "bronze/users")
    made.land("users", DAY, "2.jsonl", [logs.event("UPDATE", 2, 1, name="Anna")])
    made.load("2017-01-05...2017-01-10")
    before = made.bronze("bronze/users", "sequence_num"), made.rows("silver/users", *logs.VERSION)
    back(made, "bronze/users", 0)
    (day,) = made.pending_days("bronze/users")

    results = made.load("2017-01-05...2017-01-10")
    made.load_stale()

    read = results["bronze/users"].days[date.fromisoformat(day)].entries[-1]
    assert len(read.files) == 2
    assert before == (
        made.bronze("bronze/users", "sequence_num"),
        made.rows("silver/users", *logs.VERSION),
    )
    assert made.pending_days("bronze/users") == []


def test_the_files_of_a_log_that_was_rewound_are_read_again_once(lake: Lakes) -> None:
    made = lake(*logs.tables(SCD2(), ChangeLog(), Stored("users", "json")))
    name, span = "bronze/users", "2017-01-05...2017-01-12"

    def files_read() -> list[str]:
        (entry,) = made.load(span, name)[name].days[made.now.date()].entries
        return [Path(file.path).name for file in entry.files]

    made.land("users", DAY, "1.jsonl", [logs.event("INSERT", 1, 1, name="Ann")])
    assert files_read() == ["1.jsonl"]
    back(made, name, 0)
    made.now += timedelta(days=1)

    assert files_read() == ["1.jsonl"]
    made.land("users", DAY, "2.jsonl", [logs.event("UPDATE", 2, 1, name="Anna")])
    assert files_read() == ["2.jsonl"]
    assert len(made.bronze(name, "sequence_num")) == 2
