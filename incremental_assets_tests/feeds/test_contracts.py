"""What tables do when the fields of a feed, or the declared types, change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog
from incremental_assets.delta.widen import widen
from incremental_assets.engine import batch
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import DayResult
from incremental_assets.operations.quarantined import QuarantineFilter, quarantined_rows
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.judge import RuleResult
from incremental_assets.quality.rules import fail, quarantined_share
from incremental_assets.quality.types import Decimal, FieldType, Instant, Integer, Text
from incremental_assets.table import SameDay, Table
from incremental_assets.testing import Killed
from incremental_assets.writes import Merge, ReplaceDay
from incremental_assets_tests.feeds import test_change_log as logs
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import DAY, landed
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

THE_DAY = date(2017, 1, 5)


def tickets(on_new_column: Any = "evolve", **columns: FieldType) -> tuple[Table, Table]:
    own: dict[str, FieldType] = {
        "ticket_id": Text(required=True),
        "price": Decimal(),
        "at": Instant(),
    }
    silver = Table(
        name="silver/tickets",
        description="Tickets.",
        reads=(SameDay(landed("tickets")),),
        key=("ticket_id",),
        version_by=("price",),
        day="at",
        schema=Contract(on_new_column, **{**own, **columns}),
        rules=fail(quarantined_share(0.5)),
        write=Merge(),
    )
    return landed("tickets"), silver


def ticket(id_: str, **fields: Any) -> dict[str, Any]:
    return {"ticket_id": id_, "price": 2, "at": f"{DAY}T10:00", **fields}


def load(lake: Lake, *rows: Any, file: str = "1.jsonl") -> dict[str, RuleResult]:
    lake.land("tickets", DAY, file, rows)
    day = lake.load(DAY)["silver/tickets"].days[THE_DAY]
    return dict(day.checks) | {"state": day}  # type: ignore[dict-item]


def columns(lake: Lake) -> set[str]:
    return {c for c in lake.frame("silver/tickets").columns if not c.startswith("_")} - {"dt"}


@dataclass(frozen=True)
class Judged:
    """Days whose fields differ, each in another way, loaded at once."""

    lake: Lake
    days: Mapping[date, DayResult]

    def of(self, day: int) -> DayResult:
        return self.days[date(2017, 1, day)]

    def rows(self, day: int, *columns: str) -> list[tuple[Any, ...]]:
        found = self.lake.rows("silver/tickets", "dt", *columns)
        return [row[1:] for row in found if row[0] == f"2017-01-{day:02}"]

    def details(self, day: int) -> list[list[str]]:
        silver = self.lake.tables["silver/tickets"]
        found = quarantined_rows(self.lake.settings, silver, QuarantineFilter())
        return found.filter(pl.col("_day") == date(2017, 1, day))["details"].to_list()


RENAMED = {1: "ticketId", 2: "TICKET_ID", 3: "code"}


@pytest.fixture(scope="module")
def judged(module_lake: Lakes) -> Judged:
    policy = {"*": "evolve", "debug": "discard", "password": "freeze"}
    shop = module_lake(
        *tickets(
            policy,
            seats=Integer(on_type_error="freeze"),
            note=Integer(on_type_error="discard"),
            holder=Text(),
            unit_price=Decimal(),
        )
    )
    days: dict[int, list[dict[str, Any]]] = {
        **{day: [{name: f"t{n}", "price": 1} for n in range(3)] for day, name in RENAMED.items()},
        4: [ticket("a", promo="x", debug={"deep": [1]}), ticket("c", Debug=1)],
        5: [ticket("b", Password="secret")],
        6: [ticket("d", seats=1, note="three"), ticket("e", seats=2, note=3)],
        7: [ticket("f", seats=4), ticket("g", seats="many")],
        8: [
            ticket("h", holder="Ann", place={"row": 1}),
            ticket("i", holder={"name": "Bob"}, place="left"),
            ticket("j", holder="Cem", place={"row": "two", "seat": [1, {"x": None}]}),
        ],
        9: [ticket("k", unitPrice=3)],
        10: [ticket("l", unit_price=3)],
        11: [
            ticket("m"),
            {"ticket_id": "n", "Price": 5},
            ticket("o", price=None, PRICE=1),
            ticket("p", price=3),
        ],
    }
    for day, rows in days.items():
        at = f"2017-01-{day:02}"
        shop.land("tickets", at, "1.jsonl", [row | {"at": f"{at}T10:00"} for row in rows])
    return Judged(shop, shop.load("2017-01-01...2017-01-11")["silver/tickets"].days)


def test_what_becomes_of_new_fields_is_reported_by_field(judged: Judged) -> None:
    assert judged.rows(4, "ticket_id", "promo") == [("a", "x"), ("c", None)]
    assert not {"debug", "Debug", "Password"} & columns(judged.lake)

    found = judged.of(5).checks["fields_declared"]
    assert (found.passed, found.severity) == (False, "fail")
    assert found.found == "1 fields that nobody declared: Password; declare them or repair the feed"
    assert judged.rows(5, "ticket_id") == []


def test_a_misfit_holds_its_day_or_is_left_out_where_its_column_says_so(judged: Judged) -> None:
    assert judged.rows(6, "ticket_id", "note") == [("d", None), ("e", 3)]
    assert judged.details(6) == []

    assert judged.of(7).checks["values_fit"].found == "1 values of seats are no int"
    assert judged.rows(7, "ticket_id") == []
    assert judged.details(7) == [['seats: "many" is no int']]


def test_a_required_field_that_went_or_was_renamed_is_named(judged: Judged) -> None:
    lacks = "ticket_id is in no row"
    messages = [
        f"{lacks}, and ticketId is, which nobody declared: renamed?",
        f"{lacks}, and TICKET_ID is, which nobody declared: renamed?",
        lacks,
    ]
    for day, message in zip(RENAMED, messages, strict=True):
        held = judged.of(day)
        assert held.checks["fields_present"].found == message
        assert held.reason.startswith("quarantined_share: 3 of 3 rows")
        assert held.reason.endswith(f"({message})")
    reasons = judged.lake.reasons("silver/tickets")
    assert reasons.count(("ticket_id_not_null",)) == 6
    assert reasons.count(("ticket_id_unreadable",)) == 3  # of TICKET_ID


def test_an_optional_field_that_seems_to_be_renamed_is_a_warning(judged: Judged) -> None:
    found = judged.of(9).checks["fields_present"]

    assert found.found == (
        "unit_price is in no row, and unitPrice is, which nobody declared: renamed?"
    )
    assert found.severity == "warn"
    assert judged.rows(9, "ticket_id", "unitPrice") == [("k", "3")]
    assert judged.of(10).checks["fields_present"].passed


def test_a_declared_field_in_another_case_is_quarantined(judged: Judged) -> None:
    assert judged.rows(11, "ticket_id", "price") == [("m", 2), ("p", 3)]
    assert sorted(judged.details(11)) == [
        ["price: is there as PRICE, in another case"],
        ["price: is there as Price, in another case"],
    ]
    assert ("price_unreadable",) in judged.lake.reasons("silver/tickets")


def test_a_field_that_differs_from_an_undeclared_column_only_in_case_is_a_warning(
    lake: Lakes,
) -> None:
    shop = lake(*tickets())
    only_case = "color differs from the column Color only in case, and stays in bronze"

    both = load(shop, ticket("a", Color="red"), ticket("b", color="red"))
    later = load(shop, ticket("c", color="red"), ticket("d"), file="2.jsonl")
    as_it_is = load(shop, ticket("e", Color="red"), file="3.jsonl")

    for found in (both, later):
        assert only_case in found["fields_present"].found
        assert found["fields_present"].severity == "warn"
    assert as_it_is["fields_present"].passed
    assert [row for row in shop.logged if only_case in row]
    assert shop.rows("silver/tickets", "ticket_id", "Color") == [
        ("a", "red"),
        ("b", None),
        ("c", None),
        ("d", None),
        ("e", "red"),
    ]


def test_a_nested_change_is_kept_as_text_or_quarantined(judged: Judged) -> None:
    assert judged.rows(8, "ticket_id", "place") == [
        ("h", '{"row":1}'),
        ("j", '{"row":"two","seat":[1,{"x":null}]}'),
    ]
    assert judged.details(8) == [['holder: {"name":"Bob"} is no string']]


def test_of_a_thousand_new_fields_and_more_the_rest_is_reported_and_stays_in_bronze(
    lake: Lakes,
) -> None:
    shop = lake(*tickets())
    more = {f"f{n:04d}": 1 for n in range(1_100)}

    load(shop, ticket("a", **more))

    assert len(columns(shop)) == len(("ticket_id", "price", "at")) + 100
    assert any("more than 1000 fields that nobody declared" in message for message in shop.logged)


GROWN = {  # of each field: the type before and after, a value of each
    "pieces": (Integer(), Integer(wide=True), 7, 3_000_000_000),
    "fee": (Decimal(precision=9, scale=2), Decimal(precision=18, scale=4), 1.25, 123456789.0625),
    "weight": (Integer(), Decimal(precision=18, scale=4), 7, 7.5),
}


def test_declared_types_that_grew_widen_their_columns(lake: Lakes) -> None:
    def declared(which: int) -> tuple[Table, Table]:
        return tickets(**{name: types[which] for name, types in GROWN.items()})

    first = {name: value for name, (_, _, value, _) in GROWN.items()}
    later = {name: value for name, (_, _, _, value) in GROWN.items()}
    shop = lake(*declared(0))
    load(shop, ticket("a", **first), ticket("b", **first))
    grown = shop.with_tables(*declared(1))

    load(grown, ticket("b", **later | {"price": 3}), ticket("c", **later), file="2.jsonl")

    def found(lake: Lake) -> list[tuple[Any, ...]]:
        rows = lake.rows("silver/tickets", "ticket_id", *GROWN)
        return [(id_, *map(float, values)) for id_, *values in rows]

    small, large = tuple(first.values()), tuple(later.values())
    assert found(grown) == [("a", *small), ("b", *large), ("c", *large)]
    assert any("no longer" in line and "was rewritten" in line for line in grown.logged)
    assert grown.stale() == {}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("silver/users", [(3_000_000_000, "C")]),
        pytest.param(
            "silver/versions",
            [(1, "A"), (2, "B"), (2, "late"), (3_000_000_000, "C")],
            marks=thorough("feeds/test_contracts.py: merged, with tombstones"),
        ),
    ],
)
def test_a_key_of_a_log_widens_with_what_lies_next_to_the_table(
    lake: Lakes, name: str, rows: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def users(kind: FieldType) -> tuple[Table, ...]:
        bronze, *silvers = logs.both_ways(ChangeLog())
        contract = Contract(id=kind, name=Text())
        return bronze, *(replace(s, schema=contract) for s in silvers if s.name == name)

    event = logs.event
    shop = lake(*users(Integer()))
    inserts = [event("INSERT", n, n, name=of) for n, of in enumerate("AB", 1)]
    shop.land("users", DAY, "1.jsonl", [*inserts, event("DELETE", 4, 2)])
    shop.load(DAY)
    grown = shop.with_tables(*users(Integer(wide=True)))
    more = [event("INSERT", 5, 3_000_000_000, name="C"), event("UPDATE", 3, 2, name="late")]
    grown.land("users", DAY, "2.jsonl", [*more, event("DELETE", 6, 1)])
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr("incremental_assets.engine.silver.widen", _dies_at_the_second())
        grown.load(DAY)
    grown.load(DAY)

    assert grown.rows(name, "id", "name") == rows


def _dies_at_the_second() -> Any:
    widened: list[str] = []

    def one(session: SparkSession, path: str, *how: Any) -> list[str]:
        if widened:
            raise Killed
        widened.append(path)
        return widen(session, path, *how)

    return one


def test_a_declared_type_that_shrank_is_refused_and_nothing_is_lost(lake: Lakes) -> None:
    old: dict[str, FieldType] = {
        "pieces": Integer(wide=True),
        "fee": Decimal(),
        "weight": Integer(),
    }
    shop = lake(*tickets(**old))
    load(shop, ticket("a", pieces=5, fee=5, weight=5))
    shop.land("tickets", DAY, "2.jsonl", [ticket("b", pieces=6, fee=6, weight=6)])
    shop.load(DAY, "bronze/tickets")
    shrunk: dict[str, tuple[FieldType, str]] = {
        "pieces": (
            Integer(),
            "pieces is bigint in the table and declared as int, which is narrower",
        ),
        "fee": (
            Decimal(precision=9, scale=2),
            r"declared as decimal\(9,2\), which is narrower",
        ),
        "weight": (Text(), "declared as string, which is another type"),
    }
    for name, (kind, message) in shrunk.items():
        with pytest.raises(DefinitionError, match=message):
            shop.with_tables(*tickets(**old | {name: kind})).load(DAY, "silver/tickets")
    shop.load(DAY, "silver/tickets")

    assert shop.rows("silver/tickets", "ticket_id") == [("a",), ("b",)]


def test_a_column_of_gold_widens_with_what_it_is_made_from(lake: Lakes) -> None:
    gold = Table(
        name="gold/fees",
        description="Fees.",
        reads=(SameDay(tickets(fee=Integer())[1]),),
        write=ReplaceDay(),
        transform=lambda rows: rows.groupBy("dt").agg(F.max("fee").alias("fee")),
    )
    shop = lake(*tickets(fee=Integer()), gold)
    load(shop, ticket("a", fee=1))
    wide = tickets(fee=Integer(wide=True))
    grown = shop.with_tables(*wide, replace(gold, reads=(SameDay(wide[1]),)))

    load(grown, ticket("b", fee=3_000_000_000), file="2.jsonl")

    assert grown.rows("gold/fees", "fee") == [(3_000_000_000,)]


def test_a_column_that_is_declared_later_is_filled_for_old_days_by_a_restatement(
    lake: Lakes,
) -> None:
    shop = lake(*tickets("discard"))
    load(shop, ticket("a", promo="P1"), ticket("b"))
    later = shop.with_tables(*tickets("discard", promo=Text()))
    later.land("tickets", "2017-01-06", "1.jsonl", [ticket("c", promo="P2", at="2017-01-06T10:00")])
    later.load("2017-01-06")
    assert later.rows("silver/tickets", "ticket_id", "promo") == [
        ("a", None),
        ("b", None),
        ("c", "P2"),
    ]

    result = later.lakehouse.restate(later.tables["silver/tickets"], [THE_DAY], "promo is declared")

    assert [d.state for d in result.days.values()] == ["committed"]
    assert later.rows("silver/tickets", "ticket_id", "promo") == [
        ("a", "P1"),
        ("b", None),
        ("c", "P2"),
    ]
    entry = later.lakehouse.ledger.view().table("silver/tickets").committed[-1]
    assert (entry.kind, entry.mode, entry.why) == ("restate", "rebuild", "promo is declared")


def test_policies_that_contradict_the_columns_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"\['price'\] are declared"):
        tickets({"price": "discard"})
    with pytest.raises(DefinitionError, match="'ignore'} is none of"):
        tickets({"debug": "ignore"})


@pytest.mark.parametrize(
    "dropped",
    [
        pytest.param((), marks=thorough("feeds/test_contracts.py: other columns that are dropped")),
        ("_of_expected",),
        ("_of_further",),
    ],
)
def test_a_field_that_the_table_has_already_is_loaded_also_where_a_transform_drops_columns(
    lake: Lakes, dropped: tuple[str, ...]
) -> None:
    bronze, silver = tickets()
    shop = lake(bronze, replace(silver, transform=lambda rows: rows.drop(*dropped)))

    load(shop, ticket("a", note="first"))
    load(shop, ticket("b", note="second"), ticket("c", note="third", size=3), file="2.jsonl")

    found = shop.rows("silver/tickets", "ticket_id", "note", "size")
    assert found == [("a", "first", None), ("b", "second", None), ("c", "third", "3")]


def test_a_large_load_finds_the_fields_of_each_row_whatever_their_shapes_and_the_transform(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    bronze, silver = tickets({"secret": "freeze"}, size=Integer())
    shop = lake(bronze, replace(silver, transform=lambda rows: rows.fillna(0)))
    load(shop, ticket("a", note="first"))
    monkeypatch.setattr(batch, "size_of", lambda *_: "medium")

    load(shop, ticket("b", note="second", Note="other"), ticket("c", size=3), file="2.jsonl")
    found = shop.rows("silver/tickets", "ticket_id", "note", "size")
    assert found == [("a", "first", 0), ("b", "second", 0), ("c", None, 3)]

    every = [ticket(f"{n}", **{f"f{n}": n}) for n in range(9)]  # more shapes than are known
    held = load(shop, *every, *every, ticket("e", secret="s"), file="3.jsonl")

    assert not held["fields_declared"].passed
    assert len(shop.rows("silver/tickets", "ticket_id")) == len(found)
