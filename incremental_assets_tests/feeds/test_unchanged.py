"""Events that lack fields which did not change: each keeps the value of the version before it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.unchanged import DEBEZIUM, NoEarlier, Unchanged
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import quarantine, satisfies
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.spark import load_session
from incremental_assets.spark.load_session import INTERMEDIATE
from incremental_assets.table import SameDay, Table
from incremental_assets.verifying.verify import verify
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_history_in_time import LANDED_SALES, SALES, change, mart
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

EARLY_DAY, WAITING_DAY = "2017-01-03", "2017-01-04"
DAYS = ["2017-01-05", "2017-01-06", "2017-01-07"]
HISTORY = "silver/versions"
MARKED = DEBEZIUM
ROW = ("id", "name", "notes")
VERSION = (*ROW, "valid_from", "valid_to")


def tables(changes: ChangeLog, rules: Any = ()) -> tuple[Table, ...]:
    bronze = Table(
        name="bronze/users",
        description="Events of the user table's log.",
        reads=(LandedFiles("users"),),
        changes=changes,
        write=Append(),
    )
    silver = {
        name: Table(
            name=f"silver/{name}",
            description="The users.",
            reads=(SameDay(bronze),),
            key=("id",),
            schema=Contract(id=Integer(required=True), name=Text(), notes=Text()),
            rules=rules,
            write=write,
        )
        for name, write in {"users": Merge(), "versions": SCD2()}.items()
    }
    return (bronze, *silver.values())


def event(op: str, lsn: int, row: dict[str, Any] | None, before: Any = None) -> dict[str, Any]:
    source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1483574400000 + lsn}
    image = {"before": before, "after": row}
    if op == "d":
        image = {"before": row, "after": None}
    return {**image, "source": source, "op": op, "ts_ms": 1483574400500 + lsn}


def user(id_: int, name: str, *notes: str | None) -> dict[str, Any]:
    return {"id": id_, "name": name, **({"notes": notes[0]} if notes else {})}


def debezium(
    lake: Lakes,
    unchanged: Unchanged = "marked",
    no_earlier: NoEarlier = "quarantine",
    rules: Any = (),
    only: str = "",
) -> Lake:
    every = tables(ChangeLog.debezium(unchanged=unchanged, no_earlier=no_earlier), rules)
    return lake(*(t for t in every if not only or t.layer == "bronze" or t.name == only))


# Of each key what happened to it, in the order of the log.
LOG = [
    event("c", 10, user(1, "Ann", "long")),
    event("u", 20, user(1, "Anna", MARKED)),
    event("u", 30, user(1, "Anne", "longer")),
    event("u", 40, user(1, "Anne-Marie", MARKED)),
    event("c", 11, user(2, "Bob", "text")),
    event("d", 21, user(2, "Bob", MARKED)),
    event("c", 31, user(2, "Bo", "new text")),
    event("u", 41, user(2, "Bobby", MARKED)),
]
ENDS = [(1, "Anne-Marie", "longer"), (2, "Bobby", "new text")]
VERSIONS = [
    (1, "Ann", "long", 10, 20),
    (1, "Anna", "long", 20, 30),
    (1, "Anne", "longer", 30, 40),
    (1, "Anne-Marie", "longer", 40, None),
    (2, "Bo", "new text", 31, 41),
    (2, "Bob", "text", 11, 21),
    (2, "Bobby", "new text", 41, None),
]


# What comes in the second load of days, or again, or repaired, is written where the story is loaded.
FITS = satisfies("fits", "notes IS NULL OR length(name) <= 2 * length(notes)")
RULES = quarantine(satisfies("named", "name != 'bad'"), FITS)
WAITS = "no_earlier_version"


def kept(number: int, nth: int = 20) -> dict[str, Any]:
    return event("u", nth, user(number, "Anna", MARKED))


def created(number: int, name: str = "Ann", notes: str = "long") -> dict[str, Any]:
    return event("c", 10, user(number, name, notes))


IN_PARTS = [
    event("c", 10, user(9, "Ann", "long")),
    event("u", 20, {"id": 9, "name": "Anna"}),
    event("u", 30, {"id": 9, "notes": None}),
    event("u", 40, {"id": 9, "name": "Anne"}),
    event("u", 50, {"id": 9, "city": "Rome"}),  # undeclared, so the table gets it
    event("u", 60, {"id": 9, "name": "Anna"}),
    event("c", 10, user(10, "Bob")),
]


def two_loads(lake: Lakes) -> Lake:
    """Users of whom each has a story of its own, in a log that leaves out what did not change."""
    bronze, merged, history = tables(ChangeLog.debezium(unchanged="absent"), RULES)
    users = lake(bronze, merged, history)
    bad, unnamed = created(4, "bad"), event("u", 30, user(4, MARKED, "new"))
    users.land("users", WAITING_DAY, "1.jsonl", [kept(7)])
    users.land("users", DAYS[0], "1.jsonl", [*LOG, bad, kept(4), unnamed])
    users.land("users", DAYS[0], "lost.jsonl", [created(5), kept(5)])
    users.land("users", DAYS[0], "repaired.jsonl", [created(6)])
    parts = [IN_PARTS[at] for at in (0, 5, 1, 6)]
    users.land("users", DAYS[1], "1.jsonl", [created(3), kept(6), created(8), kept(8), *parts])
    users.load(f"{WAITING_DAY}...{DAYS[1]}")

    users.land("users", EARLY_DAY, "1.jsonl", [kept(8)])
    users.land("users", DAYS[0], "lost.jsonl", [kept(5)])
    users.land("users", DAYS[0], "repaired.jsonl", [created(6, notes="repaired")])
    users.land("users", DAYS[1], "again.jsonl", [kept(8)])
    long = event("u", 30, user(3, "Anna-Lena", MARKED))
    parts = [IN_PARTS[at] for at in (4, 3, 2)]
    users.land("users", DAYS[2], "1.jsonl", [kept(3), long, created(7), *parts])
    users.load(f"{EARLY_DAY}...{DAYS[2]}")
    users.load_stale()
    return users


def of(users: Lake, name: str, *numbers: int, also: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    return [row for row in users.rows(name, *ROW, *also) if row[0] in numbers]


def in_quarantine(users: Lake, name: str, *numbers: int) -> list[tuple[Any, ...]]:
    """The events of users that are in quarantine: user, name and reasons."""
    rows = pl.read_delta(f"{users.settings.lake}/quarantine/{name.replace('/', '_')}")
    found = [(json.loads(row)["after"], why) for row, why in rows["row", "reasons"].iter_rows()]
    every = ((user["id"], user["name"], *why) for user, why in found)
    return sorted(each for each in every if each[0] in numbers)


@thorough("feeds/test_unchanged.py: the same events in whatever order, in more loads")
def test_an_unchanged_field_keeps_its_value_in_one_load(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    assert of(users, "silver/users", 1, 2) == ENDS
    assert of(users, HISTORY, 1, 2, also=VERSION[3:]) == VERSIONS
    assert in_quarantine(users, "silver/users", 1, 2) == in_quarantine(users, HISTORY, 1, 2) == []


def test_rules_judge_an_event_by_the_value_that_did_not_change(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    assert of(users, "silver/users", 3) == [(3, "Anna", "long")]
    assert of(users, HISTORY, 3) == [(3, "Ann", "long"), (3, "Anna", "long")]
    for name in ("silver/users", HISTORY):
        assert in_quarantine(users, name, 3) == [(3, "Anna-Lena", "fits")]


def test_an_event_has_no_value_of_one_that_is_in_quarantine(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    for name in ("silver/users", HISTORY):
        assert of(users, name, 4) == []
        assert in_quarantine(users, name, 4) == [
            (4, "Anna", WAITS),
            (4, MARKED, WAITS, "named", "fits"),  # its name is of one that has to wait itself
            (4, "bad", "named"),
        ]


def test_a_file_that_loses_the_version_before_leaves_none_behind(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    for name in ("silver/users", HISTORY):
        assert of(users, name, 5) == []
        assert in_quarantine(users, name, 5) == [(5, "Anna", WAITS)]


def test_a_repaired_file_gives_later_events_its_values(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    assert of(users, "silver/users", 6) == [(6, "Anna", "repaired")]
    assert of(users, HISTORY, 6) == [(6, "Ann", "repaired"), (6, "Anna", "repaired")]


def test_without_an_earlier_version_an_event_waits_until_there_is_one(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    assert of(users, HISTORY, 7) == [(7, "Ann", "long")]
    assert in_quarantine(users, HISTORY, 7) == [(7, "Anna", WAITS)]

    users.lakehouse.replay(users.tables[HISTORY], [date.fromisoformat(WAITING_DAY)])

    assert in_quarantine(users, HISTORY, 7) == []
    versions = [(7, "Ann", "long", 10, 20), (7, "Anna", "long", 20, None)]
    assert of(users, HISTORY, 7, also=VERSION[3:]) == versions


def test_an_event_that_comes_again_keeps_its_value(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    assert of(users, HISTORY, 8) == [(8, "Ann", "long"), (8, "Anna", "long")]
    assert of(users, "silver/users", 8) == [(8, "Anna", "long")]
    assert in_quarantine(users, HISTORY, 8) == []


def test_events_with_their_changed_fields_alone(lake: Lakes) -> None:
    users = lake.copy_of(two_loads)
    whole = [(10, "Bob", None, None), (9, "Anna", None, "Rome")]
    assert of(users, "silver/users", 9, 10, also=("city",)) == whole
    assert of(users, HISTORY, 9, 10, also=("city", "valid_from")) == sorted(
        [
            (9, "Ann", "long", None, 10),
            (9, "Anna", "long", None, 20),
            (9, "Anna", None, None, 30),
            (9, "Anne", None, None, 40),
            (9, "Anne", None, "Rome", 50),
            (9, "Anna", None, "Rome", 60),
            (10, "Bob", None, None, 10),
        ],
        key=repr,
    )
    assert in_quarantine(users, "silver/users", 9, 10) == in_quarantine(users, HISTORY, 9, 10) == []


def test_nulls_that_mean_unchanged(lake: Lakes) -> None:
    bronze, _, history = tables(ChangeLog(unchanged="null"))
    users = lake(bronze, history)
    rows = [
        {"operation": "upsert", "sequence_num": 1, "id": 1, "name": "Ann", "notes": None},
        {"operation": "upsert", "sequence_num": 3, "id": 1, "name": None, "notes": "long"},
        {"operation": "upsert", "sequence_num": 2, "id": 1, "name": "Anna"},
    ]
    for day, row in zip(DAYS, rows, strict=True):
        users.land("users", day, "1.jsonl", [row])
    users.load(f"{DAYS[0]}...{DAYS[2]}")
    assert users.reasons(HISTORY) == []
    assert users.rows(HISTORY, *ROW) == [
        (1, "Ann", None),
        (1, "Anna", "long"),
        (1, "Anna", None),
    ]


ROME = [
    event("c", 10, {**user(5, "Ann", "long"), "city": "Rome"}),
    event("u", 20, {**user(5, "Anna", "longer"), "city": MARKED}),
    event("u", 30, {**user(5, "Anne", MARKED), "city": MARKED}),
]


def renamed(silver: Table) -> Table:
    transform = lambda rows: rows.withColumnRenamed("notes", "comment")  # noqa: E731
    return replace(silver, name="silver/renamed", rules=(), transform=transform)


def out_of_order(lake: Lakes) -> Lake:
    """Two loads of a large table on a cluster without checkpoints, where values may be missing.

    Then keys that lack nothing are merged as ever.
    """
    bronze, merged, history = tables(ChangeLog.debezium(no_earlier="null"))
    users = lake(bronze, merged, history, renamed(merged))
    first = [LOG[at] for at in (3, 7, 5, 1)]
    ann, anna = event("c", 1, user(6, "Ann", "long")), kept(6, 3)
    deleted = [created(4), event("d", 20, {"id": 4}), kept(4, 30)]
    users.land("users", DAYS[0], "1.jsonl", [*first, created(3), kept(3, 30), *deleted])
    users.land("users", DAYS[0], "2.jsonl", [ann, anna, ROME[0]])
    second = [LOG[at] for at in (0, 4, 2, 6)]
    # What is older than the delete is of the row before it.
    around = [event("u", 15, user(4, "A", "other")), event("u", 25, user(4, "An", "new"))]
    users.land("users", DAYS[1], "1.jsonl", [*second, event("d", 20, {"id": 3}), *around])
    users.land("users", DAYS[2], "1.jsonl", [event("t", 2, None), *ROME[1:]])
    with pytest.MonkeyPatch.context() as cluster:
        cluster.setattr(load_session, "_can_checkpoint", lambda spark: False)
        users.load(DAYS[0])
        users = users.with_tables(bronze, merged, history)
        users.load(f"{DAYS[1]}...{DAYS[2]}")
    return users


def test_an_unchanged_field_keeps_its_value_in_whatever_order_events_come(lake: Lakes) -> None:
    users = lake.copy_of(out_of_order)
    assert of(users, "silver/users", 1, 2) == ENDS
    assert of(users, HISTORY, 1, 2, also=VERSION[3:]) == VERSIONS
    assert not [*Path(users.lakehouse.settings.lake).rglob(f"{INTERMEDIATE}*")]


def test_a_late_delete_takes_the_values_before_it_away(lake: Lakes) -> None:
    users = lake.copy_of(out_of_order)
    assert of(users, "silver/users", 3) == [(3, "Anna", None)]
    assert of(users, "silver/users", 4) == [(4, "Anna", "new")]


def test_a_late_truncate_takes_the_values_before_it_away(lake: Lakes) -> None:
    users = lake.copy_of(out_of_order)
    assert of(users, "silver/users", 6) == [(6, "Anna", None)]
    assert of(users, HISTORY, 6) == [(6, "Ann", "long"), (6, "Anna", None)]


@thorough("feeds/test_unchanged.py: declared fields")
def test_an_undeclared_field_keeps_its_value_and_a_rebuild_gives_the_same(lake: Lakes) -> None:
    users = lake.copy_of(out_of_order)
    assert of(users, "silver/users", 5, also=("city",)) == [(5, "Anne", "longer", "Rome")]
    assert verify(users.lakehouse, users.tables["silver/users"]).equal


def test_a_transform_that_renames_a_column_lets_no_event_without_it_in(lake: Lakes) -> None:
    users = lake.copy_of(out_of_order)
    rows = users.rows("silver/renamed", "id", "name", "comment")
    assert [row for row in rows if row[0] == 3] == [(3, "Ann", "long")]
    waits = [(3, "Anna", "unchanged_field_in_transform")]
    assert in_quarantine(users, "silver/renamed", 3) == waits


@thorough("feeds/test_unchanged.py, loaders/test_unchanged.py: two loads; three, into a target")
@pytest.mark.parametrize(
    ("loads", "large"),
    [([(7, 6), (5, 4, 3), (2, 1, 0)], False), ([(3, 7, 5), (0, 4), (2, 1, 6)], True)],
)
def test_an_unchanged_field_keeps_its_value_in_three_loads(
    lake: Lakes, loads: list[tuple[int, ...]], large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(load_session, "_can_checkpoint", lambda spark: False)
    users = debezium(lake, no_earlier="null")
    for day, some in zip(DAYS, loads, strict=True):
        users.land("users", day, "1.jsonl", [LOG[at] for at in some])
        users.load(day)
    assert users.rows("silver/users", *ROW) == ENDS
    assert users.rows(HISTORY, *VERSION) == VERSIONS
    assert not [*Path(users.lakehouse.settings.lake).rglob(f"{INTERMEDIATE}*")]


@thorough(
    "feeds/test_unchanged.py, scenarios/test_advance.py: late values, and facts that look versions up"
)
def test_facts_that_look_up_a_version_see_the_value_that_comes_late(lake: Lakes) -> None:
    bronze, _, versions = tables(ChangeLog.debezium())
    versions = replace(versions, write=SCD2(valid_time="event"))
    sales = lake(bronze, versions, LANDED_SALES, SALES, mart(versions))
    log = [
        change("c", 10, "05 10", 1, "Ann") | {"after": user(1, "Ann", "long")},
        change("u", 30, "06 10", 1, "Anna") | {"after": user(1, "Anna", MARKED)},
    ]
    late = change("u", 20, "05 15", 1, "An") | {"after": user(1, "An", "new")}
    sales.land("users", DAYS[0], "1.jsonl", log)
    sales.land("sales", DAYS[1], "1.jsonl", [{"sale": "a", "id": 1, "at": "2017-01-06T12:00:00Z"}])
    sales.load("2017-01-05...2017-01-06")
    assert sales.rows("gold/mart", "sale", "user_notes") == [("a", "long")]
    sales.land("users", DAYS[2], "1.jsonl", [late])
    sales.load(DAYS[2], "bronze/users", HISTORY)
    sales.load_stale()
    assert sales.rows("gold/mart", "sale", "user_notes") == [("a", "new")]
