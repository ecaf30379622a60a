"""Ports for servers that need a number before they start."""

from __future__ import annotations

import socket

import pytest

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.spark import server
from incremental_assets.spark.server import free_port


def test_a_port_is_none_that_the_system_gives_to_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert all(20_000 <= free_port() < 32_768 for _ in range(50))

    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(server, "_PORTS", range(port, port + 1))
        with pytest.raises(SparkUnavailableError, match=rf"No port of {port} to {port} is free"):
            free_port()
