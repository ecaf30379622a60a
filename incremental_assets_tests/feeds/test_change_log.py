"""Tables of the lake over a change log: users that come, change and go at their source."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes import ChangeLog
from incremental_assets.errors import SourceError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    fail,
    not_null,
    null_share,
    quarantine,
    quarantined_share,
    warn,
)
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Read, SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake

DAYS = ["2017-01-05", "2017-01-06", "2017-01-07"]
USER = ("id", "name", "age", "dt")
VERSION = ("id", "name", "valid_from", "valid_to", "is_current")


def tables(
    write: Merge | SCD2, changes: ChangeLog, *reads: Read, rules: Any = ()
) -> tuple[Table, Table]:
    bronze = Table(
        name="bronze/users",
        description="Events of the user table's log.",
        reads=reads or (LandedFiles("users"),),
        changes=changes,
        write=Append(),
    )
    silver = Table(
        name="silver/users",
        description="The users.",
        reads=(SameDay(bronze),),
        key=("id",),
        schema=Contract(id=Integer(required=True), name=Text(), age=Integer()),
        rules=rules,
        write=write,
    )
    return bronze, silver


def event(op: str, seq: int | None, id_: int | None, **row: Any) -> dict[str, Any]:
    return {"operation": op, "sequence_num": seq, "id": id_, **row}


def envelope(
    op: str, lsn: int, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": {"connector": "postgresql", "lsn": lsn, "ts_ms": 1483574400000 + lsn},
        "op": op,
        "ts_ms": 1483574400500 + lsn,
    }


def flat(lake: Lakes, write: Merge | SCD2, **more: Any) -> Lake:
    return lake(*tables(write, ChangeLog(), **more))


def test_inserts_updates_and_deletes_end_in_the_live_rows(lake: Lakes) -> None:
    users = flat(lake, Merge())
    users.land(
        "users",
        "2017-01-05",
        "1.jsonl",
        [
            event("INSERT", 1, 1, name="Ann", age=30),
            event("INSERT", 2, 2, name="Bob", age=40),
            event("UPDATE", 3, 1, name="Anna", age=31),
        ],
    )
    users.land("users", "2017-01-06", "1.jsonl", [event("DELETE", 4, 2)])

    users.load("2017-01-05...2017-01-06")

    assert users.rows("silver/users", *USER) == [(1, "Anna", 31, "2017-01-05")]
    assert users.frame("silver/users/_beside").select("id", "_why").rows() == [(2, "deleted")]
    columns = set(users.frame("silver/users").columns)
    assert {"operation", "sequence_num", "_operation", "_deleted"} & columns == set()


def test_a_late_update_does_not_bring_a_deleted_row_back(lake: Lakes) -> None:
    users = flat(lake, Merge())
    users.land("users", "2017-01-06", "1.jsonl", [event("DELETE", 9, 1)])
    users.load("2017-01-06")
    users.land("users", "2017-01-05", "1.jsonl", [event("INSERT", 1, 1, name="Ann")])
    users.load("2017-01-05")
    assert users.rows("silver/users", "id") == []

    users.land("users", "2017-01-07", "1.jsonl", [event("INSERT", 12, 1, name="Ann again")])
    users.load("2017-01-07")
    assert users.rows("silver/users", "id", "name") == [(1, "Ann again")]


def test_scd2_holds_every_version_and_ends_with_a_delete(lake: Lakes) -> None:
    users = flat(lake, SCD2())
    users.land("users", "2017-01-05", "1.jsonl", [event("INSERT", 1, 1, name="A")])
    users.land("users", "2017-01-07", "1.jsonl", [event("DELETE", 9, 1)])
    users.load("2017-01-05...2017-01-07")
    users.land("users", "2017-01-06", "1.jsonl", [event("UPDATE", 5, 1, name="B")])  # late

    users.load("2017-01-06")

    assert users.rows("silver/users", *VERSION) == [(1, "A", 1, 5, False), (1, "B", 5, 9, False)]


def test_what_an_event_lacks_quarantines_it_with_the_reason(lake: Lakes) -> None:
    users = flat(lake, Merge(), rules=quarantine(not_null("name")))
    users.land(
        "users",
        "2017-01-05",
        "1.jsonl",
        [
            event("INSERT", 1, 1, name="Ann"),
            event("INSERT", 2, 2),
            event("DELETE", 3, 7),  # a delete needs no name
            event("INSERT", None, 3, name="C"),
            event("INSERT", "x", 4, name="D"),
            event("FROB", 6, 5, name="E"),
            event("DELETE", 7, None),
            '{"half',
        ],
    )

    users.load("2017-01-05")

    assert users.rows("silver/users", "id") == [(1,)]
    assert users.reasons("silver/users") == [
        ("id_null",),
        ("line_unreadable",),
        ("name_not_null",),
        ("sequence_num_null",),
        ("sequence_num_unreadable",),
        ("unknown_operation",),
    ]


def test_a_day_that_its_gate_holds_changes_nothing_and_is_judged_again(lake: Lakes) -> None:
    users = flat(lake, Merge(), rules=fail(quarantined_share(at_most=0.2)))
    users.land("users", "2017-01-05", "1.jsonl", [event("INSERT", 1, 1, name="Ann")])
    users.land("users", "2017-01-06", "1.jsonl", [event("DELETE", 2, 1), "{", "{"])
    result = users.load("2017-01-05...2017-01-06")

    assert [str(day) for day in result["silver/users"].failed] == ["2017-01-06"]
    assert users.rows("silver/users", "id") == [(1,)]

    users.land("users", "2017-01-06", "1.jsonl", [event("DELETE", 2, 1)])
    users.load("2017-01-06")
    assert users.rows("silver/users", "id") == []


def test_a_repaired_file_takes_back_what_it_brought(lake: Lakes) -> None:
    for write in (Merge(), SCD2()):
        users = flat(lake, write).another(type(write).__name__.lower())
        users.land("users", "2017-01-05", "1.jsonl", [event("INSERT", 1, 1, name="Ann")])
        users.land("users", "2017-01-06", "1.jsonl", [event("DELETE", 2, 1)])
        users.load("2017-01-05...2017-01-06")
        users.land("users", "2017-01-06", "1.jsonl", [event("UPDATE", 2, 1, name="Anna")])

        users.load("2017-01-06")

        current = users.frame("silver/users")
        if isinstance(write, SCD2):
            current = current.filter("is_current")
        assert current.select("id", "name").rows() == [(1, "Anna")], write
        late = users.land("users", "2017-01-05", "2.jsonl", [event("INSERT", 1, 1, name="Zoe")])
        users.load("2017-01-05")
        late.unlink()


def debezium(lake: Lakes, write: Merge | SCD2, *reads: Read) -> Lake:
    return lake(*tables(write, ChangeLog.debezium(), *reads))


def test_debezium_envelopes_land_as_they_are_and_become_users(lake: Lakes) -> None:
    users = debezium(lake, Merge())
    ann, bob = {"id": 1, "name": "Ann", "age": 30}, {"id": 2, "name": "Bob", "age": 40}
    users.land(
        "users",
        "2017-01-05",
        "1.jsonl",
        [
            envelope("r", 10, None, ann),
            {"schema": {}, "payload": envelope("c", 20, None, bob)},
            envelope("u", 30, ann, {**ann, "id": 3}),  # the key changes
            "null",  # a tombstone
            envelope("d", 40, bob, None),
        ],
    )
    users.load("2017-01-05")

    assert users.rows("silver/users", *USER) == [(3, "Ann", 30, "2017-01-05")]
    assert len(users.bronze("bronze/users")) == 5
    assert users.reasons("silver/users") == []


@pytest.mark.parametrize("write", [Merge(), SCD2()], ids=["merge", "history"])
def test_a_truncate_ends_every_row_before_it_also_those_that_come_late(
    lake: Lakes, write: Merge | SCD2
) -> None:
    users = debezium(lake, write)

    def row(number: int, name: str) -> dict[str, Any]:
        return {"id": number, "name": name, "age": number}

    users.land("users", "2017-01-05", "1.jsonl", [envelope("c", 10, None, row(1, "A"))])
    users.load("2017-01-05")
    users.land(
        "users",
        "2017-01-06",
        "1.jsonl",
        [envelope("t", 50, None, None), envelope("c", 60, None, row(2, "B"))],
    )
    users.load("2017-01-06")
    users.land("users", "2017-01-07", "1.jsonl", [envelope("c", 20, None, row(3, "C"))])
    users.load("2017-01-07")

    live = users.frame("silver/users")
    if isinstance(write, SCD2):
        assert len(live) == 3
        live = live.filter("is_current")
    assert live.select("id", "name").rows() == [(2, "B")]


@pytest.mark.parametrize("write", [Merge(), SCD2()], ids=["merge", "history"])
def test_a_truncate_that_was_a_mistake_is_taken_back_by_a_repaired_file(
    lake: Lakes, write: Merge | SCD2
) -> None:
    users = debezium(lake, write)
    row = {"id": 1, "name": "A", "age": 1}
    first = [envelope("t", 5, None, None), envelope("c", 10, None, row)]
    users.land("users", "2017-01-05", "1.jsonl", first)
    users.land("users", "2017-01-06", "1.jsonl", [envelope("t", 50, None, None)])
    users.load("2017-01-05...2017-01-06")
    other = envelope("c", 60, None, {**row, "id": 2})
    users.land("users", "2017-01-06", "1.jsonl", [other])

    users.load("2017-01-06")

    # Nor does what was taken back touch a row that comes late; the other truncate does.
    late = [envelope("c", lsn, None, {**row, "id": number}) for number, lsn in ((3, 20), (4, 3))]
    users.land("users", "2017-01-07", "1.jsonl", late)
    users.load("2017-01-07")
    live = users.frame("silver/users")
    live = live.filter("is_current") if isinstance(write, SCD2) else live
    assert sorted(live["id"].to_list()) == [1, 2, 3]


def log_of(seed: int) -> dict[str, list[Any]]:
    """Three landing days of a log: late events, repeats, ties, deletes, a truncate, broken lines."""
    rng = random.Random(seed)
    events: list[dict[str, Any]] = []
    for lsn in range(10, 200, 10):
        number = rng.randint(1, 5)
        row = {"id": number, "name": rng.choice("ABCDE"), "age": rng.randint(1, 3)}
        kind = rng.choice(["c", "u", "u", "u", "d"])
        if kind == "d":
            events.append(envelope("d", lsn, {"id": number}, None))
        else:
            events.append(envelope(kind, lsn, None, row))
        if rng.random() < 0.15:  # two events at one place that only their hash tells apart
            events.append(envelope("u", lsn, None, {**row, "name": "T"}))
    if seed % 2:
        events.append(envelope("t", rng.randrange(15, 250, 10), None, None))
    days: dict[str, list[Any]] = {day: ["{broken"] for day in DAYS}
    for each in events:
        days[rng.choice(DAYS)].append(each)
        if rng.random() < 0.2:
            days[rng.choice(DAYS)].append(each)
    return days


@pytest.mark.parametrize(
    ("seed", "write"),
    [(1, Merge()), (3, SCD2(("age",)))],
    ids=["merge", "history"],
)
def test_any_order_of_loads_ends_in_the_same_users(
    lake: Lakes, seed: int, write: Merge | SCD2
) -> None:
    whole = debezium(lake, write)
    for day, lines in log_of(seed).items():
        whole.land("users", day, "1.jsonl", lines[: len(lines) // 2])
        whole.land("users", day, "2.jsonl", lines[len(lines) // 2 :])
    whole.load("2017-01-05...2017-01-07")

    parts = whole.another("parts")
    for day in (DAYS[2], DAYS[0], DAYS[1], DAYS[2]):
        parts.load(day)
    parts.load_stale()

    # A file that was wrong at first, and was repaired after everything was loaded.
    repaired = debezium(lake, write).another("repaired")
    right = (repaired.source("users") / DAYS[1] / "1.jsonl").read_text()
    wrong = [envelope("t", 245, None, None), envelope("d", 400, {"id": 1}, None)]
    repaired.land("users", DAYS[1], "1.jsonl", wrong)
    repaired.load("2017-01-05...2017-01-06")
    repaired.load(DAYS[2])
    (repaired.source("users") / DAYS[1] / "1.jsonl").write_text(right)
    repaired.load(DAYS[1])
    repaired.load_stale()

    columns = [c for c in whole.frame("silver/users").columns if not c.startswith("_")]
    for other in (parts, repaired):
        assert other.rows("silver/users", *columns) == whole.rows("silver/users", *columns)
        assert other.reasons("silver/users") == whole.reasons("silver/users")


def test_losers_by_hash_alone_are_written_down_with_their_keys(lake: Lakes) -> None:
    users = debezium(lake, Merge())
    rows = [{"id": 1, "name": name, "age": 1} for name in "AB"]
    users.land("users", "2017-01-05", "1.jsonl", [envelope("u", 10, None, row) for row in rows])
    users.load("2017-01-05")

    kept = users.rows("silver/users", "name")[0][0]
    beside = users.frame("silver/users/_beside").filter(pl.col("_why") == "lost by its hash alone")
    assert beside.select("id", "_order").rows() == [(1, 10)]
    assert kept in "AB"


def test_positions_of_two_kinds_have_no_order_and_are_refused(lake: Lakes) -> None:
    users = debezium(lake, Merge())
    row = {"id": 1, "name": "A", "age": 1}
    users.land("users", "2017-01-05", "1.jsonl", [envelope("c", 10, None, row)])
    users.load("2017-01-05")
    mysql = {"before": None, "after": row, "op": "u", "source": {"file": "bin.000003", "pos": 4}}
    users.land("users", "2017-01-06", "1.jsonl", [mysql])

    with pytest.raises(SourceError, match="earlier loads ordered it by 'lsn'"):
        users.load("2017-01-06")
    assert users.rows("silver/users", "name") == [("A",)]


def test_a_log_in_a_delta_table_is_read_by_its_commits(lake: Lakes) -> None:
    users = lake(*tables(Merge(), ChangeLog(), Stored("log")))

    def rows(*events: tuple[str, int, int, str]) -> pl.DataFrame:
        names = ["operation", "sequence_num", "id", "name"]
        return pl.DataFrame(events, schema=names, orient="row")

    users.put_delta("log", rows(("INSERT", 1, 1, "Ann"), ("INSERT", 2, 2, "Bob")))
    users.load("2017-01-10")
    users.put_delta("log", rows(("UPDATE", 4, 1, "Anna"), ("DELETE", 3, 2, "")), mode="append")
    users.load("2017-01-10")
    again = users.load("2017-01-10")

    assert again["bronze/users"].days[users.now.date()].state == "idle"
    assert users.rows("silver/users", "id", "name") == [(1, "Anna")]
    assert len(users.bronze("bronze/users")) == 4


def test_a_log_of_files_without_day_folders_is_read_by_its_files(lake: Lakes) -> None:
    bronze, silver = tables(Merge(), ChangeLog(), Stored("log", day="at"))
    users = lake(bronze, replace(silver, schema=Contract(id=Integer(), name=Text())))
    first = [
        {**event("INSERT", 1, 1, name="Ann"), "at": "2017-01-05T10:00:00Z"},
        {**event("INSERT", 2, 2, name="Bob"), "at": "2017-01-06T10:00:00Z"},
    ]
    users.land("log", "", "1.jsonl", first)
    users.load("2017-01-05")
    assert users.bronze("bronze/users", "name") == [("2017-01-05", "Ann")]
    users.land("log", "", "2.jsonl", [{**event("DELETE", 3, 1), "at": "2017-01-06T11:00:00Z"}])

    users.load("2017-01-05...2017-01-06")

    assert users.rows("silver/users", "id", "name") == [(2, "Bob")]
    assert len(users.bronze("bronze/users")) == 3


def test_a_topic_that_was_dumped_as_keys_and_values_tells_its_deletes(lake: Lakes) -> None:
    users = debezium(lake, Merge(), Stored("topic"))

    def topic(file: str, *values: dict[str, Any] | None) -> None:
        pairs = [(json.dumps({"id": 1}), json.dumps(value) if value else None) for value in values]
        rows = pl.DataFrame(pairs, schema=["key", "value"], orient="row")
        users.put_parquet("topic", file, rows.cast(pl.Binary))

    topic("1.parquet", envelope("c", 10, None, {"id": 1, "name": "A", "age": 1}))
    users.load("2017-01-10")
    assert users.rows("silver/users", "id") == [(1,)]

    topic("2.parquet", envelope("d", 20, None, None), None)
    users.load("2017-01-10")

    assert users.rows("silver/users", "id") == []
    assert users.reasons("silver/users") == []


def test_deletes_are_not_asked_for_values_that_only_rows_have(lake: Lakes) -> None:
    rules = (*fail(not_null("name")), *warn(null_share("age", 0.2, min_rows=1)))
    shop = flat(lake, Merge(), rules=rules)
    rows = [event("INSERT", n, n, name=f"N{n}", age=n if n > 1 else None) for n in range(1, 5)]
    shop.land(
        "users", "2017-01-05", "1.jsonl", [*rows, event("DELETE", 9, 2), event("DELETE", 10, 3)]
    )

    (day,) = shop.load("2017-01-05")["silver/users"].days.values()

    assert day.state == "committed", day.reason
    assert day.checks["name_not_null"].broken == 0
    assert day.checks["age_null_share"].found.startswith("1 of 4 rows (25.00%)")
    assert not day.checks["age_null_share"].passed
    assert shop.rows("silver/users", "id") == [(1,), (4,)]
