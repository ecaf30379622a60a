"""`dagster dev` for real: webserver and daemon over workspace.yaml, and a backfill from the UI."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.shop import BIN, SILVER_SALES, Shop
from incremental_assets_tests.scenarios.world import TABLES, sales

LAUNCH = """
mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
STATUS = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status runs(limit: 20) { status } } } }
"""


class Web:
    """The GraphQL of a running webserver."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/graphql"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            self._url, body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        data: dict[str, Any] = found["data"]
        return data

    def is_up(self) -> bool:
        try:
            return bool(self.ask("{ version }"))
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture
def web(shop: Shop) -> Iterator[Web]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workspace = str(PROJECT_ROOT / "workspace.yaml")
    process = subprocess.Popen(
        [str(BIN / "dagster"), "dev", "-w", workspace, "-h", "127.0.0.1", "-p", str(port)],
        env={**shop.env, "PATH": f"{BIN}:{os.environ['PATH']}"},
        cwd=shop.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        web = Web(port)
        _until(web.is_up, 120)
        yield web
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_backfill_of_days_loads_them_in_one_run_and_shows_them_green(
    shop: Shop, web: Web, spark: SparkSession
) -> None:
    world = shop.world(spark)
    for day in ("2017-01-05", "2017-01-06"):
        world.land("events", day, "a.jsonl", sales(day, day, 10))
    span = {"range": {"start": "2017-01-05", "end": "2017-01-06"}}
    wanted = [{"assetKey": {"path": name.split("/")}, "partitions": span} for name in TABLES]

    launched = web.ask(LAUNCH, p={"partitionsByAssets": wanted})["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    seen: dict[str, Any] = {}

    def done() -> bool:
        seen.update(web.ask(STATUS, id=launched["backfillId"])["partitionBackfillOrError"])
        return seen["status"] not in ("REQUESTED", "IN_PROGRESS")

    _until(done, 400)

    assert seen["status"] == "COMPLETED_SUCCESS", seen
    assert [run["status"] for run in seen["runs"]] == ["SUCCESS"]
    assert len(world.orders("gold/sales_mart")) == 20
    with shop.instance() as instance:
        found = instance.get_materialized_partitions(SILVER_SALES)
    assert found == {"2017-01-05", "2017-01-06"}


def _until(true: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"still not so after {seconds} s"
        time.sleep(0.5)
