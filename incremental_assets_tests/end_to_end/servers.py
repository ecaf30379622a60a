"""Real Spark servers for tests: a Spark Connect server, and a master with a worker."""

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

HOME = Path(pyspark.__file__).parent
LOCALHOST = "127.0.0.1"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
# It lives for some minutes and a few rows: as the embedded Spark, it is over before a second
# compiler, fifty tasks for a snapshot and the text of each plan pay off.
_SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.ui.explainMode": "simple",
}


@contextmanager
def connect_server(folder: Path, jars: Sequence[Path]) -> Iterator[str]:
    """A Spark Connect server with Delta on its class path; gives its URL."""
    port = _free_port()
    conf = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.connect.grpc.binding.address": LOCALHOST,
        "spark.connect.grpc.binding.port": str(port),
        **_SMALL,
    }
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--class", CONNECT, *words, "spark-internal"]
    with _running(command, folder, "connect"):
        _wait_for(port)
        yield f"sc://{LOCALHOST}:{port}"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone master and one worker in processes of their own; gives the master's URL."""
    port = _free_port()
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


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((LOCALHOST, 0))
        port: int = taken.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex((LOCALHOST, port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")
