"""`connect` keeps one Spark for a command, and leaves none behind, however the command ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.shop import BIN, Shop
from incremental_assets_tests.thorough import thorough

COUNTS = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
server = os.environ["SPARK_REMOTE"]
token = os.environ.pop("SPARK_CONNECT_AUTHENTICATE_TOKEN")
try:
    SparkSession.builder.remote(server).create().range(3).count()
    stranger = "served"
except Exception as error:
    stranger = "refused" if "UNAUTHENTICATED" in str(error) else str(error)
os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
count = SparkSession.builder.remote(server).create().range(3).count()
Path(sys.argv[1]).write_text(f"{server.rpartition(':')[2]} {count} {stranger}\\n")
try:
    time.sleep(240)
except KeyboardInterrupt:
    sys.exit(7)
"""
SLEEPS = """
import os, sys, time
from pathlib import Path
Path(sys.argv[1]).write_text(os.environ["SPARK_REMOTE"].rpartition(":")[2] + "\\n")
time.sleep(240)
"""
LONG = 240


def start(shop: Shop, script: str, written: Path) -> subprocess.Popen[bytes]:
    words = ["connect", sys.executable, "-c", script, str(written)]
    return subprocess.Popen(
        [str(BIN / "incremental-assets"), *words],
        env=shop.env,
        cwd=shop.home,
        start_new_session=True,
    )


def listens(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


@pytest.mark.parametrize(
    ("ends", "status"),
    [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", 130)],
    ids=["by itself", "by a signal"],
)
def test_when_the_command_has_ended_signals_mean_what_they_did(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, ends: str, status: int
) -> None:
    nowhere = {"SPARK_REMOTE": "sc://127.0.0.1:1"}
    server = "incremental_assets.spark.server.connect_server"
    monkeypatch.setattr(server, lambda _: nullcontext(nowhere))
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    done = shop.ask("connect", sys.executable, "-c", f"import os, signal, sys, time; {ends}")

    assert done.returncode == status
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_command_alone_is_served_and_a_ctrl_c_is_its_own_whose_status_is_given_back(
    shop: Shop, tmp_path: Path
) -> None:
    process, (port, count, stranger) = under_way(shop, COUNTS, tmp_path / "written")
    assert (count, stranger) == ("3", "refused")

    os.killpg(process.pid, signal.SIGINT)  # the terminal's group: the command and its starter

    assert process.wait(timeout=60) == 7
    assert not listens(port)


@thorough(
    "end_to_end/test_connect.py, spark/test_start.py: Ctrl-C, and Java that ends with its process"
)
def test_a_kill_leaves_no_spark_behind(shop: Shop, tmp_path: Path) -> None:
    process, (port,) = under_way(shop, SLEEPS, tmp_path / "written")
    assert listens(port)

    os.killpg(process.pid, signal.SIGKILL)

    assert process.wait(timeout=60) == -signal.SIGKILL
    until(lambda: not listens(port), 60)


def under_way(shop: Shop, script: str, written: Path) -> tuple[subprocess.Popen[bytes], list[str]]:
    """A command that has written what it found, and that."""
    process = start(shop, script, written)
    until(lambda: written.exists() and written.read_text().endswith("\n"), LONG)
    return process, written.read_text().split()
