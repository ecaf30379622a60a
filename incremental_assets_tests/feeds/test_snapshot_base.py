"""The base of a table of copies: what a copy reads does not grow with the copies before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import read_version
from incremental_assets.delta.stage import NO_BATCH, stage
from incremental_assets.delta.transaction import Transaction
from incremental_assets.engine import snapshot_base
from incremental_assets.engine.bronze import PARTITIONS
from incremental_assets.maintenance.steps import maintain
from incremental_assets.testing import Killed
from incremental_assets.writes import Merge
from incremental_assets_tests.event_log import EventLog, records_read
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_snapshots import copy, operations, tables
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.thorough import thorough

BRONZE = "bronze/products"
SKUS = 100
FIRST = date(2017, 1, 2)


def land(shop: Lake, day: date, name: str, **others: str) -> None:
    names = {f"s{n}": name for n in range(SKUS)} | others
    shop.land("products", str(day), "1.jsonl", copy(**names))


def grown_by(shop: Lake, days: int) -> date:
    """Add as many days to bronze on which every product changed; the last of them."""
    path = shop.path(BRONZE)
    rows = read_version(shop.spark, path, DeltaTable(path).version())
    last = rows.where(f"_landing_day = '{FIRST}'")
    each = F.explode(F.sequence(F.lit(1), F.lit(days))).alias("_n")
    more = last.select("*", each)
    day = F.date_add("_landing_day", F.col("_n"))
    more = more.withColumns(
        {
            "_landing_day": day,
            "_day": day,
            "_batch": F.col("_n").cast("long") + 1,
            "_operation": F.lit("update"),
            "_hash": F.concat("_hash", F.col("_n").cast("string")),
        }
    ).drop("_n")
    staged = stage(more, path, NO_BATCH, PARTITIONS)
    ledger = shop.lakehouse.ledger
    (entry,) = ledger.view().table(BRONZE).committed
    made = [
        replace(entry, batch=entry.batch + n, day=entry.day + timedelta(days=n))
        for n in range(1, days + 1)
    ]
    claims = [replace(each, state="claimed") for each in made]
    publish(staged, Transaction(BRONZE, entry.batch + days, "{}"))
    ledger.transact_on(
        BRONZE, lambda _: [each for pair in zip(claims, made, strict=True) for each in pair]
    )
    return FIRST + timedelta(days=days)


def test_a_snapshot_reads_the_base_and_not_the_history(
    lake: Lakes, spark: SparkSession, event_log: Path
) -> None:
    counted, shop = EventLog(spark, event_log), lake(*tables(Merge()))
    land(shop, FIRST, "A")
    shop.load(str(FIRST), BRONZE)
    last = grown_by(shop, 40)
    shop.now += timedelta(days=60)
    for step in (1, 2):
        day = last + timedelta(days=step)
        land(shop, day, "B", **({"new": "N"} if step == 2 else {}))
        counted.new()
        shop.load(str(day), BRONZE)

    assert records_read(counted.new()) <= 4 * SKUS  # of 42 times as many in bronze
    assert len(DeltaTable(f"{shop.path(BRONZE)}/_base").file_uris()) == 1
    assert _changes(shop, day) == [("insert", '["new"]')]


def _changes(shop: Lake, day: date) -> list[tuple[str, str]]:
    rows = shop.spark.read.format("delta").load(shop.path(BRONZE))
    found = rows.where(f"_landing_day = '{day}'").select("_operation", "_key").collect()
    return [(row[0], row[1]) for row in found]


def _dies(*_: Any, **__: Any) -> None:
    raise Killed


def _does_and_dies(do: Callable[..., Any]) -> Callable[..., Any]:
    def killed(*given: Any, **named: Any) -> None:
        do(*given, **named)
        raise Killed

    return killed


@thorough("feeds/test_interrupted.py, feeds/test_snapshot_base.py: users; what others spoil")
def test_a_load_that_dies_while_it_writes_the_base_leaves_nothing_wrong(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_base, "MOST_FILES", 0)
    shop = lake(*tables(Merge(), max_deleted_share=1.0))
    whole = shop.another("whole")
    shop.land("products", "2017-01-05", "1.jsonl", copy(a="A", b="B", c="C"))
    shop.land("products", "2017-01-06", "1.jsonl", copy(a="A2", b="B"))
    shop.load("2017-01-05", BRONZE)
    deaths: list[tuple[str, Callable[..., Any]]] = [
        ("ensure_table", _does_and_dies(snapshot_base.ensure_table)),
        ("stage", _does_and_dies(snapshot_base.stage)),
        ("publish", _dies),
        ("publish", _does_and_dies(snapshot_base.publish)),
    ]
    for name, death in deaths:
        with monkeypatch.context() as dying, pytest.raises(Killed):
            dying.setattr(snapshot_base, name, death)
            shop.load("2017-01-06", BRONZE)
    shop.load("2017-01-06", BRONZE)
    # What comes late makes the base worthless, and the next copy is compared all the same.
    shop.land("products", "2017-01-04", "1.jsonl", copy(a="A0", z="Z"))
    shop.land("products", "2017-01-07", "1.jsonl", copy(a="A2", c="C"))
    shop.load("2017-01-04", BRONZE)
    shop.load("2017-01-07", BRONZE)

    monkeypatch.setattr(snapshot_base, "MOST_FILES", 1000)
    whole.load("2017-01-04...2017-01-07", BRONZE)
    assert not (Path(whole.path(BRONZE)) / "_base").exists()
    assert operations(shop) == operations(whole)


@thorough("feeds/test_snapshot_base.py: what is read instead of the history")
def test_what_somebody_deleted_by_hand_is_not_kept_in_the_base(
    lake: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_base, "MOST_FILES", 0)
    shop = lake(*tables(Merge(), max_deleted_share=1.0))
    for day, names in (("05", {"a": "A", "b": "B"}), ("06", {"a": "A2", "b": "B"})):
        shop.land("products", f"2017-01-{day}", "1.jsonl", copy(**names))
    shop.load("2017-01-05...2017-01-06", BRONZE)
    base = Path(shop.path(BRONZE)) / "_base"
    assert _keys(shop, base) == ['["a"]', '["b"]']

    DeltaTable(shop.path(BRONZE)).delete("_key = '[\"b\"]'")
    shop.land("products", "2017-01-07", "1.jsonl", copy(a="A3"))
    shop.load("2017-01-07", BRONZE)

    # Nobody hears again of the row that was erased, and the base holds it no more.
    assert _changes(shop, date(2017, 1, 7)) == [("update", '["a"]')]
    assert _keys(shop, base) == ['["a"]']


def _keys(shop: Lake, base: Path) -> list[str]:
    rows = shop.spark.read.format("delta").load(str(base)).select("_key").collect()
    return sorted(row[0] for row in rows)


@thorough(
    "feeds/test_snapshot_base.py, maintenance/test_while_loads_go_on.py: the base, and maintenance"
)
def test_maintenance_knows_the_base(lake: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_base, "MOST_FILES", 0)
    shop = lake(*tables(Merge()))
    for day, name in enumerate("ABCD", start=5):
        shop.land("products", f"2017-01-{day:02}", "1.jsonl", copy(a=name))
    shop.load("2017-01-05...2017-01-08", BRONZE)
    base = Path(shop.path(BRONZE)) / "_base"
    assert len(list(base.rglob("*.parquet"))) == 2

    kept = maintain(
        shop.settings,
        list(shop.tables.values()),
        lambda: shop.spark,
        shop.now + timedelta(days=9000),
    )

    assert f"{BRONZE}/_base" in {each.name for each in kept.tables}
    assert [each.failed for each in kept.tables if each.failed] == []
    assert len(list(base.rglob("*.parquet"))) == 1
    shop.land("products", "2017-01-09", "1.jsonl", copy(a="D"))
    shop.load("2017-01-09", BRONZE)
    rows = shop.spark.read.format("delta").load(str(base)).select("_until", "_key").collect()
    assert [tuple(row) for row in rows] == [(date(2017, 1, 7), '["a"]')]
