"""Rows that leave quarantine: replayed, dropped, or too old; and what is known of those in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.changes import ChangeLog
from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.engine import table_load as load_module
from incremental_assets.errors import DefinitionError, GateError
from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.operations.quarantined import QuarantineFilter, drop, quarantined_rows
from incremental_assets.quality.rules import (
    Rule,
    fail,
    matches,
    one_of,
    quarantine,
    quarantined_share,
)
from incremental_assets.quality.types import Integer
from incremental_assets.table import Table
from incremental_assets.testing import Killed
from incremental_assets.writes import Append
from incremental_assets_tests.feeds import test_change_log as logs
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_interrupted import die
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

NEXT = "2017-01-06"
STRICT = quarantine(one_of("train", ("t1",)), matches("seat", "[0-9]+"))
LOOSE = quarantine(one_of("train", ("t1", "t2", "t3")), matches("seat", "[0-9]+"))


def station(lake: Lakes, *rules: Rule) -> Lake:
    return lake(landed("bookings"), bookings(*rules), per_train())


def quarantined(lake: Lake, name: str = "silver/bookings") -> pl.DataFrame:
    return quarantined_rows(lake.settings, lake.tables[name], QuarantineFilter())


def replay(
    lake: Lake, reason: str = "", *days: str, name: str = "silver/bookings"
) -> TableLoadResult:
    wanted = [date.fromisoformat(day) for day in days or (DAY,)]
    return lake.lakehouse.replay(lake.tables[name], wanted, reason)


def passed(result: TableLoadResult, day: str = DAY) -> tuple[float, float]:
    check = result.days[date.fromisoformat(day)].checks["replayed"]
    return check.value, check.threshold


def first(lake: Lakes) -> Lake:
    made = station(lake, *STRICT)
    rows: list[Any] = [
        booking("a", "1"),
        booking("b", "2", "t2"),
        booking("c", "x", "t2"),
        booking("d", "y"),
        booking("e", "3", "t9"),
        '{"id": "cut',
    ]
    made.land("bookings", DAY, "1.jsonl", rows)
    made.load(DAY, "bronze/bookings", "silver/bookings")
    assert made.rows("silver/bookings", "id") == [("a",)]
    return made


def test_rows_that_pass_are_merged_once_like_late_data_and_the_others_stay(lake: Lakes) -> None:
    old = lake.copy_of(first)
    seen = old.now
    old.land("bookings", DAY, "2.jsonl", [booking("f", "5", "t2"), booking("f", "6", version=2)])
    old.load(DAY)
    share = fail(quarantined_share(0.9))
    new = old.with_tables(landed("bookings"), bookings(*LOOSE, *share), per_train())
    new.now += timedelta(days=2)

    assert passed(replay(new)) == (2, 6)

    # A later version stays.
    kept = [("a", 1, "1"), ("b", 1, "2"), ("f", 2, "6")]
    assert new.rows("silver/bookings", "id", "version", "seat") == kept
    left = quarantined(new)
    assert sorted(map(tuple, left["reasons"].to_list())) == [
        ("line_unreadable",),
        ("seat_matches",),
        ("seat_matches",),
        ("train_one_of",),
    ]
    assert set(left["tried"]) == {2}
    assert set(left["first_seen"]) == {seen}
    assert new.stale() == {"gold/per_train": [DAY]}
    new.load_stale()
    assert new.rows("gold/per_train", "train", "seats") == [("t1", 2), ("t2", 1)]

    assert passed(replay(new)) == (0, 4)
    assert new.rows("silver/bookings", "id", "version", "seat") == kept
    assert new.stale() == {}

    # Shares of the day forget what passed.
    new.land("bookings", DAY, "3.jsonl", [booking("g", "3"), booking("h", "x")])
    results = new.load(DAY, "bronze/bookings", "silver/bookings")
    check = results["silver/bookings"].days[date(2017, 1, 5)].checks["quarantined_share"]
    assert check.found.startswith("5 of 10 rows (50.00%)")


def test_only_rows_with_a_reason_are_tried_and_the_others_are_left_as_they_are(
    lake: Lakes,
) -> None:
    lake.copy_of(first)
    new = station(lake, *quarantine(one_of("train", ("t1", "t2"))))

    assert passed(replay(new, "seat_matches")) == (2, 2)

    assert new.rows("silver/bookings", "id") == [("a",), ("c",), ("d",)]
    left = {tuple(r): n for r, n in quarantined(new).select("reasons", "tried").iter_rows()}
    assert left == {("train_one_of",): 1, ("line_unreadable",): 1}


def test_rows_that_came_too_late_are_let_in_by_a_longer_lateness(lake: Lakes) -> None:
    strict = replace(bookings(), allowed_lateness=timedelta(days=2))
    old = lake(landed("bookings"), strict)
    old.land("bookings", "2017-01-09", "1.jsonl", [booking("a", "1")])
    old.load("2017-01-05...2017-01-09")
    assert old.reasons("silver/bookings") == [("too_late",)]
    new = old.with_tables(landed("bookings"), replace(strict, allowed_lateness=timedelta(days=9)))
    day = str(quarantined(old)["_day"][0])

    result = replay(new, "", day)

    assert new.rows("silver/bookings", "id", "dt") == [("a", DAY)], result
    assert quarantined(new).is_empty()


def test_a_row_without_a_key_of_its_own_is_added_once(lake: Lakes) -> None:
    def made(*rules: Rule) -> Table:
        return replace(bookings(*rules), key=(), version_by=(), write=Append())

    old = lake(landed("bookings"), made(*STRICT))
    twice = booking("b", "2", "t2")
    old.land("bookings", DAY, "1.jsonl", [booking("a", "1"), twice, twice])
    old.load(DAY)
    new = old.with_tables(landed("bookings"), made(*LOOSE))

    assert passed(replay(new)) == (2, 2)

    assert new.rows("silver/bookings", "id") == [("a",), ("b",), ("b",)]
    assert quarantined(new).is_empty()


def replayed_log(lake: Lakes, table: Table, bronze: Table) -> Lake:
    """Two of four events are bad at first: they come between others, and last."""
    old = lake(bronze, replace(table, rules=quarantine(one_of("name", ("A", "C")))))
    events = [
        logs.envelope("c", 100, None, {"id": 1, "name": "A", "age": 1}),
        logs.envelope("u", 200, None, {"id": 1, "name": "B", "age": 2}),
        logs.envelope("u", 300, None, {"id": 1, "name": "C", "age": 3}),
        logs.envelope("c", 400, None, {"id": 2, "name": "B", "age": 4}),
    ]
    old.land("users", DAY, "1.jsonl", events)
    old.load(DAY)
    new = old.with_tables(bronze, table)
    assert passed(replay(new, name=table.name)) == (2, 2)
    return new


@thorough("feeds/test_replay.py, loaders/test_target_replays.py: rows, and events of a loader")
def test_changes_of_a_log_are_put_in_their_place(lake: Lakes) -> None:
    bronze, _, kept = logs.both_ways(ChangeLog.debezium())

    new = replayed_log(lake, kept, bronze)

    first = new.frame(kept.name).filter(pl.col("id") == 1).sort("valid_from")
    assert first["name"].to_list() == ["A", "B", "C"]
    assert first["age"].to_list() == [1, 2, 3]
    assert first["valid_to"].to_list() == [*first["valid_from"].to_list()[1:], None]
    assert first["is_current"].to_list() == [False, False, True]
    second = ("id", "name", "age", "is_current", "valid_to")
    assert new.rows(kept.name, *second)[-1] == (2, "B", 4, True, None)


@thorough("feeds/test_replay.py, loaders/test_target_replays.py: the same of versions, of targets")
def test_changes_of_a_log_that_is_merged_are_put_in_their_place(lake: Lakes) -> None:
    bronze, merged, _ = logs.both_ways(ChangeLog.debezium())

    new = replayed_log(lake, merged, bronze)

    assert new.rows(merged.name, "id", "name", "age") == [(1, "C", 3), (2, "B", 4)]


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> Callable[[Lake, Any, str], None]:
    def at(lake: Lake, place: Any, step: str) -> None:
        with monkeypatch.context() as broken, pytest.raises(Killed):
            broken.setattr(place, step, die)
            replay(lake)
        lake.load(DAY, "silver/bookings")  # settles

    return at


@thorough(
    "feeds/test_replay.py, loaders/test_target_replays.py: a later step, any step of a target"
)
def test_a_replay_that_dies_before_its_commit_is_not_done(
    lake: Lakes, dies: Callable[[Lake, Any, str], None]
) -> None:
    lake.copy_of(first)
    new = station(lake, *LOOSE)
    for place, step in ((Quarantine, "put"), (load_module, "publish")):
        dies(new, place, step)
        assert new.rows("silver/bookings", "id") == [("a",)], step
        assert len(quarantined(new)) == 5, step


def test_a_replay_that_dies_after_its_commit_is_done_once(
    lake: Lakes, dies: Callable[[Lake, Any, str], None]
) -> None:
    lake.copy_of(first)
    new = station(lake, *LOOSE)
    dies(new, load_module, "record")
    assert new.rows("silver/bookings", "id") == [("a",), ("b",)]
    assert len(quarantined(new)) == 4
    assert passed(replay(new)) == (0, 4)

    new = station(lake)  # any train, any seat
    dies(new, Quarantine, "drop")
    assert new.rows("silver/bookings", "id") == [("a",), ("b",), ("c",), ("d",), ("e",)]
    assert len(quarantined(new)) == 1


def test_what_cannot_be_replayed_is_refused_and_stays(lake: Lakes) -> None:
    old = lake.copy_of(first)
    repaired = old.source("bookings") / DAY / "1.jsonl"
    repaired.write_text(repaired.read_text().replace('"t9"', '"t1"'))
    old.load(DAY, "bronze/bookings")

    assert "was repaired since" in replay(old).days[date(2017, 1, 5)].reason
    with pytest.raises(DefinitionError, match="only rows that a silver table typed"):
        replay(old, name="gold/per_train")

    old.load(DAY, "silver/bookings")
    strict = station(lake, *fail(one_of("train", ("t1",))))
    before = sorted(quarantined(old)["row"])
    with pytest.raises(GateError, match="held back by 2017-01-05: train_one_of: 2 of"):
        replay(strict)
    assert sorted(quarantined(strict)["row"]) == before
    assert strict.load(DAY, "silver/bookings")["silver/bookings"].failed == {}


def test_a_replay_of_a_held_day_is_refused(lake: Lakes) -> None:
    shop = lake(landed("bookings"), bookings(*STRICT, *fail(quarantined_share(0.1))))
    shop.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("b", "2", "t2")])
    assert states(shop.load(DAY), "silver/bookings") == ["held"]

    result = replay(shop)

    assert "it is held since batch 1: quarantined_share" in result.days[date(2017, 1, 5)].reason
    assert shop.rows("silver/bookings", "id") == []


@thorough("loaders/test_target_replays.py: the moment is kept, quarantine is tidied")
def test_rows_judged_again_keep_the_moment_they_were_first_seen_and_go_after_the_retention(
    lake: Lakes,
) -> None:
    shop = lake.copy_of(first)
    seen = shop.now
    shop.now += timedelta(hours=5)
    repaired = shop.source("bookings") / DAY / "1.jsonl"
    repaired.write_text(repaired.read_text().replace('"t9"', '"t8"'))
    shop.load(DAY, "bronze/bookings", "silver/bookings")

    times = {
        row[-9:]: (since, tried)
        for row, since, tried in quarantined(shop).select("row", "first_seen", "tried").iter_rows()
    }
    changed = next(row for row in quarantined(shop)["row"] if '"t8"' in row)
    assert times.pop(changed[-9:]) == (shop.now, 1)
    assert set(times.values()) == {(seen, 2)}

    shop.lakehouse.settings = shop.settings.replace(quarantine_days=30)
    shop.now += timedelta(days=31)
    shop.land("bookings", DAY, "2.jsonl", [booking("z", "bad")])
    shop.load(DAY, "bronze/bookings", "silver/bookings")
    assert [row.count('"z"') for row in quarantined(shop)["row"]] == [1]
    path = f"{shop.settings.lake}/quarantine/silver_bookings"
    assert "first_seen" in {field.name for field in DeltaTable(path).schema().fields}


def test_what_cannot_be_read_is_reported_with_field_type_and_value(lake: Lakes) -> None:
    table = bookings()
    assert table.schema is not None
    typed = replace(table, schema=type(table.schema)(**table.schema.columns, seats=Integer()))
    shop = lake(landed("bookings"), typed)
    rows: list[Any] = [
        booking("a", "1", seats="three"),
        booking("b", "1", seats={"count": 3, "of": "a very long name that nobody wants to read"}),
        '{"id": "c", "id": "d"}',
        '{"id": "e"}{"id": "f"}',
        '{"id": "g"} and some text',
        '{"id": "h"},',
        '{"id": "cut',
        "{'id': 'quoted'}",
        '{"id": NaN}',
        '{"id": "\\ud800"}',
        "[1, 2]",
    ]
    shop.land("bookings", DAY, "1.jsonl", rows)
    shop.load(DAY)

    texts = sorted(text for details in quarantined(shop)["details"] for text in details)
    assert texts == [
        "a name occurs twice in one object, so it is undefined which value is right",
        'seats: "three" is no int',
        'seats: {"count":3,"of":"a very long name that n… is no int',
        *["something follows the first JSON value of the line, which must be its only one"] * 3,
        *["the line is no JSON object, or of a CSV with more or fewer fields than its header"] * 5,
    ]


def test_rows_are_dropped_by_reason_and_it_is_on_record(lake: Lakes) -> None:
    rules = (*STRICT, *fail(quarantined_share(0.7)))
    shop = lake.copy_of(first).with_tables(landed("bookings"), bookings(*rules), per_train())
    table = shop.tables["silver/bookings"]
    with pytest.raises(DefinitionError, match="needs a reason"):
        drop(shop.lakehouse, table, QuarantineFilter(), " ")

    assert drop(
        shop.lakehouse, table, QuarantineFilter(reason="line_unreadable"), "a broken till"
    ) == {date(2017, 1, 5): 1}

    assert len(quarantined(shop)) == 4
    outcome = shop.lakehouse.ledger.view().table("silver/bookings").outcomes[-1]
    assert (outcome.state, outcome.rows_deleted, outcome.held_by, outcome.why) == (
        "dropped",
        1,
        "line_unreadable",
        "a broken till",
    )
    assert (outcome.rows_counted, outcome.rows_counted_quarantined) == (-1, -1)
    shop.land("bookings", DAY, "2.jsonl", [booking("z", "9")])
    # 5 of 7 rows would hold the day, 4 of 6 do not.
    loaded = shop.load(DAY, "bronze/bookings", "silver/bookings")
    assert states(loaded, "silver/bookings") == ["committed"]
    assert shop.rows("silver/bookings", "id") == [("a",), ("z",)]
    assert drop(shop.lakehouse, table, QuarantineFilter(), "all of it") == {date(2017, 1, 5): 4}
    assert quarantined(shop).is_empty()
