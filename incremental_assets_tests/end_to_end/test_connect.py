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
from incremental_assets_tests.end_to_end.shop import BIN, Shop, kill_group

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
time.sleep(240)
"""
SLEEPS = """
import os, sys, time
from pathlib import Path
Path(sys.argv[1]).write_text(os.environ["SPARK_REMOTE"].rpartition(":")[2])
time.sleep(240)
"""
LONG = 240


def start(shop: Shop, script: str, told: Path) -> subprocess.Popen[bytes]:
    words = ["connect", sys.executable, "-c", script, str(told)]
    return subprocess.Popen(
        [str(BIN / "incremental-assets"), *words],
        env=shop.env,
        cwd=shop.home,
        start_new_session=True,
    )


def listens(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def test_the_status_of_the_command_is_given_back_and_signals_mean_what_they_did(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = {"SPARK_REMOTE": "sc://127.0.0.1:1"}
    server = "incremental_assets.spark.server.connect_server"
    monkeypatch.setattr(server, lambda _: nullcontext(nowhere))
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    done = shop.ask("connect", sys.executable, "-c", "import sys; sys.exit(7)")

    assert done.returncode == 7
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_command_alone_is_served_by_a_spark_that_a_ctrl_c_leaves_not_behind(
    shop: Shop, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    process = start(shop, COUNTS, told)
    count, port, stranger = words_in(told, 3)
    assert (count, stranger) == ("3", "refused")
    assert listens(port)

    os.killpg(process.pid, signal.SIGINT)  # the terminal's own group: the command and its starter

    assert process.wait(timeout=60) == 130
    until(lambda: not listens(port), 60)


def test_no_spark_is_left_behind_by_a_kill(shop: Shop, tmp_path: Path) -> None:
    told = tmp_path / "told"
    process = start(shop, SLEEPS, told)
    (port,) = words_in(told, 1)
    assert listens(port)

    kill_group(process)

    assert process.returncode == -signal.SIGKILL
    until(lambda: not listens(port), 60)


def words_in(told: Path, number: int) -> list[str]:
    """What a script wrote, once it has written so many words."""
    until(told.exists, LONG)
    until(lambda: len(told.read_text().split()) == number, 10)
    return told.read_text().split()
