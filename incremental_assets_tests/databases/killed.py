"""Tests that are killed leave no server behind."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from incremental_assets_tests.databases.server import HOST

# Starts a server as the tests do, prints its folder and port and is killed.
_KILLED = """
import os, signal, sys
from importlib import import_module
from pathlib import Path
module, name, folder = sys.argv[1:]
with getattr(import_module(module), name).started(Path(folder)) as server:
    print(server.home, server.port, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ends_with_its_tests(server: type, folder: Path) -> None:
    """Assert that a server ends, and removes its folder, when the tests that began it are killed."""
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, server.__module__, server.__name__, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    home, port = killed.stdout.split()
    latest = time.monotonic() + 30
    while Path(home).exists() and time.monotonic() < latest:
        time.sleep(0.05)
    assert not Path(home).exists()
    with socket.socket() as client:
        assert client.connect_ex((HOST, int(port))) == errno.ECONNREFUSED
