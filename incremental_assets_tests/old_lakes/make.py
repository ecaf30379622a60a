"""Write a lake, its sources and the loaders' targets down as this version leaves them.

`python -m incremental_assets_tests.old_lakes.make NAME` makes `NAME.tar.gz` in this folder. What a
later version has to go on from is all there: loads of every kind of source, a rewound table, rows
in quarantine, a load that died between its claim and its commit, and one that died right after it.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from incremental_assets.catalog import tables_of
from incremental_assets.loaders import local_session
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.end_to_end.loaders_rounds import load_all, write_feed
from incremental_assets_tests.end_to_end.test_own_tables import PACKAGE, deliver
from incremental_assets_tests.feeds.world import Lake

HERE = Path(__file__).parent
DAYS = "2017-01-05...2017-01-10"


class Killed(BaseException):
    """The process is gone."""


def settings_in(folder: Path) -> Settings:
    env = {f"{PREFIX}LAKE": str(folder / "lake"), f"{PREFIX}LANDING": str(folder / "landing")}
    return Settings.from_environment(env | {f"{PREFIX}START_DATE": "2017-01-01"})


def lake_in(folder: Path, spark: Any) -> Lake:
    return Lake(spark, settings_in(folder), *tables_of(PACKAGE))


def dies_at(lake: Lake, name: str, step: str) -> None:
    """A load of a table whose process is gone at a step."""

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as dying, pytest.raises(Killed):
        dying.setattr(step, die)
        lake.load(DAYS, name)


def main(name: str) -> None:
    spark = local_session()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "landing").mkdir()
        lake = lake_in(folder, spark)
        deliver(lake, 0)
        lake.load(DAYS)
        deliver(lake, 1)
        lake.land("users", "2017-01-06", "2.jsonl", ["{broken"])
        lake.load(DAYS)
        TableRewind(lake.lakehouse, lake.tables["bronze/movements"]).record(1, "a fixture", None)
        deliver(lake, 2)
        dies_at(lake, "bronze/users", "incremental_assets.engine.table_load.record")
        dies_at(lake, "bronze/products", "incremental_assets.engine.table_load.publish")

        write_feed(folder / "feed")
        (folder / "source").mkdir()
        for file in sorted((folder / "feed").iterdir())[:2]:
            shutil.copy(file, folder / "source")
            load_all(spark, folder)
        spark.stop()
        with tarfile.open(HERE / f"{name}.tar.gz", "w:gz") as kept:
            kept.add(folder, ".")


if __name__ == "__main__":
    main(sys.argv[1])
