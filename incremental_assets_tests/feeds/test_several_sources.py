"""Several bronze tables that one silver table types: regions, an archive and the live feed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl
import pytest

from incremental_assets.changes import ChangeLog, Sequence
from incremental_assets.days import DayRange
from incremental_assets.errors import DefinitionError
from incremental_assets.operations.quarantined import QuarantineFilter, quarantined_rows
from incremental_assets.operations.restate import restate
from incremental_assets.plan.skipped import skipped
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import Rule, one_of, quarantine
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Sums, Table
from incremental_assets.testing import kill_after_each_write
from incremental_assets.verifying.verify import verify
from incremental_assets.writes import Append, Merge, ReplaceDay
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_retract import all_equal, retracted
from incremental_assets_tests.feeds.world import Lake, at
from incremental_assets_tests.thorough import thorough

DAY, NEXT = "2017-01-05", "2017-01-06"
STRICT = quarantine(one_of("article", ("tea", "milk")))
LOOSE = quarantine(one_of("article", ("tea", "milk", "gin")))
LIVE = Table("bronze/live", "", reads=(LandedFiles("live"),), write=Append())
ARCHIVE = Table(
    "bronze/archive",
    "",
    reads=(Stored("archive", day="sold_at"),),
    changes=Sequence("number"),
    write=Append(),
)
SALES = Contract(
    {"*": "freeze", "number": "discard", "sold_at": "discard"},
    id=Integer(),
    version=Integer(),
    article=Text(),
    origin=Text(),
    rank=Integer(),
)


def sales(rules: tuple[Rule, ...] = (), *, key: tuple[str, ...] = ("id",), **facts: Any) -> Table:
    """Of a sale that both have in the same version, the live one stays."""
    reads = (
        SameDay(LIVE, values={"origin": "live", "rank": 2}),
        SameDay(ARCHIVE, values={"origin": "archive", "rank": 1}),
    )
    order = {"key": key, "version_by": ("version", "rank"), "write": Merge()}
    return Table("silver/sales", "", reads, schema=SALES, rules=rules, **{**order, **facts})


def sale(id_: int, article: str = "tea", version: int = 1, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "version": version, "article": article, **fields}


def archive(lake: Lake, *rows: dict[str, Any], file: int = 1) -> None:
    """Sales of the first day, numbered from 10 on in the first file, from 20 on in the second."""
    numbered = [{"number": 10 * file + n, **row} for n, row in enumerate(rows)]
    frame = pl.DataFrame(numbered).with_columns(sold_at=at("05 10:00"))
    lake.put_parquet("archive", f"{file}.parquet", frame)


def sold(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.rows("silver/sales", "id", "article", "origin")


def both(lake: Lakes, silver: Table) -> Lake:
    """A sale that both have, one that each of them has, and a bad one of each."""
    shop = lake(LIVE, ARCHIVE, silver)
    shop.land("live", DAY, "1.jsonl", [sale(1, origin="x"), sale(2), sale(8, "gin")])
    archive(shop, sale(1), sale(3, "milk"), sale(9, "gin"), sale(2, "milk", version=2))
    shop.load(DAY)
    return shop


def test_rows_say_where_they_are_from_and_of_equal_versions_the_higher_rank_stays(
    lake: Lakes,
) -> None:
    shop = both(lake, sales(STRICT))

    assert sold(shop) == [(1, "tea", "live"), (2, "milk", "archive"), (3, "milk", "archive")]
    assert shop.reasons("silver/sales") == [("article_one_of",), ("article_one_of",)]
    bronze = shop.bronze("bronze/live", "id", "origin")
    assert bronze[:2] == [(DAY, "1", "x"), (DAY, "2", None)]  # what landed, as it landed

    shop.land("live", DAY, "2.jsonl", [sale(3), sale(4)])
    shop.land("live", NEXT, "1.jsonl", [sale(5), sale(2, version=2)])
    shop.load("2017-01-05...2017-01-06")
    last = shop.lakehouse.ledger.view().table("silver/sales").committed[-2:]
    assert [entry.rows_read for entry in last] == [2, 2]  # of either table what is new
    archive(shop, sale(5, "milk"), sale(6), file=2)
    shop.load("2017-01-05", "bronze/archive")
    assert shop.stale() == {"silver/sales": [DAY]}
    shop.load_stale()

    after = [(1, "tea"), (2, "tea"), (3, "tea"), (4, "tea"), (5, "tea")]
    assert sold(shop) == [*((*row, "live") for row in after), (6, "tea", "archive")]
    all_equal(shop)


@thorough("feeds/test_retract.py, feeds/test_replay.py: the same of one source")
def test_what_one_of_them_repairs_retracts_or_replays_leaves_the_other_as_it_was(
    lake: Lakes,
) -> None:
    shop = both(lake, sales(STRICT))
    shop = shop.with_tables(LIVE, ARCHIVE, sales(LOOSE))
    replayed = shop.lakehouse.replay(shop.tables["silver/sales"], [date(2017, 1, 5)], "")
    assert replayed.days[date(2017, 1, 5)].checks["replayed"].value == 2
    assert quarantined_rows(
        shop.settings, shop.tables["silver/sales"], QuarantineFilter()
    ).is_empty()
    gin = [(8, "gin", "live"), (9, "gin", "archive")]
    assert sold(shop)[-2:] == gin

    file = shop.land("live", DAY, "1.jsonl", [sale(2, version=3), sale(8, "gin")])
    shop.load(DAY)
    repaired = [(1, "tea", "archive"), (2, "tea", "live"), (3, "milk", "archive")]
    assert sold(shop) == [*repaired, *gin]

    file.unlink()
    retracted(shop, f"live/{DAY}/1.jsonl")
    left = [(1, "tea", "archive"), (2, "milk", "archive"), (3, "milk", "archive"), gin[1]]
    assert sold(shop) == left
    restated = restate(shop.lakehouse, [shop.tables["silver/sales"]], [date(2017, 1, 5)], "again")
    assert [each.state for result in restated for each in result.days.values()] == ["committed"]
    assert sold(shop) == left
    all_equal(shop)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(("id", "origin"), id="each by itself"),
        pytest.param((), id="every row", marks=thorough("feeds/test_several_sources.py: by a key")),
    ],
)
def test_the_same_sale_of_both_is_there_twice_where_the_key_says_so(
    lake: Lakes, key: tuple[str, ...]
) -> None:
    facts = {} if key else {"write": Append(), "version_by": ()}
    shop = lake(LIVE, ARCHIVE, sales(key=key, **facts))
    archive(shop, sale(1), sale(2))
    shop.load(DAY)  # the live feed was never loaded
    assert sold(shop) == [(1, "tea", "archive"), (2, "tea", "archive")]

    shop.land("live", DAY, "1.jsonl", [sale(1)])
    shop.load(DAY)

    every = [(1, "tea", "archive"), (1, "tea", "live"), (2, "tea", "archive")]
    assert sold(shop) == every
    all_equal(shop)

    silver = shop.tables["silver/sales"]
    alone = shop.with_tables(LIVE, ARCHIVE, replace(silver, reads=silver.reads[:1]))
    alone.land("live", DAY, "2.jsonl", [sale(7)])
    alone.load(DAY)
    assert shop.stale() == {}  # what is no longer read, and then again, is read once
    assert sold(shop) == [*every, (7, "tea", "live")]


@thorough(
    "feeds/test_rules.py, feeds/test_several_sources.py: equal rows of one source, replays of both"
)
def test_of_equal_rows_in_files_of_one_name_the_quarantined_one_is_replayed_wherever_it_is_killed(
    lake: Lakes,
) -> None:
    both = [replace(ARCHIVE, name=f"bronze/{n}", reads=(Stored(n, day="sold_at"),)) for n in "ab"]
    reads = tuple(SameDay(each, values={"origin": each.name}) for each in both)

    def silver(*origins: str) -> Table:
        rules = quarantine(one_of("origin", origins))
        schema = Contract(id=Integer(), origin=Text())
        return Table("silver/sales", "", reads, Append(), schema=schema, rules=rules)

    shop = lake(*both, silver("bronze/b"))
    for name in "ab":
        row = pl.DataFrame({"number": [1], "id": [7], "sold_at": [at("05 10:00")]})
        shop.put_parquet(name, "1.parquet", row)
    shop.load(DAY)
    assert shop.rows("silver/sales", "id", "origin") == [(7, "bronze/b")]

    shop = shop.with_tables(*both, silver("bronze/a", "bronze/b"))
    kills = kill_after_each_write(
        lambda: shop.lakehouse.replay(shop.tables["silver/sales"], [date(2017, 1, 5)], "")
    )

    assert kills
    assert shop.rows("silver/sales", "id", "origin") == [(7, "bronze/a"), (7, "bronze/b")]


@thorough("feeds/test_several_sources.py, feeds/test_replay.py: replays of both, and of one source")
def test_a_quarantined_row_is_replayed_also_where_a_source_was_added_since(lake: Lakes) -> None:
    strict, loose = (sales(rules) for rules in (STRICT, LOOSE))
    shop = lake(LIVE, ARCHIVE, replace(strict, reads=strict.reads[:1]))
    shop.land("live", DAY, "1.jsonl", [sale(8, "gin")])
    archive(shop, sale(1))
    shop.load(DAY)
    shop = shop.with_tables(LIVE, ARCHIVE, loose)

    shop.lakehouse.replay(shop.tables["silver/sales"], [date(2017, 1, 5)], "")

    assert sold(shop) == [(8, "gin", "live")]  # and nothing of what it has not read yet
    shop.load_stale()
    assert sold(shop) == [(1, "tea", "archive"), (8, "gin", "live")]


def test_a_gold_table_waits_for_a_table_that_was_never_loaded(lake: Lakes) -> None:
    first = sales()
    other = Table("silver/returns", "", (SameDay(ARCHIVE),), Append(), schema=SALES)
    together = Table(
        "gold/both",
        "",
        (SameDay(first), SameDay(other)),
        ReplaceDay(),
        transform=lambda a, b: a.select("dt", "id").union(b.select("dt", "id")),
        sums=Sums(rows=False),
    )
    shop = lake(LIVE, ARCHIVE, first, other, together)
    shop.land("live", DAY, "1.jsonl", [sale(1)])
    waiting = shop.load(DAY)["gold/both"].days[date(2017, 1, 5)]

    assert (waiting.state, shop.stale()) == ("refused", {})
    view = shop.lakehouse.ledger.view()
    span = DayRange(date(2017, 1, 5), date(2017, 1, 5))
    (left_out,) = skipped([together], view, shop.settings, span, span.last, ())
    assert "gold/both also reads silver/returns" in left_out.reason
    assert "silver/returns, which was never loaded" in waiting.reason
    archive(shop, sale(7))
    shop.load(DAY)
    assert shop.rows("gold/both", "id") == [(1,), (7,), (7,)]

    # A day of which one of the two has nothing is verified alone, too.
    shop.land("live", "2017-01-06", "2.jsonl", [sale(2)])
    shop.load("2017-01-06")
    verified = verify(shop.lakehouse, together, DayRange(date(2017, 1, 6), date(2017, 1, 6)))
    assert (verified.equal, verified.rows.rows) == (True, 1)


CHANGES = Table("bronze/log", "", (LandedFiles("log"),), Append(), changes=ChangeLog())
OWN = {"write": Merge(), "key": ("id",), "schema": Contract(id=Integer(), origin=Text())}
GOLD = {"write": ReplaceDay(), "sums": Sums(), "transform": lambda a, b: a}


@pytest.mark.parametrize(
    ("name", "reads", "facts", "message"),
    [
        ("silver/x", (SameDay(LIVE), SameDay(LIVE)), OWN, "reads a table twice"),
        ("silver/x", (SameDay(LIVE), SameDay(CHANGES)), OWN, "bronze/log has changes or snapsh"),
        ("silver/x", (SameDay(CHANGES, values={"origin": "a"}),), OWN, "values= is for rows"),
        (
            "silver/x",
            (SameDay(LIVE, values={"origin": "a"}), SameDay(ARCHIVE)),
            OWN,
            "'origin', and bronze/archive has none; give each",
        ),
        ("silver/x", (SameDay(LIVE, values={"from": "a"}),), OWN, "add from=Text()"),
        ("silver/x", (SameDay(LIVE, values={"origin": 1}),), OWN, "the value 1, and the contract"),
        ("silver/x", (SameDay(LIVE, values={"id": True}),), OWN, "a whole number for Integer()"),
        (
            "gold/x",
            (SameDay(sales()), SameDay(sales(), values={"origin": "a"})),
            GOLD,
            "the transform gets a frame of each table",
        ),
    ],
)
def test_what_cannot_be_read_together_is_refused(
    name: str, reads: tuple[SameDay, ...], facts: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message.replace("(", r"\(").replace(")", r"\)")):
        Table(name, "", reads, **facts)
