"""How many files a load writes: a small one as few as there are days in it."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from incremental_assets.spark import load_session
from incremental_assets_tests.scenarios.world import World, sale


@pytest.fixture
def every_load_is_of_several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_session, "SMALL_ROWS", -1)
    monkeypatch.setattr(load_session, "_TINY_ROWS", -1)


def test_days_that_are_loaded_at_once_have_a_file_each_however_many_landed(
    world: World, every_load_is_of_several_tasks: None
) -> None:
    landed = ["2017-01-05", "2017-01-06", "2017-01-07"]
    for day in landed:
        for part in range(6):
            late = "2017-01-04"
            rows = [sale(f"{day}-{part}-{i}", late if i == 3 else day) for i in range(40)]
            world.land("events", day, f"{part}.jsonl", rows)

    world.load("2017-01-05...2017-01-07", "bronze/events")

    files = DeltaTable(world.path("bronze/events")).file_uris()
    assert len(files) == len({path.rpartition("/")[0] for path in files}) == 2 * len(landed)
