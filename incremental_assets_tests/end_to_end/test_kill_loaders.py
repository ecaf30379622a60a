"""kill -9 of a process that runs the loaders, at random moments: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.query import query
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end import loaders_rounds as rounds
from incremental_assets_tests.end_to_end.shop import kill_group
from incremental_assets_tests.thorough import thorough

KILLS = 3

pytestmark = thorough("loaders/test_killed_at_each_commit.py: in the process of the tests")


def start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "incremental_assets_tests.end_to_end.loaders_rounds", str(folder)],
        cwd=PROJECT_ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def shown(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(query(DeltaTable(str(path))).select(columns).rows(), key=str)


def history(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The versions of each key, by the plainest means."""
    found: list[tuple[Any, ...]] = []
    for id_ in frame["id"].unique():
        now: tuple[str, int] | None = None
        for name, operation, at in (
            frame.filter(id=id_).sort("seq").select("name", "operation", "seq").rows()
        ):
            deleted = operation == "DELETE"
            if now is not None and (deleted or now[0] != name):
                found.append((id_, *now, at, False))
                now = None
            if now is None and not deleted:
                now = (name, at)
        if now is not None:
            found.append((id_, *now, None, True))
    return sorted(found, key=str)


@pytest.mark.parametrize("seed", [20240501])
def test_the_loaders_go_on_after_kills_as_if_there_had_been_none(tmp_path: Path, seed: int) -> None:
    every = pl.concat(rounds.write_feed(tmp_path / "feed"))
    moments = random.Random(seed)
    killed = 0
    for _ in range(KILLS):
        process = start(tmp_path)
        deadline = time.monotonic() + 120
        before = len(list(tmp_path.rglob("*.json")))
        while len(list(tmp_path.rglob("*.json"))) == before and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 4))
        if process.poll() is None:
            kill_group(process)
            killed += 1
    assert killed > 1

    assert start(tmp_path).wait(timeout=300) == 0

    last = every.sort("seq").unique("id", keep="last")
    live = last.filter(pl.col("operation") != "DELETE")
    rows = sorted(every.select("id", "seq").rows(), key=str)
    assert shown(tmp_path / rounds.APPENDED, "id", "seq") == rows
    assert shown(tmp_path / rounds.NUMBERED, "id", "seq") == rows
    assert shown(tmp_path / rounds.LIVE, "id", "name") == sorted(live.select("id", "name").rows())
    versions = shown(
        tmp_path / rounds.VERSIONS, "id", "name", "valid_from", "valid_to", "is_current"
    )
    assert versions == history(every)
    assert shown(tmp_path / rounds.COPIED, "id", "seq") == sorted(last.select("id", "seq").rows())
