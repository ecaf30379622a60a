"""A Spark Connect server on this machine, for as long as it is used."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import Settings
from incremental_assets.spark.session import server_conf
from incremental_assets.spark.start import as_properties

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
_SECONDS = 120  # to start on a machine that is busy
_LINES = 5
_PORTS = range(20_000, 32_000)  # Linux gives those from 32,768, macOS and Windows from 49,152
_TRIED_PORTS = 100
# Java ends when the process that started it does, however that ends: their pipe is closed then.
_AS_LONG_AS_ITS_STARTER = (
    'exec 3<&0; "$@" </dev/null 3<&- & java=$!; '
    "(read -r _ <&3; kill $java) 2>/dev/null & exec 3<&-; wait $java"
)


@contextmanager
def connect_server(settings: Settings) -> Iterator[Mapping[str, str]]:
    """Start a server, wait until it answers, stop it at the end; gives the environment to use it.

    It listens on this machine alone, and answers a client with its token. Raises
    SparkUnavailableError if it cannot be started.
    """
    port, token = free_port(), secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory(prefix="incremental-assets-connect-") as folder:
        file = Path(folder) / "spark.conf"
        file.touch(mode=0o600)
        binding = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
        file.write_text(as_properties(server_conf(settings) | binding), encoding="utf-8")
        with _java(Path(folder), file, token, settings.java_home) as process:
            _wait_for(port, process, Path(folder) / "log")
            yield {"SPARK_REMOTE": f"sc://localhost:{port}", _TOKEN: token}


@contextmanager
def _java(
    folder: Path, conf: Path, token: str, java_home: Path | None
) -> Iterator[subprocess.Popen[bytes]]:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    words = [submit, "--properties-file", str(conf), "--class", _SERVER, "spark-internal"]
    environment = {n: v for n, v in os.environ.items() if n != "SPARK_REMOTE"} | {_TOKEN: token}
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _AS_LONG_AS_ITS_STARTER, "sh", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal is for the command, not for Spark
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    what = "ended" if process.poll() is not None else f"did not answer within {_SECONDS} s"
    last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    raise SparkUnavailableError(
        f"The Spark Connect server {what}. Its last lines: {' / '.join(last) or 'none'}. Check "
        "JAVA_HOME and INCREMENTAL_ASSETS_DRIVER_MEMORY."
    )


def free_port() -> int:
    """A port that nobody listens at, for a server that needs its number before it starts.

    It lies below those that systems give to whoever asks for any: a connection that another process
    opens while the server starts does not take it.
    """
    for _ in range(_TRIED_PORTS):
        port = secrets.choice(_PORTS)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port
    raise SparkUnavailableError(
        f"No port of {_PORTS[0]} to {_PORTS[-1]} is free: {_TRIED_PORTS} of them were tried. End "
        "what listens there, and run again."
    )
