"""Events that lack fields which did not change, loaded on a Connect server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from incremental_assets.settings import Settings
from incremental_assets.spark.load_session import INTERMEDIATE
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_unchanged import DAYS, LOG, MARKED, debezium
from incremental_assets_tests.thorough import thorough

# In a process of its own: one that has a Spark takes no other.
REMOTE = """
import sys
from datetime import date
import polars as pl
from incremental_assets.loaders import CDCLoader
from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session
from incremental_assets_tests.feeds.test_unchanged import *
remote, lake, landing, cache = sys.argv[1:]
settings = Settings(
    lake=lake, landing=landing, cache=cache, start_date=date(2017, 1, 1), spark_remote=remote
)
bronze, _, history = tables(ChangeLog.debezium())
users = Lake(start_session(settings), settings, bronze, history)
users.load(f"{DAYS[0]}...{DAYS[1]}")
found = [users.rows(HISTORY, *VERSION) == VERSIONS]
target, watermarks = f"{lake}_target", f"{lake}_watermarks"
CDCLoader(users.spark).process_cdc(
    f"{landing}/flat", target, watermarks, primary_key="id", table_name="users",
    cdc_format="flat", placeholder=MARKED,
)
found.append(pl.read_delta(target).select(ROW).sort("id").rows() == ENDS)
print(found)
"""


@thorough(
    "feeds/test_unchanged.py, end_to_end/test_own_tables.py: the same embedded, and other tables over a server"
)
def test_a_connect_server_gives_the_same(lake: Lakes, server: str, settings: Settings) -> None:
    users = debezium(lake)
    users.land("users", DAYS[0], "1.jsonl", LOG[:4])
    users.land("users", DAYS[1], "1.jsonl", LOG[4:])
    flat = [
        {"operation": "upsert", "sequence_num": n, "id": 1 + n // 2, "name": name, "notes": notes}
        for n, (name, notes) in enumerate(
            [("Ann", "longer"), ("Anne-Marie", MARKED), ("Bo", "new text"), ("Bobby", MARKED)]
        )
    ]
    users.land("flat", "", "1.jsonl", flat)
    folders = (settings.lake, settings.landing, str(settings.cache))

    done = subprocess.run(
        [sys.executable, "-c", REMOTE, server, *folders],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines()[-1:] == ["[True, True]"], done.stderr
    assert not [*Path(settings.lake).rglob(f"{INTERMEDIATE}*")]
