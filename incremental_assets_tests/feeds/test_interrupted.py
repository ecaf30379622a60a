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
from incremental_assets_tests.thorough import thorough

# What is replaced by a death at each step.
DEATHS = {
    "commit": ("engine.table_load.publish",),
    "record": ("engine.table_load.record",),
    # What was rejected is in quarantine, and the table is not even staged.
    "stage": ("delta.merge.stage", "writes.destination.stage"),
    # The table is staged, and its side table lacks the batch's rows; after "commit" it has them.
    "side table": ("delta.staged_write.put_side_rows",),
}


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


def load_after_deaths(shop: Lake, *steps: str) -> None:
    """Load each table after loads of it that died at these steps."""
    for name in shop.tables:
        for step in steps:
            if step in ("stage", "side table") and name.startswith("bronze"):
                continue
            with pytest.MonkeyPatch.context() as broken, pytest.raises(Killed):
                for place in DEATHS[step]:
                    broken.setattr(f"incremental_assets.{place}", die)
                shop.load("2017-01-05...2017-01-07", name)
        shop.load("2017-01-05...2017-01-07", name)
    shop.load_stale()
    for name in shop.tables:
        assert shop.lakehouse.ledger.view().table(name).unsettled == ()


def test_a_load_that_died_is_settled_and_ends_as_if_nothing_had_happened(lake: Lakes) -> None:
    shop = users(lake)

    load_after_deaths(shop, "stage", "side table", "commit", "record")

    assert shop.bronze("bronze/users", "id", "name") == [
        ("2017-01-05", "1", "A"),
        ("2017-01-05", "2", "B"),
        ("2017-01-06", "1", "A2"),
        ("2017-01-06", "2", None),
        ("2017-01-06", None, None),
    ]
    assert shop.rows("silver/users", "dt", *log.VERSION) == [
        ("2017-01-05", 1, "A", 1, 4, False),
        ("2017-01-05", 2, "B", 2, 3, False),
        ("2017-01-06", 1, "A2", 4, None, True),
    ]
    assert shop.reasons("silver/users") == [("line_unreadable",)]


@thorough("feeds/test_interrupted.py: a log of users, at the same steps of a load")
def test_a_load_of_snapshots_that_died_is_settled(lake: Lakes) -> None:
    shop = lake.copy_of(products)

    load_after_deaths(shop, "stage", "record")

    calm = shop.another("calm")
    calm.load("2017-01-05...2017-01-07")
    calm.load_stale()
    fields = ("sku", "name")
    assert whole(shop, "products", fields) == whole(calm, "products", fields)


@thorough("feeds/test_interrupted.py: a log of users, at the same steps of a load")
def test_a_load_of_overwritten_rows_that_died_is_settled(lake: Lakes) -> None:
    shop = orders(lake)

    load_after_deaths(shop, "commit", "record")

    assert shop.bronze("bronze/orders", "order_id", "status") == [
        ("2017-01-05", "a", "paid"),
        ("2017-01-05", "b", "paid"),
        ("2017-01-06", "a", "shipped"),
        ("2017-01-06", "c", "paid"),
        ("2017-01-06", "d", "paid"),
    ]
    assert timestamp.statuses(shop)[0] == ("a", "shipped", "2017-01-06")
