"""A load that dies at each step: the next one settles it, and the tables are right."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from incremental_assets.delta.delta_log import transaction
from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.engine import table_load
from incremental_assets.errors import ConflictError
from incremental_assets.loaders import SequenceBasedLoader
from incremental_assets.storage import folders_in
from incremental_assets.testing import Killed
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.scenarios.world import World, sale, sales


def die(*_: object, **__: object) -> None:
    raise Killed


def a_day(world: World) -> None:
    bad = sale(None, "2017-01-05")
    world.land("events", "2017-01-05", "a.jsonl", [*sales("a", "2017-01-05", 40), bad])
    world.load("2017-01-05", "bronze/events")


def load_by_hand(world: World, folder: Path) -> None:
    """A loader puts a sale into silver."""
    by_hand = {"order_id": ["by hand"], "dt": [date(2017, 1, 1)], "qty": [1]}
    pl.DataFrame(by_hand, schema_overrides={"qty": pl.Int32}).write_parquet(folder / "1.parquet")
    SequenceBasedLoader(world.lakehouse.spark()).load_incremental(
        folder / "1.parquet",
        world.path("silver/sales"),
        folder / "watermarks",
        sequence_column="qty",
        table_name="by hand",
        partition_by="dt",
    )


@pytest.fixture
def landed(world: World, made_once: MadeOnce) -> World:
    return world.as_after(a_day, made_once)


def test_a_batch_that_died_before_its_commit_is_fenced_and_loaded_again_but_not_one_that_died_after(
    landed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_by_hand(landed, tmp_path)
    for step in ("publish", "record"):
        with monkeypatch.context() as broken, pytest.raises(Killed):
            broken.setattr(table_load, step, die)
            landed.load("2017-01-05", "silver/sales")
    version = landed.version("silver/sales")

    again = landed.load("2017-01-05", "silver/sales")

    assert again["silver/sales"].days.popitem()[1].state == "idle"  # type: ignore[attr-defined]
    abandoned, entry = landed.lakehouse.ledger.view().table("silver/sales").outcomes
    assert (abandoned.batch, abandoned.state) == (1, "abandoned")
    assert (entry.batch, entry.state, entry.rows_read, entry.rows_quarantined) == (
        2,
        "committed",
        41,
        1,
    )
    assert [(str(t.day), t.rows) for t in entry.touched] == [("2017-01-05", 40)]
    assert entry.affects is None
    assert landed.version("silver/sales") == version == entry.target_version
    orders = pl.read_delta(landed.path("silver/sales"))["order_id"]
    assert len(orders) == 41
    assert "by hand" in orders  # what another load put into the table stays
    assert landed.quarantine() == [("2017-01-05", ("order_id_not_null",))]
    place = landed.path("quarantine/silver_sales")
    assert transaction(place, "quarantine of silver/sales") == 2

    # So does gold.
    with monkeypatch.context() as broken, pytest.raises(Killed):
        broken.setattr(table_load, "publish", die)
        landed.load("2017-01-05", "gold/sales_mart")
    landed.load("2017-01-05", "gold/sales_mart")
    assert len(landed.orders("gold/sales_mart")) == 40
    folders = [f for f in folders_in(landed.path("gold/sales_mart")) if f.startswith("batch-")]
    assert [folder[:12] for folder in folders] == ["batch-000002"]  # what batch 1 left is gone


def test_late_writer_of_an_abandoned_batch_adds_nothing_to_quarantine(landed: World) -> None:
    landed.load("2017-01-05", "silver/sales")
    place = landed.path("quarantine/silver_sales")
    quarantine = Quarantine(place, "silver/sales")
    quarantine.abandon(7, print)

    spark = landed.lakehouse.spark()
    late = (
        spark.read.format("delta")
        .load(place)
        .selectExpr("_day", "_landing_day", "_file", "row AS _line", "reasons AS _reasons")
    )
    with pytest.raises(ConflictError):
        quarantine.put(late, 7, landed.lakehouse.now())

    assert landed.quarantine() == [("2017-01-05", ("order_id_not_null",))]
