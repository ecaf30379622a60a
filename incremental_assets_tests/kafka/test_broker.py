"""The broker that other tests take for granted: offsets, transactions, and how it ends."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from incremental_assets_tests.databases.server import HOST
from incremental_assets_tests.kafka.broker import Broker, Message

# Starts a broker as the tests do, prints its folder and port and is killed.
KILLED = """
import os, signal, sys
from pathlib import Path
from incremental_assets_tests.kafka.broker import Broker
with Broker.started(Path(sys.argv[1])) as server:
    print(server.home, server.port, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_each_message_and_each_end_of_a_transaction_has_an_offset(
    broker: Broker, topic: str
) -> None:
    broker.send(topic, [Message("a"), Message(None, "b")])
    broker.send_in_transaction(topic, [Message("c")], commit=False)

    assert broker.ends(topic) == {0: 4}


def test_the_broker_ends_with_the_tests_that_were_killed(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert killed.returncode == -signal.SIGKILL
    folder, port = killed.stdout.split()
    home = Path(folder)
    latest = time.monotonic() + 30
    while home.exists() and time.monotonic() < latest:
        time.sleep(0.05)
    assert not home.exists()
    with socket.socket() as client:
        assert client.connect_ex((HOST, int(port))) == errno.ECONNREFUSED
