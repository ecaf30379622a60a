"""A rebuild of one day publishes nothing of another day that was held, or not judged yet.

In a silver table without a business day any day may speak of a key, so a day that is rebuilt has
its keys derived from all days. Each kind of such a table has the same story: three days that were
published; then a file that breaks a rule on the last of them (held), one that nobody has judged on
the first, a day that was never loaded, and one that bronze holds. Then the middle day is rebuilt, by
every trigger there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from incremental_assets.changes import ChangeLog, Files, SnapshotDiff
from incremental_assets.days import parse_days
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    Rule,
    at_least,
    fail,
    one_of,
    quarantine,
    row_count,
    warn,
)
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Detector, SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake, states
from incremental_assets_tests.thorough import thorough

FIRST, MIDDLE, LAST, NEW, HELD = (f"2017-01-0{n}" for n in (4, 5, 6, 7, 8))
BRONZE, SILVER = "bronze/stock", "silver/stock"
STRICT, LOOSE = one_of("unit", ("kg",)), one_of("unit", ("kg", "lb"))


@dataclass(frozen=True)
class Kind:
    """A silver table whose keys lie on any day."""

    name: str
    changes: Detector
    write: Append | Merge | SCD2
    key: tuple[str, ...] = ("id",)
    version_by: tuple[str, ...] = ()

    def tables(self, unit: Rule) -> tuple[Table, Table]:
        bronze = Table(
            name=BRONZE,
            description="As it landed.",
            reads=(LandedFiles("stock"),),
            changes=self.changes,
            rules=fail(row_count(at_most=6)),
            write=Append(),
        )
        rules = (*fail(at_least("amount", 0)), *quarantine(unit), *warn(at_least("amount", 1)))
        silver = Table(
            name=SILVER,
            description="What lies in which place.",
            reads=(SameDay(bronze),),
            key=self.key,
            version_by=self.version_by,
            schema=Contract(id=Text(required=True), n=Integer(), amount=Integer(), unit=Text()),
            rules=rules,
            write=self.write,
        )
        return bronze, silver

    def visible(self, *numbers: int) -> list[int]:
        """Which versions of the key `k` can be read, of those that were published."""
        return [max(numbers)] if isinstance(self.write, Merge) else sorted(numbers)


KINDS = [
    Kind("orders", Files(), Merge(), version_by=("n",)),
    Kind("versions", Files(), SCD2(), version_by=("n",)),
    Kind("movements", Files(), Append(), key=()),
    Kind("a log, merged", ChangeLog(), Merge()),
    Kind("a log, kept", ChangeLog(), SCD2()),
]


def row(n: int, amount: int = 1, unit: str = "kg", id_: str = "k") -> dict[str, Any]:
    columns = {"operation": "UPDATE", "sequence_num": n}
    return {"id": id_, "n": n, "amount": amount, "unit": unit, **columns}


def versions(lake: Lake, id_: str = "k", name: str = SILVER) -> list[int]:
    return [n for found, n in lake.rows(name, "id", "n") if found == id_]


def repaired(lake: Lake, *_: Table) -> None:
    lake.land("stock", MIDDLE, "1.jsonl", [row(2), row(20, unit="oz", id_="j"), row(21, id_="i")])
    lake.load(MIDDLE)


def restated_with_the_held_day(lake: Lake, *silvers: Table) -> None:
    days = list(parse_days(f"{MIDDLE}...{LAST}"))
    for table in silvers:
        done = lake.lakehouse.restate(table, days, "a test")
        assert states({table.name: done}, table.name) == ["committed", "held"]


def rewound(lake: Lake, *silvers: Table) -> None:
    for table in silvers:
        TableRewind(lake.lakehouse, table).record(0, "a test", parse_days(MIDDLE))
        lake.load(MIDDLE, table.name)


def replayed(lake: Lake, *silvers: Table) -> None:
    for table in silvers:
        lake.lakehouse.replay(table, list(parse_days(MIDDLE)))


TRIGGERS: list[Callable[..., None]] = [
    replayed,
    rewound,
    repaired,
    restated_with_the_held_day,
]


def over_one_bronze(kinds: Sequence[Kind], unit: Rule) -> tuple[Table, ...]:
    """Bronze, and a silver table of each kind."""
    bronze, _ = kinds[0].tables(unit)
    silvers = (kind.tables(unit)[1] for kind in kinds)
    return bronze, *(replace(table, name=f"{SILVER}_{n}") for n, table in enumerate(silvers))


VERSIONS = thorough("feeds/test_gate_of_other_days.py: the same of versions")


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(KINDS[:3], id="rows", marks=VERSIONS),
        pytest.param(KINDS[3:4], id="a log, merged", marks=VERSIONS),
        pytest.param(KINDS[4:], id="a log, kept"),
    ],
)
def test_a_rebuild_publishes_nothing_of_days_that_were_held_or_not_judged(
    lake: Lakes, kinds: list[Kind]
) -> None:
    stock = lake(*over_one_bronze(kinds, STRICT))
    names = list(stock.tables)[1:]
    stock.land("stock", FIRST, "1.jsonl", [row(1)])
    stock.land("stock", MIDDLE, "1.jsonl", [row(2), row(20, unit="lb", id_="j")])
    stock.land("stock", LAST, "1.jsonl", [row(3)])
    stock.land("stock", HELD, "1.jsonl", [row(n) for n in range(90, 97)])
    stock.load(f"{FIRST}...{LAST}")
    stock.land("stock", LAST, "2.jsonl", [row(30, amount=-1)])
    stock.land("stock", FIRST, "2.jsonl", [row(40)])
    stock.land("stock", NEW, "1.jsonl", [row(50)])
    held = stock.load(f"{FIRST}...{HELD}", BRONZE)
    assert states(held, BRONZE) == ["committed", "idle", "committed", "committed", "held"]
    for day, state in ((LAST, "held"), (HELD, "refused")):
        for name, result in stock.load(day, *names).items():
            assert states({name: result}, name) == [state]
    stock = stock.with_tables(*over_one_bronze(kinds, LOOSE))

    for rebuild in TRIGGERS:
        rebuild(stock, *(stock.tables[name] for name in names))

        for kind, name in zip(kinds, names, strict=True):
            found = versions(stock, name=name)
            assert found == kind.visible(1, 2, 3), (kind.name, rebuild.__name__)
    for name in names:
        assert versions(stock, "j", name) == []  # its unit fits no more
        assert stock.reasons(name) == [("unit_one_of",)]

    stock.land("stock", LAST, "2.jsonl", [row(30)])
    stock.land("stock", HELD, "1.jsonl", [row(90)])
    stock.load(f"{FIRST}...{HELD}")
    for kind, name in zip(kinds, names, strict=True):
        found = versions(stock, name=name)
        assert found == kind.visible(1, 2, 3, 30, 40, 50, 90), kind.name


@thorough("feeds/test_gate_of_other_days.py: a rebuild")
@pytest.mark.parametrize("write", [pytest.param(Merge(), marks=VERSIONS), SCD2()])
def test_a_late_snapshot_publishes_nothing_of_a_snapshot_that_was_held(
    lake: Lakes, write: Merge | SCD2
) -> None:
    shop = lake(*over_one_bronze([Kind("copies", SnapshotDiff(("id",)), write)], STRICT))
    names = list(shop.tables)[1:]
    shop.land("stock", FIRST, "1.jsonl", [row(1)])
    shop.land("stock", LAST, "1.jsonl", [row(3)])
    shop.load(f"{FIRST}...{LAST}")
    shop.land("stock", LAST, "1.jsonl", [row(30, amount=-1)])
    held = shop.load(LAST)
    assert [states(held, name) for name in names] == [["held"]]
    shop.land("stock", MIDDLE, "1.jsonl", [row(2)])

    shop.load(MIDDLE)

    for name in names:
        found = versions(shop, name=name)
        assert 30 not in found
        assert max(found) == 3
