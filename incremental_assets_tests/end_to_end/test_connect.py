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
Path(sys.argv[1]).write_text(f"{count} {server.rpartition(':')[2]} {stranger}")
sys.exit(7)
"""
SLEEPS = """
import os, sys, time
from pathlib import Path
Path(sys.argv[1]).write_text(os.environ["SPARK_REMOTE"].rpartition(":")[2])
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


def test_when_the_command_has_ended_signals_mean_what_they_did(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = {"SPARK_REMOTE": "sc://127.0.0.1:1"}
    server = "incremental_assets.spark.server.connect_server"
    monkeypatch.setattr(server, lambda _: nullcontext(nowhere))
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    done = shop.ask("connect", sys.executable, "-c", "import sys; sys.exit(7)")

    assert done.returncode == 7
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_command_alone_is_served_by_a_spark_and_its_status_is_given_back(
    shop: Shop, tmp_path: Path
) -> None:
    written = tmp_path / "written"

    status = start(shop, COUNTS, written).wait(timeout=LONG)

    count, port, stranger = written.read_text().split()
    assert (status, count, stranger) == (7, "3", "refused")
    assert not listens(port)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_no_spark_is_left_behind(shop: Shop, tmp_path: Path, by: signal.Signals) -> None:
    written = tmp_path / "written"
    process = start(shop, SLEEPS, written)
    until(lambda: written.exists() and bool(written.read_text()), LONG)
    port = written.read_text()
    assert listens(port)

    os.killpg(process.pid, by)  # the terminal's own group: the command and its starter

    assert process.wait(timeout=60) == (130 if by is signal.SIGINT else -by)
    until(lambda: not listens(port), 60)
