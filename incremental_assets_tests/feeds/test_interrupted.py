"""A load of any feed that dies at any step: the next one settles it, and the tables are right."""

from __future__ import annotations

from typing import Any

import pytest

from incremental_assets.changes import ChangeLog, SnapshotDiff
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Merge
from incremental_assets_tests.feeds import test_change_log as log
from incremental_assets_tests.feeds import test_snapshots as copies
from incremental_assets_tests.feeds import test_timestamp as timestamp
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.world import Lake


def die(*_: object, **__: object) -> None:
    raise Killed


def orders(lake: Lakes) -> Lake:
    shop = lake.copy_of(timestamp.two_days)
    new = (("a", "shipped", "06 12:00"), ("d", "paid", "06 09:00"))
    shop.put_delta("orders", timestamp.orders(*timestamp.FIRST[1:], *new))
    return shop


def users(lake: Lakes) -> Lake:
    shop = lake(*log.tables(SCD2(), ChangeLog()))
    first = [log.event("INSERT", 1, 1, name="A"), log.event("INSERT", 2, 2, name="B")]
    shop.land("users", "2017-01-05", "1.jsonl", first)
    shop.load("2017-01-05")
    more = [log.event("UPDATE", 4, 1, name="A2"), log.event("DELETE", 3, 2), "{"]
    shop.land("users", "2017-01-06", "1.jsonl", more)
    return shop


def products(lake: Lakes) -> Lake:
    shop = lake(*copies.tables(Merge()))
    assert isinstance(shop.tables["bronze/products"].changes, SnapshotDiff)
    for day, rows in (("05", copies.copy(a="A", b="B")), ("07", copies.copy(a="A2", c="C"))):
        shop.land("products", f"2017-01-{day}", "1.jsonl", rows)
        shop.load(f"2017-01-{day}")
    shop.land("products", "2017-01-06", "1.jsonl", copies.copy(a="A", b="B2"))
    return shop


def whole(shop: Lake, name: str, fields: tuple[str, ...]) -> list[Any]:
    silver = f"silver/{name}"
    columns = sorted(c for c in shop.frame(silver).columns if not c.startswith("_"))
    return [
        shop.bronze(f"bronze/{name}", *fields),
        shop.rows(silver, *columns),
        shop.reasons(silver),
    ]


@pytest.mark.parametrize(
    ("feed", "make", "fields", "steps"),
    [
        ("orders", orders, ("order_id", "status"), ("commit", "record")),
        ("users", users, ("id", "name"), ("side table", "commit")),
        ("products", products, ("sku", "name"), ("side table", "record")),
    ],
)
def test_a_load_that_died_is_settled_and_ends_as_if_nothing_had_happened(
    lake: Lakes,
    monkeypatch: pytest.MonkeyPatch,
    feed: str,
    make: Any,
    fields: tuple[str, ...],
    steps: tuple[str, ...],
) -> None:
    shop = lake.copy_of(make)
    for name in shop.tables:
        for step in steps:
            with monkeypatch.context() as broken:
                if step == "record":
                    broken.setattr("incremental_assets.engine.table_load.record", die)
                elif step == "commit":
                    broken.setattr("incremental_assets.engine.table_load.publish", die)
                else:  # its side table is there, and the table is not even staged
                    if name.startswith("bronze"):
                        continue
                    broken.setattr("incremental_assets.delta.merge.stage", die)
                    broken.setattr("incremental_assets.writes.merge.stage", die)
                with pytest.raises(Killed):
                    shop.load("2017-01-05...2017-01-07", name)
        shop.load("2017-01-05...2017-01-07", name)
    shop.load_stale()

    calm = shop.another("calm")
    if feed != "orders":  # that source has forgotten what its rows were
        calm.load("2017-01-05...2017-01-07")
        calm.load_stale()
        assert whole(shop, feed, fields) == whole(calm, feed, fields)
    else:
        assert shop.bronze("bronze/orders", "order_id", "status") == [
            ("2017-01-05", "a", "paid"),
            ("2017-01-05", "b", "paid"),
            ("2017-01-06", "a", "shipped"),
            ("2017-01-06", "c", "paid"),
            ("2017-01-06", "d", "paid"),
        ]
        assert timestamp.statuses(shop)[0] == ("a", "shipped", "2017-01-06")
    for name in shop.tables:
        assert shop.lakehouse.ledger.view().table(name).unsettled == ()
