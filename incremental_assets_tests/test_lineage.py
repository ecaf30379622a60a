"""Which columns a column is made of: exact for what is typed, declared for what is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from incremental_assets.changes import SnapshotDiff
from incremental_assets.errors import DefinitionError
from incremental_assets.lineage import lineage_of
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Text
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import SCD2, ReplaceDay
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, USERS

HAVE: Mapping[str, Sequence[str]] = {
    "silver/sales": ["_batch", "dt", "id", "at", "user_note"],
    "silver/users": ["_batch", "dt", "user_id", "at", "name", "note", "user_note", "city"],
}


def origins(table: Table, *columns: str) -> dict[str, list[str]]:
    found = lineage_of(table, columns, lambda upstream: HAVE[upstream.name])
    return {name: [f"{o.table}.{o.column}" for o in some] for name, some in found.items()}


def test_typed_columns_come_from_the_payload_and_the_day_from_bronzes() -> None:
    assert origins(SALES, "_batch", "id", "grown", "dt") == {
        "id": ["bronze/events.payload"],
        "grown": ["bronze/events.payload"],
        "dt": ["bronze/events._day"],
    }


def test_the_intervals_of_full_copies_come_from_their_landing_day() -> None:
    copies = replace(EVENTS, name="bronze/copies", day=None, changes=SnapshotDiff(("id",)))
    versions = Table(
        "silver/copies",
        "",
        reads=(SameDay(copies),),
        key=("id",),
        schema=Contract(id=Text()),
        write=SCD2(),
    )

    assert origins(versions, "id", "valid_from") == {
        "id": ["bronze/copies.payload"],
        "valid_from": ["bronze/copies._landing_day"],
    }


def test_bronze_comes_from_no_table() -> None:
    assert origins(EVENTS, "payload", "_day") == {}


def test_columns_that_keep_their_name_need_no_word_and_the_facts_come_first() -> None:
    assert origins(MART, "_batch", "at", "city", "made_up") == {
        "at": ["silver/sales.at"],
        "city": ["silver/users.city"],
    }


def test_what_is_declared_goes_before_names_and_a_star_behind_the_facts_own() -> None:
    mart = replace(
        MART,
        lineage={
            "at": ("silver/users.at", "silver/sales.id"),
            "user_*": ("silver/users.*",),
            "counted": (),
        },
    )

    assert origins(mart, "at", "user_name", "user_note", "user_id", "user_x", "counted") == {
        "at": ["silver/users.at", "silver/sales.id"],
        "user_name": ["silver/users.name"],
        "user_note": ["silver/sales.user_note"],
        "user_id": ["silver/users.user_id"],
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param({"x": ("silver/sales.nope",)}, "'nope', which the contract", id="column"),
        pytest.param({"x": ("silver/users.At",)}, "'At', which the contract", id="case"),
        pytest.param({"x": ("silver/other.id",)}, "one of the tables that it reads", id="table"),
        pytest.param({"x": ("silver/sales",)}, "expected 'table.column'", id="no column"),
        pytest.param({"x": "silver/sales.id"}, "give a tuple of texts", id="a text"),
        pytest.param({"x": ("silver/users.*",)}, "is not made of all of them", id="one of all"),
    ],
)
def test_a_lineage_that_names_what_is_not_there_is_refused(
    changed: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match="gold/mart: lineage of 'x' ") as raised:
        replace(MART, lineage=changed)

    assert message in str(raised.value)


def test_what_a_transform_adds_may_be_named() -> None:
    typed = replace(SALES, transform=lambda rows: rows)
    made = Table(
        "gold/made",
        "",
        reads=(SameDay(typed),),
        write=ReplaceDay(),
        transform=lambda rows: rows,
        lineage={"x": ("silver/sales.added",)},
    )

    assert made.lineage


@pytest.mark.parametrize("table", [EVENTS, USERS])
def test_what_landed_or_is_typed_declares_none(table: Table) -> None:
    with pytest.raises(DefinitionError, match="lineage is for what a gold table makes"):
        replace(table, lineage={"at": ("bronze/events.payload",)})
