"""What a table may be declared as."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from incremental_assets.changes import ChangeLog, Sequence, SnapshotDiff, Timestamp
from incremental_assets.errors import DefinitionError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import not_null
from incremental_assets.quality.types import Text
from incremental_assets.retail.silver.sales import SALES
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets.table import AsOf, SameDay, Table
from incremental_assets.writes import SCD2, Append, Merge, ReplaceDay
from incremental_assets_tests.plan.ledgers import EVENTS, MART, USERS

LANDED, STORED = (LandedFiles("events"),), (Stored("events"),)
COPIES = Table("bronze/c", "", reads=LANDED, write=Append(), changes=SnapshotDiff(("id",)))
LOG = Table("bronze/l", "", reads=LANDED, write=Append(), changes=ChangeLog())


@pytest.mark.parametrize(
    ("table", "changed", "message"),
    [
        (EVENTS, {"changes": Timestamp("at")}, r"in day folders the files show what is new"),
        (EVENTS, {"changes": Sequence("n")}, r"Timestamp and Sequence read a Stored"),
        (EVENTS, {"reads": STORED}, r"needs a change detector"),
        (EVENTS, {"reads": ()}, r"reads one LandedFiles"),
        (EVENTS, {"reads": (*LANDED, *STORED)}, r"reads one LandedFiles"),
        (EVENTS, {"write": Merge()}, r"keeps what arrived; use Append"),
        (EVENTS, {"rules": (not_null("id"),)}, r"'id_not_null'.* judge rows"),
        (EVENTS, {"changes": ChangeLog()}, r"may change for ever, so it has no business day"),
        (
            COPIES,
            {"reads": (Stored("c", day="at"),)},
            r"is of one moment and has no day column",
        ),
        (USERS, {"changes": Timestamp("at")}, r"Give it to the bronze table"),
        (USERS, {"reads": (SameDay(LOG), SameDay(COPIES))}, r"has changes or snapshots"),
        (USERS, {"key": ()}, r"Merge\(\) needs a key"),
        (USERS, {"key": ("other",)}, r"\['other'\] are used but not in the contract"),
        (
            USERS,
            {"day": "at", "schema": Contract(user_id=Text(), at=Text())},
            r"day is 'at', and the contract has it as Text\(\), .* Declare at=Instant\(\)",
        ),
        (SALES, {"day": "arrival_ts"}, r"day is 'arrival_ts', and bronze/events has 'event_ts'"),
        (USERS, {"reads": (SameDay(LOG),), "version_by": ("at",)}, r"leave version_by and day out"),
        (
            USERS,
            {"reads": (SameDay(COPIES),)},
            r"compared by \('id',\); the key has to be the same",
        ),
        (USERS, {"write": SCD2()}, r"name it in version_by"),
        (USERS, {"write": Append()}, r"keeps every row, so nothing is deleted"),
        (USERS, {"write": ReplaceDay()}, r"over bronze is an Append, a Merge or an SCD2"),
        (
            MART,
            {"write": Append()},
            r"rebuilt by day, recomputed by key, or merged; use ReplaceDay",
        ),
        (MART, {"write": Merge()}, r"joins only the rows that changed, so it needs the key"),
        (MART, {"transform": None}, r"first read has to be SameDay"),
        (
            MART,
            {"reads": (SameDay(SALES), AsOf(MART, key="id", at="at", valid_from="at"))},
            r"by its row hash, and gold/\w+ has none\. Look up a silver table",
        ),
        (
            MART,
            {"reads": (*MART.reads, AsOf(USERS, key="brand_id", at="at", valid_from="at"))},
            r"names 'brand_id', and the contract of silver/sales has no such column; .* in a second",
        ),
        (
            MART,
            {"reads": (MART.reads[0], AsOf(USERS, key="user_id", at="at"))},
            r"names 'valid_from', and the contract of silver/users has no such column",
        ),
        (
            USERS,
            {"write": SCD2(), "version_by": ("at",), "day": "at"},
            r"are on many days; leave day out",
        ),
        (
            USERS,
            {
                "write": SCD2(),
                "version_by": ("valid_from",),
                "schema": Contract(user_id=Text(), valid_from=Text()),
            },
            r"adds the columns",
        ),
    ],
)
def test_a_table_that_cannot_be_loaded_is_refused_with_the_remedy(
    table: Table, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(table, **changed)


def test_what_a_silver_table_makes_of_its_rows_is_reported_by_its_bronze_table() -> None:
    silver = replace(USERS, reads=(SameDay(LOG),))

    assert silver.log == ChangeLog()
    assert USERS.log is None
    assert set(COPIES.checks()) == {"deleted_share"}


@pytest.mark.parametrize("path", ["../orders", "a//b", "or ders", "", "a/.hidden", "x`y"])
def test_a_stored_path_that_leaves_the_landing_or_is_odd_is_refused(path: str) -> None:
    with pytest.raises(DefinitionError, match="below the landing root"):
        Stored(path)


def test_a_stored_path_stands_alone_or_lies_below_the_landing_root() -> None:
    assert Stored("shop/orders").below("/data").path == "/data/shop/orders"
    assert Stored("/other/orders").below("/data").path == "/other/orders"
    assert Stored("s3://bucket/orders").below("/data").path == "s3://bucket/orders"
