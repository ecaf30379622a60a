"""`dagster dev` for real: webserver, daemon and code server, and the GraphQL that the UI asks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from incremental_assets.days import parse_days
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.spark.server import free_port
from incremental_assets_tests.end_to_end.shop import BIN, Shop

QUICK = {
    "poll_interval_seconds: 30": "poll_interval_seconds: 3",
    "start_timeout_seconds: 3600": "start_timeout_seconds: 45",
    "retry_delay: 30": "retry_delay: 3\n  dequeue_interval_seconds: 1",
}
LAUNCH_BACKFILL = """
mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) {
  __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
LAUNCH_RUN = """
mutation($p: ExecutionParams!) { launchPipelineExecution(executionParams: $p) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""
START_SENSOR = """
mutation($s: SensorSelector!) { startSensor(sensorSelector: $s) {
  __typename ... on Sensor { name } ... on PythonError { message } } }
"""
PARTITIONS = """
query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) {
  ... on AssetNode { partitionKeys } } }
"""
FRESHNESS = """
query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) {
  ... on AssetNode { freshnessStatusInfo { freshnessStatus } } } }
"""
STATUS = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) {
  ... on PartitionBackfill { status runs(limit: 20) { status }
    assetBackfillData { assetBackfillStatuses { ... on AssetPartitionsStatusCounts {
      assetKey { path } numPartitionsTargeted } } } } } }
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
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from refused
        assert "errors" not in found, found
        data: dict[str, Any] = found["data"]
        return data

    def is_up(self) -> bool:
        try:
            return bool(self.ask("{ version }"))
        except (urllib.error.URLError, OSError):
            return False

    def materialize(self, location: str, names: Sequence[str], day: str) -> str:
        """What the button "Materialize" does for one partition; gives the id of the run."""
        params = {
            "selector": {
                "repositoryLocationName": location,
                "repositoryName": "__repository__",
                "pipelineName": "__ASSET_JOB",
                "assetSelection": [{"path": name.split("/")} for name in names],
            },
            "mode": "default",
            "runConfigData": {},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}]},
        }
        launched = self.ask(LAUNCH_RUN, p=params)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id: str = launched["run"]["runId"]
        return run_id

    def backfill(self, names: Sequence[str], first: str, last: str) -> str:
        """A backfill of the days, both included, as *Materialize all* asks for it; gives its id."""
        wanted = [{"path": name.split("/")} for name in names]
        days = [str(day) for day in parse_days(f"{first}...{last}")]
        answer = self.ask(LAUNCH_BACKFILL, p={"assetSelection": wanted, "partitionNames": days})
        launched = answer["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        backfill_id: str = launched["backfillId"]
        return backfill_id

    def partitions(self, name: str) -> list[str]:
        """The partitions of an asset, as its page shows them."""
        answer = self.ask(PARTITIONS, key={"path": name.split("/")})["assetNodeOrError"]
        keys: list[str] = answer["partitionKeys"]
        return keys

    def freshness(self, name: str) -> str:
        """What the page of an asset says of its freshness: HEALTHY where it is fresh."""
        answer = self.ask(FRESHNESS, key={"path": name.split("/")})["assetNodeOrError"]
        status: str = answer["freshnessStatusInfo"]["freshnessStatus"]
        return status

    def start_sensor(self, location: str, name: str) -> None:
        """Switch a sensor on, as the UI does."""
        selector = {
            "repositoryLocationName": location,
            "repositoryName": "__repository__",
            "sensorName": name,
        }
        started = self.ask(START_SENSOR, s=selector)["startSensor"]
        assert started["__typename"] == "Sensor", started

    def ended(self, backfill_id: str, seconds: float) -> dict[str, Any]:
        """The status of a backfill and of its runs, once it has one that is final."""
        seen: dict[str, Any] = {}

        def done() -> bool:
            seen.update(self.ask(STATUS, id=backfill_id)["partitionBackfillOrError"])
            return seen["status"] not in ("REQUESTED", "IN_PROGRESS", "FAILING", "CANCELING")

        until(done, seconds)
        return seen


class Dev:
    """`dagster dev …` that can be killed, whole or in part, and started again.

    Its daemon looks every few seconds for what it looks for; only how often it looks is changed.
    """

    def __init__(self, shop: Shop, *words: str) -> None:
        config = shop.home / "dagster.yaml"
        text = config.read_text()
        for usual, quick in QUICK.items():
            assert usual in text
            text = text.replace(usual, quick)
        config.write_text(text)
        shop.env |= {"INCREMENTAL_ASSETS_SENSOR_SECONDS": "2", "PYTHONPATH": str(PROJECT_ROOT)}
        self._shop = shop
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> Web:
        """Start it on a free port, and wait until it answers."""
        self.port = free_port()
        self._process = subprocess.Popen(
            [str(BIN / "dagster"), "dev", *self._words, "-h", "127.0.0.1", "-p", str(self.port)],
            env={**self._shop.env, "PATH": f"{BIN}:{os.environ['PATH']}"},
            cwd=self._shop.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        web = Web(self.port)
        until(web.is_up, 120)
        return web

    def stop(self) -> None:
        """End it as Ctrl-C does, and everything that it started."""
        process = self._running
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """`kill -9` of it and of everything that it started: the power is gone."""
        process = self._running
        for pid in [process.pid, *started_by(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=60)

    def kill_daemon(self) -> None:
        """`kill -9` of the daemon alone; runs may go on, `dagster dev` ends by itself."""
        process = self._running
        for pid, command in started_by(process.pid).items():
            if "daemon run" in command:
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=120)

    def sparks(self) -> list[tuple[int, int]]:
        """The JVMs of the runs that it launched, each with the process of its run."""
        found = started_by(self._running.pid)
        return [
            (pid, _parent(pid))
            for pid, arguments in found.items()
            if "java" in arguments.split(" ")[0]
        ]

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process


@contextmanager
def dagster_dev(shop: Shop, *words: str) -> Iterator[Web]:
    """`dagster dev …` until the block is left, and everything that it started."""
    dev = Dev(shop, *words)
    web = dev.start()
    try:
        yield web
    finally:
        dev.stop()


def started_by(pid: int) -> dict[int, str]:
    """The processes below a process, with their command lines."""
    parents = {p: _parent(p) for p in (int(f.name) for f in _processes())}
    found: dict[int, str] = {}
    above = {pid}
    while above:
        above = {p for p, parent in parents.items() if parent in above}
        for each in above:
            with suppress(OSError):
                found[each] = Path(f"/proc/{each}/cmdline").read_text().replace("\0", " ")
    return found


def _processes() -> Iterator[Path]:
    return (folder for folder in Path("/proc").iterdir() if folder.name.isdigit())


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def until(true: Callable[[], bool], seconds: float) -> None:
    """Ask until it is true; an AssertionError after that many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"still not so after {seconds} s"
        time.sleep(0.5)
