"""Events that lack fields which did not change: each keeps the value of the version before it."""

from __future__ import annotations

from typing import Any

import pytest

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.unchanged import DEBEZIUM, NoEarlier, Unchanged
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake

DAYS = ["2017-01-05", "2017-01-06", "2017-01-07"]
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
) -> Lake:
    return lake(*tables(ChangeLog.debezium(unchanged=unchanged, no_earlier=no_earlier), rules))


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
    assert users.rows("silver/versions", *VERSION) == VERSIONS


@pytest.mark.parametrize("order", [(7, 6, 5, 4, 3, 2, 1, 0), (3, 7, 0, 4, 5, 2, 1, 6)])
def test_an_unchanged_field_keeps_its_value_in_whatever_order_events_come(
    lake: Lakes, order: tuple[int, ...]
) -> None:
    users = debezium(lake, no_earlier="null")
    for nth, at in enumerate(order):
        users.land("users", DAYS[nth % 3], f"{nth}.jsonl", [LOG[at]])
        users.load("2017-01-05...2017-01-07")
    users.load_stale()
    assert users.rows("silver/users", *ROW) == ENDS
    assert users.rows("silver/versions", *VERSION) == VERSIONS
