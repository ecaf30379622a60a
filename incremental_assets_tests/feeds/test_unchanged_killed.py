"""A process that loads events which lack fields, killed again and again on a Connect server."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from incremental_assets.delta.vacuum import unreferenced
from incremental_assets.loaders import CDCLoader
from incremental_assets.settings import Settings
from incremental_assets.spark.load_session import INTERMEDIATE
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_unchanged import (
    DAYS,
    ENDS,
    HISTORY,
    LOG,
    ROW,
    VERSION,
    VERSIONS,
    debezium,
)
from incremental_assets_tests.thorough import thorough

pytestmark = thorough(
    "loaders/test_killed_at_each_commit.py, loaders/test_unchanged.py, "
    "end_to_end/test_own_tables.py: "
    "killed at each commit, what a first load left, on a Connect server"
)
OPTIONS = {
    "primary_key": "id",
    "table_name": "users",
    "cdc_format": "debezium",
    "no_earlier": "null",
}
# A load into a target, then all days of the lake, until it is killed.
LOADS = """
import sys
from datetime import date
from incremental_assets.spark.session import start_session
from incremental_assets_tests.feeds.test_unchanged_killed import *
remote, lake, landing, cache, target = sys.argv[1:]
settings = Settings(
    lake=lake, landing=landing, cache=cache, start_date=date(2017, 1, 1), spark_remote=remote
)
spark = start_session(settings)
print("begins", flush=True)
CDCLoader(spark).process_cdc(f"{landing}/users", target, f"{target}_watermark", **OPTIONS)
users = debezium(Lakes(spark, settings, None), no_earlier="null")
for day in DAYS:
    users.load(day)
"""


def test_what_is_loaded_after_kills_is_what_a_load_gives(
    lake: Lakes, server: str, settings: Settings, tmp_path: Path
) -> None:
    chance = random.Random(2017)
    target = str(tmp_path / "target")
    users = debezium(lake, no_earlier="null")
    for day, some in zip(DAYS, [(3, 7, 5), (0, 4), (2, 1, 6)], strict=True):
        users.land("users", day, "1.jsonl", [LOG[at] for at in some])
    folders = (settings.lake, settings.landing, str(settings.cache), target)
    for longest in (3, 3, 3, 12, 20, 20):
        child = subprocess.Popen(
            [sys.executable, "-c", LOADS, server, *folders], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        time.sleep(chance.uniform(0.3, longest))
        child.kill()
        child.communicate()

    loader = CDCLoader(lake.spark)
    loader.process_cdc(
        f"{settings.landing}/users",
        target,
        f"{target}_watermark",
        **OPTIONS,  # type: ignore[arg-type]
    )
    users.load(f"{DAYS[0]}...{DAYS[-1]}")

    assert pl.read_delta(target).select(ROW).sort("id").rows() == ENDS
    assert users.rows("silver/users", *ROW) == ENDS
    assert users.rows(HISTORY, *VERSION) == VERSIONS
    later = datetime.now(UTC) + timedelta(days=2)
    for path in (target, users.path("silver/users"), users.path(HISTORY)):
        left = {
            str(file.relative_to(path)) for file in Path(path).glob(f"{INTERMEDIATE}*/*.parquet")
        }
        assert left <= {file.path for file in unreferenced(path, later)}
