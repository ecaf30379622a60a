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
from incremental_assets.table import SameDay, Table, TableInput
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

DAYS = ["2017-01-05", "2017-01-06", "2017-01-07"]
USER = ("id", "name", "age", "dt")
VERSION = ("id", "name", "valid_from", "valid_to", "is_current")


def tables(
    write: Merge | SCD2, changes: ChangeLog, *reads: TableInput, rules: Any = ()
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


def both_ways(
    changes: ChangeLog, *reads: TableInput, kept: SCD2 = SCD2()
) -> tuple[Table, Table, Table]:
    """A log, the users that it ends in, and the versions that it tells of: `silver/versions`."""
    bronze, merged = tables(Merge(), changes, *reads)
    return bronze, merged, replace(merged, name="silver/versions", write=kept)


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


def test_users_and_their_versions_follow_a_log_late_events_and_repaired_files(lake: Lakes) -> None:
    users = lake(*both_ways(ChangeLog()))
    first = [
        event("INSERT", 1, 1, name="Ann", age=30),
        event("INSERT", 2, 2, name="A"),
        event("UPDATE", 3, 1, name="Anna", age=31),
        event("INSERT", 2, 4, name="Ida"),
        event("INSERT", 2, 5, name="Eve"),
    ]
    users.land("users", "2017-01-05", "1.jsonl", first)
    deleted = [event("DELETE", 9, n) for n in (2, 3, 4)]
    users.land("users", "2017-01-06", "1.jsonl", deleted)
    users.land("users", "2017-01-06", "wrong.jsonl", [event("DELETE", 9, 5)])
    users.load("2017-01-05...2017-01-06")
    assert users.rows("silver/users", *USER) == [(1, "Anna", 31, "2017-01-05")]
    side_rows = users.frame("silver/users/_beside").sort("id")
    assert side_rows.select("id", "_why").rows() == [(n, "deleted") for n in (2, 3, 4, 5)]
    columns = set(users.frame("silver/users").columns)
    assert {"operation", "sequence_num", "_operation", "_deleted"} & columns == set()

    late = [event("INSERT", 4, 3, name="Zoe"), event("UPDATE", 5, 2, name="B")]
    users.land("users", "2017-01-05", "2.jsonl", late)
    users.land("users", "2017-01-06", "wrong.jsonl", [event("UPDATE", 9, 5, name="Eva")])
    users.land("users", "2017-01-07", "1.jsonl", [event("INSERT", 12, 4, name="Ina")])
    users.load("2017-01-05...2017-01-07")
    # No deleted row comes back by what is older than its delete.
    assert users.rows("silver/users", "id", "name") == [(1, "Anna"), (4, "Ina"), (5, "Eva")]
    assert users.rows("silver/versions", *VERSION) == [
        (1, "Ann", 1, 3, False),
        (1, "Anna", 3, None, True),
        (2, "A", 2, 5, False),
        (2, "B", 5, 9, False),
        (3, "Zoe", 4, 9, False),
        (4, "Ida", 2, 9, False),
        (4, "Ina", 12, None, True),
        (5, "Eva", 9, None, True),
        (5, "Eve", 2, 9, False),
    ]


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


def test_a_day_that_its_gate_holds_deletes_nothing_and_deletes_are_judged_as_such(
    lake: Lakes,
) -> None:
    held = fail(quarantined_share(at_most=0.2), not_null("name"))
    users = flat(lake, Merge(), rules=(*held, *warn(null_share("age", 0.2, min_rows=1))))
    rows = [event("INSERT", n, n, name=f"N{n}", age=n if n > 1 else None) for n in range(1, 5)]
    deleted = [event("DELETE", 9, 2), event("DELETE", 10, 3)]
    users.land("users", "2017-01-05", "1.jsonl", [*rows, *deleted])
    users.land("users", "2017-01-06", "1.jsonl", [event("DELETE", 11, 1), "{", "{"])
    result = users.load("2017-01-05...2017-01-06")["silver/users"]

    assert [str(day) for day in result.failed] == ["2017-01-06"]
    assert users.rows("silver/users", "id") == [(1,), (4,)]
    # Deletes are not asked for values that only rows have.
    day = next(iter(result.days.values()))
    assert day.state == "committed", day.reason
    assert day.checks["name_not_null"].broken == 0
    assert day.checks["age_null_share"].found.startswith("1 of 4 rows (25.00%)")
    assert not day.checks["age_null_share"].passed


def test_debezium_envelopes_land_as_they_are_and_become_users(lake: Lakes) -> None:
    users = lake(*tables(Merge(), ChangeLog.debezium()))
    ann, bob = {"id": 1, "name": "Ann", "age": 30}, {"id": 2, "name": "Bob", "age": 40}
    ties = [{"id": 7, "name": name, "age": 1} for name in "AB"]
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
            *(envelope("u", 50, None, row) for row in ties),
        ],
    )
    users.load("2017-01-05")

    found, tied = users.rows("silver/users", *USER)
    assert found == (3, "Ann", 30, "2017-01-05")
    assert tied[1] in "AB"
    assert len(users.bronze("bronze/users")) == 7
    assert users.reasons("silver/users") == []
    # Who loses by the hash alone is written down with the key.
    side_rows = users.frame("silver/users/_beside").filter(
        pl.col("_why") == "lost by its hash alone"
    )
    assert side_rows.select("id", "_order").rows() == [(7, 50)]

    # Positions of two kinds have no order.
    mysql = {"before": None, "after": ann, "op": "u", "source": {"file": "bin.000003", "pos": 4}}
    users.land("users", "2017-01-06", "1.jsonl", [mysql])
    with pytest.raises(SourceError, match="earlier loads ordered it by 'lsn'"):
        users.load("2017-01-06")
    assert users.rows("silver/users", *USER) == [found, tied]


def live(users: Lake) -> tuple[list[int], list[int]]:
    """The users, and those of whom a version is current."""
    versions = users.frame("silver/versions").filter("is_current")
    return sorted(users.frame("silver/users")["id"]), sorted(versions["id"])


@thorough("loaders/test_truncates.py: truncates of a target in any order")
def test_a_truncate_ends_every_row_before_it_until_a_repaired_file_takes_it_back(
    lake: Lakes,
) -> None:
    users = lake(*both_ways(ChangeLog.debezium()))

    def created(*rows: tuple[int, int]) -> list[dict[str, Any]]:
        """Users, each with its place in the log."""
        return [envelope("c", lsn, None, {"id": n, "name": "A", "age": 1}) for n, lsn in rows]

    first = [envelope("t", 5, None, None), *created((1, 10))]
    users.land("users", "2017-01-05", "1.jsonl", first)
    users.load("2017-01-05")
    assert live(users) == ([1], [1])

    truncated = [envelope("t", 50, None, None), *created((2, 60))]
    users.land("users", "2017-01-06", "1.jsonl", truncated)
    users.land("users", "2017-01-07", "1.jsonl", created((3, 20), (4, 3)))  # late
    users.load("2017-01-06...2017-01-07")
    assert live(users) == ([2], [2])
    assert len(users.frame("silver/versions")) == 4

    users.land("users", "2017-01-06", "1.jsonl", created((2, 60)))
    users.load("2017-01-06")
    assert live(users) == ([1, 2, 3], [1, 2, 3])

    # Nor does what was taken back touch a row that comes late; the other truncate does.
    users.land("users", "2017-01-07", "2.jsonl", created((5, 30), (6, 4)))
    users.load("2017-01-07")
    assert live(users) == ([1, 2, 3, 5], [1, 2, 3, 5])


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
    events.append(envelope("t", rng.randrange(15, 250, 10), None, None))
    days: dict[str, list[Any]] = {day: ["{broken"] for day in DAYS}
    for each in events:
        days[rng.choice(DAYS)].append(each)
        if rng.random() < 0.2:
            days[rng.choice(DAYS)].append(each)
    return days


@thorough(
    "feeds/test_change_log.py, loaders/test_cdc.py, loaders/test_truncates.py: "
    "late and repaired files; any order, into a target"
)
def test_any_order_of_loads_ends_in_the_same_users_and_versions(lake: Lakes) -> None:
    whole = lake(*both_ways(ChangeLog.debezium(), kept=SCD2(("age",))))
    for day, lines in log_of(1).items():
        whole.land("users", day, "1.jsonl", lines[: len(lines) // 2])
        whole.land("users", day, "2.jsonl", lines[len(lines) // 2 :])
    whole.load("2017-01-05...2017-01-07")

    parts = whole.another("parts")
    for day in (DAYS[2], DAYS[0], DAYS[1], DAYS[2]):
        parts.load(day)
    parts.load_stale()

    for name in ("silver/users", "silver/versions"):
        columns = [c for c in whole.frame(name).columns if not c.startswith("_")]
        assert parts.rows(name, *columns) == whole.rows(name, *columns)
        assert parts.reasons(name) == whole.reasons(name)


def test_a_log_in_a_delta_table_is_read_by_its_commits(lake: Lakes) -> None:
    users = lake(tables(Merge(), ChangeLog(), Stored("log"))[0])

    def rows(*events: tuple[str, int, int, str]) -> pl.DataFrame:
        names = ["operation", "sequence_num", "id", "name"]
        return pl.DataFrame(events, schema=names, orient="row")

    users.put_delta("log", rows(("INSERT", 1, 1, "Ann"), ("INSERT", 2, 2, "Bob")))
    users.load("2017-01-10")
    users.put_delta("log", rows(("UPDATE", 4, 1, "Anna"), ("DELETE", 3, 2, "")), mode="append")
    users.load("2017-01-10")
    again = users.load("2017-01-10")

    assert again["bronze/users"].days[users.now.date()].state == "idle"
    operations = [row[1:] for row in users.bronze("bronze/users", "operation", "id")]
    assert operations == [("DELETE", "2"), ("INSERT", "1"), ("INSERT", "2"), ("UPDATE", "1")]


def test_a_log_of_files_without_day_folders_is_read_by_its_files(lake: Lakes) -> None:
    users = lake(tables(Merge(), ChangeLog(), Stored("log", day="at"))[0])
    first = [
        {**event("INSERT", 1, 1, name="Ann"), "at": "2017-01-05T10:00:00Z"},
        {**event("INSERT", 2, 2, name="Bob"), "at": "2017-01-06T10:00:00Z"},
    ]
    users.land("log", "", "1.jsonl", first)
    users.load("2017-01-05")
    ann = ("2017-01-05", "INSERT", "1")
    assert users.bronze("bronze/users", "operation", "id") == [ann]
    users.land("log", "", "2.jsonl", [{**event("DELETE", 3, 1), "at": "2017-01-06T11:00:00Z"}])

    users.load("2017-01-05...2017-01-06")

    rest = [("2017-01-06", "DELETE", "1"), ("2017-01-06", "INSERT", "2")]
    assert users.bronze("bronze/users", "operation", "id") == [ann, *rest]


@thorough("loaders/test_debezium_log.py: the same by the loader")
def test_a_topic_that_was_dumped_as_keys_and_values_tells_its_deletes(lake: Lakes) -> None:
    users = lake(*tables(Merge(), ChangeLog.debezium(), Stored("topic")))

    def topic(file: str, *messages: tuple[int, dict[str, Any] | None]) -> None:
        pairs = [(json.dumps({"id": n}), value and json.dumps(value)) for n, value in messages]
        rows = pl.DataFrame(pairs, schema=["key", "value"], orient="row")
        users.put_parquet("topic", file, rows.cast(pl.Binary))

    created = [(n, envelope("c", 10, None, {"id": n, "name": "A", "age": 1})) for n in (1, 2)]
    topic("1.parquet", *created)
    topic("2.parquet", (1, envelope("d", 20, None, None)), (1, None))
    users.load("2017-01-10")

    assert users.rows("silver/users", "id") == [(2,)]
    assert users.reasons("silver/users") == []
