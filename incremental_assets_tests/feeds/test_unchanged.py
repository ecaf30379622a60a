"""Events that lack fields which did not change: each keeps the value of the version before it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.unchanged import DEBEZIUM, NoEarlier, Unchanged
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import not_null, quarantine, satisfies
from incremental_assets.quality.types import Integer, Text
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.spark import load_session
from incremental_assets.spark.load_session import INTERMEDIATE
from incremental_assets.table import SameDay, Table
from incremental_assets.verifying.verify import verify
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_history_in_time import LANDED_SALES, SALES, change, mart
from incremental_assets_tests.feeds.world import Lake

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


def test_an_unchanged_field_keeps_its_value_in_one_load(lake: Lakes) -> None:
    users = debezium(lake)
    users.land("users", DAYS[0], "1.jsonl", LOG)
    users.load(DAYS[0])
    assert users.reasons("silver/users") == []
    assert users.rows("silver/users", *ROW) == ENDS
    assert users.rows(HISTORY, *VERSION) == VERSIONS


@pytest.mark.parametrize(
    ("loads", "large"),
    [([(7, 6), (5, 4, 3), (2, 1, 0)], False), ([(3, 7, 5), (0, 4), (2, 1, 6)], True)],
)
def test_an_unchanged_field_keeps_its_value_in_whatever_order_events_come(
    lake: Lakes, loads: list[tuple[int, ...]], large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:  # then keys that lack nothing are merged as ever; no checkpoint stays on a cluster
        monkeypatch.setattr(load_session, "_can_checkpoint", lambda spark: False)
    users = debezium(lake, no_earlier="null")
    for day, some in zip(DAYS, loads, strict=True):
        users.land("users", day, "1.jsonl", [LOG[at] for at in some])
        users.load(day)
    assert users.rows("silver/users", *ROW) == ENDS
    assert users.rows(HISTORY, *VERSION) == VERSIONS
    assert not [*Path(users.lakehouse.settings.lake).rglob(f"{INTERMEDIATE}*")]


def test_without_an_earlier_version_an_event_waits_until_there_is_one(lake: Lakes) -> None:
    users = debezium(lake, only=HISTORY)
    users.land("users", DAYS[0], "1.jsonl", [event("u", 20, user(1, "Anna", MARKED))])
    users.load(DAYS[0])
    assert users.reasons(HISTORY) == [("no_earlier_version",)]
    assert users.rows(HISTORY, *ROW) == []

    users.land("users", DAYS[1], "1.jsonl", [event("c", 10, user(1, "Ann", "long"))])
    users.load(DAYS[1])
    users.lakehouse.replay(users.tables[HISTORY], [date.fromisoformat(DAYS[0])])
    assert users.reasons(HISTORY) == []
    assert users.rows(HISTORY, *VERSION) == [VERSIONS[0], (1, "Anna", "long", 20, None)]


def test_rules_judge_an_event_by_the_value_that_did_not_change(lake: Lakes) -> None:
    fits = satisfies("notes_fit", "length(name) <= length(notes)")
    rules = quarantine(not_null("notes"), fits)
    users = lake(*tables(ChangeLog.debezium(), rules)[:2])
    users.land("users", DAYS[0], "1.jsonl", [event("c", 10, user(1, "Ann", "long"))])
    users.load(DAYS[0])
    some = [event("u", 20, user(1, "Anna", MARKED)), event("u", 30, user(1, "Anna-Lena", MARKED))]
    users.land("users", DAYS[1], "1.jsonl", some)
    users.load(DAYS[1])
    assert users.reasons("silver/users") == [("notes_fit",)]
    assert users.rows("silver/users", *ROW) == [(1, "Anna", "long")]


def test_a_late_delete_takes_the_values_before_it_away(lake: Lakes) -> None:
    users = debezium(lake, no_earlier="null", only="silver/users")
    first = [event("c", 10, user(1, "Ann", "long")), event("u", 30, user(1, "Anna", MARKED))]
    users.land("users", DAYS[0], "1.jsonl", first)
    users.load(DAYS[0])
    assert users.rows("silver/users", *ROW) == [(1, "Anna", "long")]
    users.land("users", DAYS[1], "1.jsonl", [event("d", 20, {"id": 1})])
    users.load(DAYS[1])
    assert users.rows("silver/users", *ROW) == [(1, "Anna", None)]
    # What is older than the delete is of the row before it.
    users.land("users", DAYS[2], "1.jsonl", [event("u", 15, user(1, "A", "other"))])
    users.land("users", DAYS[2], "2.jsonl", [event("u", 25, user(1, "An", "new"))])
    users.load(DAYS[2])
    assert users.rows("silver/users", *ROW) == [(1, "Anna", "new")]


def test_events_with_their_changed_fields_alone(lake: Lakes) -> None:
    users = debezium(lake, "absent")
    events = [
        event("c", 10, user(1, "Ann", "long")),
        event("u", 20, {"id": 1, "name": "Anna"}),
        event("u", 30, {"id": 1, "notes": None}),
        event("u", 40, {"id": 1, "name": "Anne"}),
        event("u", 50, {"id": 1, "city": "Rome"}),  # undeclared, so the table gets it
        event("u", 60, {"id": 1, "name": "Anna"}),
        event("c", 11, user(2, "Bob")),
    ]
    whole = [(1, "Anna", None, "Rome"), (2, "Bob", None, None)]
    for nth, at in enumerate((0, 5, 1, 6)):
        users.land("users", DAYS[0], f"{nth}.jsonl", [events[at]])
    users.load(DAYS[0])
    for nth, at in enumerate((4, 3, 2)):
        users.land("users", DAYS[1], f"{nth}.jsonl", [events[at]])
    users.load(DAYS[1])
    assert users.reasons("silver/users") == []
    assert users.rows("silver/users", *ROW, "city") == whole
    versions = users.rows(HISTORY, *ROW, "city", "valid_from")
    assert versions == sorted(
        [
            (1, "Ann", "long", None, 10),
            (1, "Anna", "long", None, 20),
            (1, "Anna", None, None, 30),
            (1, "Anne", None, None, 40),
            (1, "Anne", None, "Rome", 50),
            (1, "Anna", None, "Rome", 60),
            (2, "Bob", None, None, 11),
        ],
        key=repr,
    )


def test_nulls_that_mean_unchanged(lake: Lakes) -> None:
    bronze, _, history = tables(ChangeLog(unchanged="null"))
    users = lake(bronze, history)
    rows = [
        {"operation": "upsert", "sequence_num": 1, "id": 1, "name": "Ann", "notes": None},
        {"operation": "upsert", "sequence_num": 3, "id": 1, "name": None, "notes": "long"},
        {"operation": "upsert", "sequence_num": 2, "id": 1, "name": "Anna"},
    ]
    for nth, row in enumerate(rows):
        users.land("users", DAYS[nth], "1.jsonl", [row])
        users.load(DAYS[nth])
    assert users.reasons(HISTORY) == []
    assert users.rows(HISTORY, *ROW) == [
        (1, "Ann", None),
        (1, "Anna", "long"),
        (1, "Anna", None),
    ]


def test_a_repaired_file_gives_later_events_its_values(lake: Lakes) -> None:
    users = debezium(lake, only=HISTORY)
    users.land("users", DAYS[0], "1.jsonl", [event("c", 10, user(1, "Ann", "long"))])
    users.land("users", DAYS[1], "1.jsonl", [event("u", 20, user(1, "Anna", MARKED))])
    users.load("2017-01-05...2017-01-06")
    users.land("users", DAYS[0], "1.jsonl", [event("c", 10, user(1, "Ann", "repaired"))])
    users.load(DAYS[0])
    users.load_stale()
    assert users.rows(HISTORY, *ROW) == [(1, "Ann", "repaired"), (1, "Anna", "repaired")]


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
    sales.load(DAYS[2])
    sales.load_stale()
    assert sales.rows("gold/mart", "sale", "user_notes") == [("a", "new")]


def test_an_event_has_no_value_of_one_that_is_in_quarantine(lake: Lakes) -> None:
    users = debezium(lake, rules=quarantine(satisfies("named", "name != 'bad'")))
    bad, then = event("c", 10, user(1, "bad", "long")), event("u", 20, user(1, "Anna", MARKED))
    last = event("u", 30, user(1, MARKED, "new"))  # its name is of one that has to wait itself
    users.land("users", DAYS[0], "1.jsonl", [bad, then, last, event("c", 11, user(2, "Bob", "x"))])
    users.load(DAYS[0])
    for name in ("silver/users", HISTORY):
        waits = ("no_earlier_version",)
        assert users.reasons(name) == [("named",), waits, (*waits, "named")]
        assert users.rows(name, *ROW) == [(2, "Bob", "x")]


def test_an_event_that_comes_again_keeps_its_value(lake: Lakes) -> None:
    users = debezium(lake, only=HISTORY)
    first, then = event("c", 10, user(1, "Ann", "long")), event("u", 20, user(1, "Anna", MARKED))
    users.land("users", DAYS[1], "1.jsonl", [first, then])
    users.load(DAYS[1])
    users.land("users", DAYS[1], "2.jsonl", [then])
    users.land("users", DAYS[0], "1.jsonl", [then])
    users.load("2017-01-05...2017-01-06")
    assert users.reasons(HISTORY) == []
    assert users.rows(HISTORY, *ROW) == [(1, "Ann", "long"), (1, "Anna", "long")]


def test_a_late_truncate_takes_the_values_before_it_away(lake: Lakes) -> None:
    users = debezium(lake, no_earlier="null", only=HISTORY)
    first, then = event("c", 10, user(1, "Ann", "long")), event("u", 30, user(1, "Anna", MARKED))
    users.land("users", DAYS[0], "1.jsonl", [first, then])
    users.load(DAYS[0])
    users.land("users", DAYS[1], "1.jsonl", [event("t", 20, None)])
    users.load(DAYS[1])
    assert users.rows(HISTORY, *ROW) == [(1, "Ann", "long"), (1, "Anna", None)]


def test_a_file_that_loses_the_version_before_leaves_none_behind(lake: Lakes) -> None:
    users = debezium(lake)
    first, then = event("c", 10, user(1, "Ann", "long")), event("u", 20, user(1, "Anna", MARKED))
    other = event("c", 5, user(2, "Bob", "x"))
    users.land("users", DAYS[0], "1.jsonl", [first, then, other])
    users.load(DAYS[0])
    users.land("users", DAYS[0], "1.jsonl", [then, other])
    users.load(DAYS[0])
    for name in ("silver/users", HISTORY):
        assert users.reasons(name) == [("no_earlier_version",)]
        assert users.rows(name, *ROW) == [(2, "Bob", "x")]


def test_a_transform_that_renames_a_column_lets_no_event_without_it_in(lake: Lakes) -> None:
    bronze, silver, _ = tables(ChangeLog.debezium())
    silver = replace(silver, transform=lambda rows: rows.withColumnRenamed("notes", "comment"))
    users = lake(bronze, silver)
    some = [event("c", 10, user(1, "Ann", "long")), event("u", 20, user(1, "Anna", MARKED))]
    users.land("users", DAYS[0], "1.jsonl", some)
    users.load(DAYS[0])
    assert users.reasons("silver/users") == [("unchanged_field_in_transform",)]
    assert users.rows("silver/users", "id", "name", "comment") == [(1, "Ann", "long")]


def test_an_undeclared_field_keeps_its_value_and_a_rebuild_gives_the_same(lake: Lakes) -> None:
    users = debezium(lake, only="silver/users")
    first = event("c", 10, {**user(1, "Ann", "long"), "city": "Rome"})
    then = event("u", 20, {**user(1, "Anna", "longer"), "city": MARKED})
    last = event("u", 30, {**user(1, "Anne", MARKED), "city": MARKED})
    for day, some in zip(DAYS, (first, then, last), strict=True):
        users.land("users", day, "1.jsonl", [some])
        users.load(day)
    assert users.rows("silver/users", *ROW, "city") == [(1, "Anne", "longer", "Rome")]
    assert verify(users.lakehouse, users.tables["silver/users"]).equal


# In a process of its own: one that has a Spark takes no other.
REMOTE = """
import sys
from datetime import date
import polars as pl
from incremental_assets.loaders import CDCLoader
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session
from incremental_assets_tests.feeds.test_unchanged import *
remote, lake, landing, cache = sys.argv[1:]
settings = Settings(
    lake=lake, landing=landing, cache=cache, start_date=date(2017, 1, 1), spark_remote=remote
)
bronze, _, history = tables(ChangeLog.debezium())
users = Lake(start_session(settings), settings, bronze, history)
for day in DAYS[:2]:
    users.load(day)
found = [users.rows(HISTORY, *VERSION) == VERSIONS]
loader, options = CDCLoader(users.spark), {"primary_key": "id", "table_name": "users"}
for nth, (source, more) in enumerate({
    "users": {"cdc_format": "debezium"},
    "flat": {"cdc_format": "flat", "placeholder": MARKED},
}.items()):
    at = [f"{lake}_{source}_{part}" for part in ("target", "watermarks")]
    loader.process_cdc(f"{landing}/{source}", *at, **options, **more)
    rows = pl.read_delta(at[0]).select(ROW).sort("id").rows()
    found.append(rows == ENDS)
print(found)
"""


def test_a_connect_server_gives_the_same(lake: Lakes, server: str, settings: Settings) -> None:
    users = debezium(lake)
    users.land("users", DAYS[0], "1.jsonl", LOG[:4])
    users.land("users", DAYS[1], "1.jsonl", LOG[4:])
    flat = [
        {"operation": "upsert", "sequence_num": n, "id": 1 + n // 2, "name": name, "notes": notes}
        for n, (name, notes) in enumerate(
            [("Ann", "longer"), ("Anne-Marie", MARKED), ("Bo", "new text"), ("Bobby", MARKED)]
        )
    ]
    users.land("flat", "", "1.jsonl", flat)
    folders = (settings.lake, settings.landing, str(settings.cache))

    done = subprocess.run(
        [sys.executable, "-c", REMOTE, server, *folders],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines()[-1:] == ["[True, True, True]"], done.stderr
    assert not [*Path(settings.lake).rglob(f"{INTERMEDIATE}*")]
