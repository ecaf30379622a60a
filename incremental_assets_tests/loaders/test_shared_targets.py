"""Several loads that write to one table: what one of them gives up is its own and no other's."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.loaders import LoadResult, SequenceBasedLoader
from incremental_assets.testing import Killed
from incremental_assets.writes import Append, DeleteInsert, WriteStrategy
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.crashes import CRASHES


def load(place: Place, shop: str, write: WriteStrategy) -> LoadResult:
    return SequenceBasedLoader(place.spark, place.clock).load_incremental(
        place.folder / shop,
        place.target,
        place.watermarks,
        sequence_column="seq",
        table_name=shop,
        primary_key="id",
        write=write,
        start_from=0,
    )


def land(place: Place, shop: str, *ids: int) -> None:
    source = place.folder / shop
    source.mkdir(exist_ok=True)
    rows = pl.DataFrame({"id": ids, "shop": [shop] * len(ids), "seq": ids})
    rows.write_parquet(source / f"{ids[0]}.parquet")


def test_giving_up_a_batch_leaves_the_files_of_another_load_with_that_number(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DeleteInsert()
    land(place, "north", 1, 2)
    land(place, "south", 11, 12, 13)
    load(place, "north", write)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(load_module, *CRASHES["when its rows are staged"])
        load(place, "south", write)
    staged = {folder.name for folder in place.target.glob("batch-*")}

    load(place, "south", write)

    assert [row[0] for row in place.rows("id")] == [1, 11, 12, 13, 2]
    given_up = staged - {folder.name for folder in place.target.glob("batch-*")}
    assert len(given_up) == 1  # what the batch that died had staged


def test_a_folder_that_an_older_version_named_after_the_number_alone_is_left_to_vacuum(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(place, "north", 1)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        dying.setattr(load_module, *CRASHES["when its rows are staged"])
        load(place, "north", Append())
    old: Path = place.target / "batch-000001-0a1b2c3d"
    next(place.target.glob("batch-000001-*")).rename(old)

    load(place, "north", Append())

    assert list(old.glob("*.parquet"))
    assert place.rows("id") == [(1,)]
