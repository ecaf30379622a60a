"""A Spark cluster for tests: a master and a worker in processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from incremental_assets.spark.server import free_port

HOME = Path(pyspark.__file__).parent
LOCALHOST = "127.0.0.1"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone master and one worker in processes of their own; gives the master's URL."""
    port = free_port()
    url = f"spark://{LOCALHOST}:{port}"
    spark_class = str(HOME / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    where = ["--host", LOCALHOST, "--webui-port", "0"]
    master = [spark_class, f"{deploy}.master.Master", *where, "--port", str(port)]
    worker = [spark_class, f"{deploy}.worker.Worker", *where, "--cores", "2", "--memory", "1500m"]
    work = ["--work-dir", str(folder / "work"), url]
    with _running(master, folder, "master"):
        _wait_for(port)
        with _running([*worker, *work], folder, "worker"):
            yield url


@contextmanager
def _running(command: Sequence[str], folder: Path, name: str) -> Iterator[None]:
    """A process in a group of its own, ended with everything that it started."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "SPARK_LOCAL_IP": LOCALHOST},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((LOCALHOST, port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")
